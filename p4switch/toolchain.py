"""The C compiler, the cache directory and the runtime library.

Everything that is compiled is kept by content hash: a path in the cache names exactly the sources, the flags and the
compiler that made it, so that nothing ever goes stale and several processes can share the cache.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent
RUNTIME = PACKAGE / "runtime"
FLAGS = ("-O2", "-g1", "-std=gnu11", "-fPIC", "-fno-semantic-interposition", "-w")
# -Bsymbolic: a second runtime in one process, of another cache directory, calls its own functions, not the first one's.
LINK_FLAGS = ("-shared", "-pthread", "-Wl,-Bsymbolic")
LIBRARY = "libp4rt.so"
KEPT_DAYS = 30


class BuildError(Exception):
    """A program could not be built for a reason outside of its source: the message says what and what to do."""


def default_cache_dir() -> Path:
    """Where compiled programs are kept: $P4SWITCH_CACHE, else p4switch in $XDG_CACHE_HOME, else in ~/.cache."""
    if own := os.environ.get("P4SWITCH_CACHE"):
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "p4switch"


@cache
def compiler() -> str:
    """Find the C compiler: $CC, else cc. Raises BuildError."""
    wanted = os.environ.get("CC") or "cc"
    path = shutil.which(wanted)
    if path is None:
        raise BuildError(
            f"there is no C compiler '{wanted}' on the PATH; install one"
            " (Debian, Ubuntu: apt-get install gcc libc6-dev) or name it in the environment variable CC"
        )
    return path


def abi_version() -> int:
    """Read P4_ABI_VERSION from the runtime's header."""
    found = re.search(r"#define\s+P4_ABI_VERSION\s+(\d+)", (RUNTIME / "p4rt.h").read_text())
    if found is None:
        raise BuildError(f"{RUNTIME / 'p4rt.h'} does not define P4_ABI_VERSION; install p4switch again")
    return int(found.group(1))


def digest(*parts: bytes | str) -> str:
    """Hash parts, each with its length, to a short hexadecimal name."""
    h = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        h.update(b"%d:" % len(data))
        h.update(data)
    return h.hexdigest()[:24]


def hash_files(files: Sequence[Path], root: Path) -> str:
    """Hash the names (relative to root) and contents of files."""
    return digest(*(part for f in files for part in (str(f.relative_to(root)), f.read_bytes())))


@cache
def runtime_key() -> str:
    """Hash what compiled code depends on: the runtime's sources, the flags and the compiler."""
    path = Path(compiler()).resolve()
    status = path.stat()
    files = sorted([*RUNTIME.glob("*.c"), *RUNTIME.glob("*.h")])
    return digest(hash_files(files, RUNTIME), *FLAGS, *LINK_FLAGS, f"{path} {status.st_size} {status.st_mtime_ns}")


# ------------------------------------------------------------------------------------------------------------- cache


def explain(error: OSError, directory: Path) -> BuildError:
    """Turn a failed write to the cache into a message that says what to do."""
    reason = error.strerror or str(error)
    advice = "free some space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "make it writable"
    return BuildError(
        f"cannot write to the cache directory {directory}: {reason}; {advice}, or name another directory in the"
        " environment variable P4SWITCH_CACHE"
    )


@contextmanager
def locked(directory: Path, name: str) -> Iterator[None]:
    """Hold a lock file, so that of several processes that want the same thing one makes it and the others find it."""
    import fcntl

    try:
        directory.mkdir(parents=True, exist_ok=True)
        with open(directory / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    except OSError as error:
        if error.filename is not None and not str(error.filename).startswith(str(directory)):
            raise  # not the cache's fault
        raise explain(error, directory) from error


@contextmanager
def new_directory(target: Path) -> Iterator[Path]:
    """Give a scratch directory that becomes `target` in one step, or is removed if the block fails."""
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        yield scratch
        if target.exists():  # what an interrupted or older version left
            shutil.rmtree(target)
        scratch.rename(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def mark_used(entry: Path) -> None:
    """Note that a cache entry is in use, for `prune`."""
    with suppress(OSError):  # a cache that is only readable is as good
        os.utime(entry)


def prune(cache_dir: Path, days: float = KEPT_DAYS) -> None:
    """Remove what nobody has used for so many days. What a running switch has loaded stays in memory."""
    oldest = time.time() - days * 86400
    for entry in cache_dir.iterdir():
        with suppress(OSError):
            if entry.suffix == ".lock" or entry.stat().st_mtime > oldest:
                continue
            if entry.is_dir():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink()


# ---------------------------------------------------------------------------------------------------------- compiling


def run_compiler(arguments: Sequence[str | Path], what: str) -> None:
    """Run cc; BuildError with its first messages when it fails."""
    import subprocess

    done = subprocess.run([compiler(), *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode:
        messages = (done.stderr or done.stdout).strip().splitlines()
        if any(os.strerror(errno.ENOSPC) in line for line in messages):
            raise BuildError(f"{os.strerror(errno.ENOSPC)} while compiling {what}; free some space and try again")
        raise BuildError(f"{compiler()} failed on {what}:\n" + "\n".join(f"  {line}" for line in messages[:12]))


def runtime_library(cache_dir: Path | None = None) -> Path:
    """Give the shared library of the runtime, compiled on first use. Raises BuildError.

    Load it with RTLD_GLOBAL or just before a program: programs are linked against this very file.
    """
    cache_dir = cache_dir or default_cache_dir()
    directory = cache_dir / f"runtime-{runtime_key()}"
    library = directory / LIBRARY
    if library.exists():
        mark_used(directory)
        return library
    with locked(cache_dir, "runtime"):
        if not library.exists():
            with new_directory(directory) as scratch:
                _compile_runtime(scratch)
    return library


def _compile_runtime(directory: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    sources = sorted(RUNTIME.glob("*.c"))
    if not sources:
        raise BuildError(f"{RUNTIME} holds no C sources; install p4switch again")

    def compile_one(source: Path) -> Path:
        target = directory / f"{source.stem}.o"
        run_compiler([*FLAGS, "-pthread", "-c", source, "-o", target], source.name)
        return target

    with ThreadPoolExecutor(max_workers=max(os.cpu_count() or 1, 2)) as pool:
        objects = list(pool.map(compile_one, sources))
    run_compiler([*LINK_FLAGS, *objects, "-ldl", "-lm", "-o", directory / LIBRARY], "the runtime")
    for each in objects:
        each.unlink()


def compile_program(source: Path, library: Path, runtime: Callable[[], Path], traced: bool = False) -> None:
    """Compile the C file of a program into a shared library that is linked against the runtime.

    runtime gives the runtime's library; it is asked for when the program is compiled, so that both can be compiled at
    the same time. traced: the program tells what it does with each packet (P4_TRACE in p4rt.h).
    """
    flags = [*FLAGS, "-DP4_TRACED"] if traced else FLAGS
    object_file = library.with_suffix(".o")
    run_compiler([*flags, f"-I{RUNTIME}", "-c", source, "-o", object_file], f"the C code generated in {source}")
    path = runtime()
    run_compiler(
        [*LINK_FLAGS, object_file, path, f"-Wl,-rpath,{path.parent}", "-o", library], f"the program {object_file}"
    )
    object_file.unlink()
