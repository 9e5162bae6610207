"""Run a function in namespaces of its own, so that whatever it starts ends with it.

The fabric lives in a network, a mount and a process namespace. Cables, switches and GPUs vanish with them on every way
out, a SIGKILL included: when the process namespace's first process ends, the kernel ends all others in it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Final, NoReturn

from topologies.errors import LaunchError

# <linux/sched.h>, <sys/mount.h>, <sys/prctl.h>: Python 3.11 has none of these calls.
CLONE_NEWNS: Final = 0x00020000
CLONE_NEWPID: Final = 0x20000000
CLONE_NEWNET: Final = 0x40000000
MS_REC: Final = 0x4000
MS_PRIVATE: Final = 0x40000
PR_SET_PDEATHSIG: Final = 1

SI_USER: Final = 0

HANDLED: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD})

_libc = ctypes.CDLL(None, use_errno=True)


def run_isolated(body: Callable[[], int], on_start: Callable[[int], None] = lambda pid: None) -> int:
    """Run `body` in a child process with namespaces of its own and return the exit status it returns.

    `on_start` is called here with the child's process id as this namespace sees it: what a tool needs to enter the
    fabric. SIGINT, SIGTERM and SIGHUP are passed on to the body; when this process dies, the body and all it started
    die with it. A body ended by a signal gives 128 + its number. Raises LaunchError where the kernel refuses.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
    parent = os.getpid()
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        _become_first_process(body, parent, write_end)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        report = pipe.readline()
    if not report.startswith("started "):
        os.waitpid(child, 0)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
        raise LaunchError(
            f"cannot make the fabric's namespaces: {report.strip() or 'the child ended at once'}",
            "It needs a kernel with network, mount and process namespaces, and root in the initial namespaces.",
        )
    first = int(report.split()[1])
    on_start(first)
    status = _wait(child, forward_to=first)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
    return status


@contextlib.contextmanager
def network_of(pid: int) -> Iterator[None]:
    """Be in the network namespace of another process; sockets that are opened there stay there.

    Only the calling thread changes. Raises OSError.
    """
    with open("/proc/self/ns/net") as home, open(f"/proc/{pid}/ns/net") as there:
        _call("setns", _libc.setns(there.fileno(), CLONE_NEWNET))
        try:
            yield
        finally:
            _call("setns", _libc.setns(home.fileno(), CLONE_NEWNET))


def _become_first_process(body: Callable[[], int], parent: int, report: int) -> NoReturn:
    """Enter the namespaces and start their first process; only children are in a new process namespace."""
    try:
        _die_with_parent()
        if os.getppid() != parent:  # it died before the call
            os._exit(1)
        _call("unshare", _libc.unshare(CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWPID))
    except OSError as error:
        os.write(report, f"{error.strerror}\n".encode())
        os._exit(1)
    first = os.fork()
    if first:
        os.write(report, f"started {first}\n".encode())
        os.close(report)
        # Signals stay blocked here: the body decides what they mean.
        os._exit(_exit_status(os.waitpid(first, 0)[1]))
    os.close(report)
    status = 1
    try:
        _die_with_parent()
        _call("make mounts private", _libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
        _call("mount /proc", _libc.mount(b"proc", b"/proc", b"proc", 0, None))
        with contextlib.suppress(OSError):
            # Shows this namespace's interfaces, whose state BMv2 reads there; some containers refuse it.
            _call("mount /sys", _libc.mount(b"sysfs", b"/sys", b"sysfs", 0, None))
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True, capture_output=True)
        worker = os.fork()
        if worker == 0:
            _run_body(body)
        status = _wait(worker, forward_to=worker)
    except (OSError, subprocess.CalledProcessError) as error:
        os.write(2, f"cannot set up the fabric's namespaces: {error}\n".encode())
    os._exit(status)


def _run_body(body: Callable[[], int]) -> NoReturn:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
    status = 1
    try:
        status = body()
    except SystemExit as leaving:
        status = leaving.code if isinstance(leaving.code, int) else 1
    except BaseException:  # shown here, since no frame of the parent may go on in this child
        traceback.print_exc()
    with contextlib.suppress(OSError):  # whoever read it may be gone
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


def _wait(child: int, forward_to: int) -> int:
    """Return the exit status of `child`; reap other children, and pass signals on meanwhile.

    What the terminal sends (Ctrl-C, hang-up) has reached every process of the group already; only signals from other
    processes are passed on, so that the body sees each once.
    """
    while True:
        got = signal.sigwaitinfo(HANDLED)
        if got.si_signo != signal.SIGCHLD:
            if got.si_code == SI_USER:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(forward_to, got.si_signo)
            continue
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == child:
                return _exit_status(status)
            if pid == 0:
                break


def _die_with_parent() -> None:
    _call("prctl", _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))


def _call(what: str, result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _exit_status(wait_status: int) -> int:
    if os.WIFSIGNALED(wait_status):
        return 128 + os.WTERMSIG(wait_status)
    return os.WEXITSTATUS(wait_status)
