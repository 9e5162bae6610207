"""The command line: p4switch compile | run | stf | trace."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from p4switch.toolchain import BuildError

if TYPE_CHECKING:
    from finsy.proto.p4.config.v1.p4info_pb2 import P4Info

    from p4switch.build import BuildResult

DUMPS = ("tokens", "ast", "ir", "c")


class UsageError(Exception):
    """An argument that makes no sense; the message says which and what would."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; give the exit status: 0 good, 1 failed, 2 wrong usage."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except UsageError as error:
        print(f"p4switch {options.command}: {error}", file=sys.stderr)
        return 2
    except BuildError as error:
        print(f"p4switch: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of --dump went away
        sys.stderr.close()
        return 1
    except OSError as error:
        print(f"p4switch: {error.filename or ''}: {error.strerror or error}", file=sys.stderr)
        return 1
    except Exception as error:
        # CompileError is the front end's; it is not imported where nothing is compiled.
        if type(error).__name__ != "CompileError":
            raise
        print(error, file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="p4switch", description="Compile P4_16 programs for v1model and run them as native switches."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_compile(commands.add_parser("compile", help="compile a program, write its P4Info and .p4bin"))
    _add_run(commands.add_parser("run", help="run a switch with a P4Runtime server"))
    _add_trace(commands.add_parser("trace", help="tell what happens to a packet in a program, step by step"))
    _add_stf(commands.add_parser("stf", help="run an STF packet test of a program"))
    return parser


def _add_source_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-I", dest="include", metavar="DIR", type=Path, action="append", default=[], help="include path"
    )
    parser.add_argument("-D", dest="define", metavar="NAME[=VALUE]", action="append", default=[], help="define a macro")
    parser.add_argument("--cache-dir", metavar="DIR", type=Path, help="where compiled programs are kept")


def _defines(options: argparse.Namespace) -> dict[str, str]:
    pairs = (text.partition("=") for text in options.define)
    return {name: value if equals else "1" for name, equals, value in pairs}


def _build(options: argparse.Namespace, traced: bool = False) -> BuildResult:
    """Build the program that is given as source or as a .p4bin."""
    from p4switch.build import build, load_container

    if options.file.suffix == ".p4bin":
        return load_container(options.file.read_bytes(), options.cache_dir, traced)
    return build(options.file, options.include, _defines(options), options.cache_dir, traced)


# ---------------------------------------------------------------------------------------------------------- compile


def _add_compile(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Compile a program down to a shared library, kept in the cache. With -o, write DIR/NAME.p4info.txtpb and "
        "DIR/NAME.p4bin: what a P4Runtime controller pushes to a switch."
    )
    parser.add_argument("file", metavar="FILE.p4", type=Path)
    parser.add_argument("-o", dest="output", metavar="DIR", type=Path, help="write P4Info and .p4bin into DIR")
    parser.add_argument(
        "--p4info", metavar="FILE", type=Path, help="write the P4Info alone: .txtpb or .txt text, .bin binary"
    )
    parser.add_argument("--dump", choices=DUMPS, help="print a stage of the compilation and stop")
    _add_source_options(parser)
    parser.set_defaults(run=_compile)


def _compile(options: argparse.Namespace) -> int:
    if options.dump:
        _dump(options)
        return 0
    if options.p4info and options.p4info.suffix not in (".txtpb", ".txt", ".bin"):
        raise UsageError(f"--p4info {options.p4info}: the suffix says the format; use .txtpb, .txt or .bin")
    if options.p4info and not options.output:
        _compile_p4info(options)
        return 0
    result = _build(options)
    if options.output:
        options.output.mkdir(parents=True, exist_ok=True)
        _write_p4info(result.p4info, options.output / f"{result.name}.p4info.txtpb")
        (options.output / f"{result.name}.p4bin").write_bytes(result.container)
    if options.p4info:
        _write_p4info(result.p4info, options.p4info)
    return 0


def _compile_p4info(options: argparse.Namespace) -> None:
    """Write P4Info without compiling C, also for programs with externs that p4switch cannot run."""
    from p4switch.frontend import compile_p4
    from p4switch.p4info import p4info_of

    program = compile_p4(options.file, options.include, _defines(options), control_plane_only=True)
    for warning in program.warnings:
        print(warning, file=sys.stderr)
    _write_p4info(p4info_of(program), options.p4info)


def _write_p4info(info: P4Info, path: Path) -> None:
    if path.suffix == ".bin":
        path.write_bytes(info.SerializeToString(deterministic=True))
    else:
        from p4switch.p4info import text_of

        path.write_text(text_of(info))


def _dump(options: argparse.Namespace) -> None:
    if options.dump == "c":
        from p4switch.build import compile_container

        print(compile_container(options.file, options.include, _defines(options)).c_source)
        return
    from p4switch.frontend import dump

    print(dump(options.file, options.dump, options.include, _defines(options)))


# ------------------------------------------------------------------------------------------------------------- stf


def _add_stf(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run an STF test: frames are injected and run to completion without interfaces and without root. Exit status 0 "
        "if every expectation was met, 1 otherwise."
    )
    parser.add_argument("file", metavar="FILE.p4", type=Path)
    parser.add_argument("script", metavar="FILE.stf", type=Path)
    parser.add_argument("--trace", action="store_true", help="tell on stderr what happens to each packet")
    _add_source_options(parser)
    parser.set_defaults(run=_stf)


def _stf(options: argparse.Namespace) -> int:
    from p4switch.stf import StfError, run_stf

    try:
        failures = run_stf(_build(options, options.trace), options.script, options.trace)
    except StfError as error:
        print(error, file=sys.stderr)
        return 1
    for failure in failures:
        print(failure)
    return 1 if failures else 0


# ----------------------------------------------------------------------------------------------------------- trace


def _add_trace(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Send packets through a program and tell what happens to each: parser states and what they extract, lookups "
        "with keys and entries, actions with their arguments, copies, drops and why, and the bytes that come out. "
        "Needs no root and no interfaces. The program's own const entries are there; --entries adds others."
    )
    parser.add_argument("file", metavar="FILE.p4", type=Path, help="the program; or a .p4bin")
    parser.add_argument(
        "--packet", dest="packets", metavar="HEX", action="append", required=True, help="a frame; several come in turn"
    )
    parser.add_argument("--port", metavar="N", type=int, required=True, help="the port that they come in by")
    parser.add_argument(
        "--entries", metavar="FILE", type=Path, help="an STF script (.stf) or a P4Runtime WriteRequest in text (.txtpb)"
    )
    parser.add_argument("--cpu-port", metavar="PORT", type=int, help="port of packet I/O")
    parser.add_argument("--drop-port", metavar="PORT", type=int, default=511, help="default: %(default)s")
    _add_source_options(parser)
    parser.set_defaults(run=_trace)


def _frame(text: str) -> bytes:
    digits = "".join(text.split())
    try:
        return bytes.fromhex(digits.removeprefix("0x"))
    except ValueError:
        raise UsageError(f"--packet {text}: write the frame's bytes in hexadecimal, two digits each") from None


def _trace(options: argparse.Namespace) -> int:
    packets = [(options.port, _frame(text)) for text in options.packets]
    program = _build(options, traced=True)
    from p4switch.dataplane import SwitchOptions
    from p4switch.stf import StfError
    from p4switch.tracing import TraceError, trace

    sys.stdout.flush()
    switch_options = SwitchOptions(
        cpu_port=options.cpu_port, drop_port=options.drop_port, trace=True, trace_fd=sys.stdout.fileno()
    )
    try:
        trace(program, packets, options.entries, switch_options)
    except (TraceError, StfError) as error:
        print(f"p4switch trace: {error}", file=sys.stderr)
        return 1
    return 0


# ------------------------------------------------------------------------------------------------------------- run


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run a switch: ports on network interfaces, controlled over P4Runtime. Needs root (CAP_NET_RAW). Prints one "
        "line when it serves; SIGINT and SIGTERM stop it."
    )
    parser.add_argument("file", metavar="FILE.p4", type=Path, nargs="?", help="the program; or a .p4bin")
    parser.add_argument("--no-p4", action="store_true", help="start without a program; a controller pushes it")
    parser.add_argument(
        "-i", "--interface", dest="interfaces", metavar="PORT@IFACE", action="append", default=[], help="bind a port"
    )
    parser.add_argument("--grpc-addr", metavar="HOST:PORT", default="127.0.0.1:50051", help="default: %(default)s")
    parser.add_argument("--device-id", metavar="N", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--cpu-port", metavar="PORT", type=int, help="port of packet I/O")
    parser.add_argument("--drop-port", metavar="PORT", type=int, default=511, help="default: %(default)s")
    parser.add_argument(
        "--event-port", metavar="PORT", type=int, help="port on which port changes and ticks come as frames"
    )
    parser.add_argument(
        "--tick-us", metavar="N", type=int, default=0, help="a tick on the event port every N microseconds"
    )
    parser.add_argument(
        "--port-rate",
        metavar="PORT=RATE",
        action="append",
        default=[],
        help="limit a port: 1000 (frames/s) or 10000000bit",
    )
    parser.add_argument(
        "--port-depth", metavar="PORT=FRAMES", action="append", default=[], help="depth of a port's egress queue"
    )
    parser.add_argument("--pcap", metavar="DIR", type=Path, help="write a capture per port into DIR")
    parser.add_argument("--busy-poll", action="store_true", help="never sleep: lower latency, a whole core")
    parser.add_argument(
        "--qdisc-bypass", action="store_true", help="send past the interfaces' queueing disciplines: faster, unshaped"
    )
    parser.add_argument("--trace", action="store_true", help="tell on stderr what happens to each packet (slow)")
    _add_source_options(parser)
    parser.set_defaults(run=_run)


def _ports(options: argparse.Namespace) -> dict[int, str]:
    """Parse -i arguments to port -> interface."""
    ports: dict[int, str] = {}
    for text in options.interfaces:
        number, at, iface = text.partition("@")
        if not at or not iface or not number.isdigit():
            raise UsageError(f"-i {text}: write PORT@IFACE, like -i 1@eth1")
        port = int(number)
        if port > 510:
            raise UsageError(f"-i {text}: ports are 0 to 510")
        if port in ports:
            raise UsageError(f"-i {text}: port {port} is given twice, it is bound to {ports[port]}")
        if iface in ports.values():
            raise UsageError(f"-i {text}: interface {iface} is given twice")
        ports[port] = iface
    return ports


def _rates(options: argparse.Namespace) -> dict[int, dict[str, int]]:
    """Parse --port-rate and --port-depth to port -> arguments of set_queue."""
    queues: dict[int, dict[str, int]] = {}
    for text in options.port_rate:
        port, equals, rate = text.partition("=")
        unit = "rate_bps" if rate.endswith("bit") else "rate_pps"
        number = rate.removesuffix("bit")
        if not (equals and port.isdigit() and number.isdigit()):
            raise UsageError(f"--port-rate {text}: write PORT=FRAMES_PER_SECOND or PORT=BITS_PER_SECONDbit")
        queues.setdefault(int(port), {})[unit] = int(number)
    for text in options.port_depth:
        port, equals, depth = text.partition("=")
        if not (equals and port.isdigit() and depth.isdigit()):
            raise UsageError(f"--port-depth {text}: write PORT=FRAMES")
        queues.setdefault(int(port), {})["depth"] = int(depth)
    return queues


def _check_interfaces(ports: dict[int, str]) -> None:
    """Fail early, and in words, for what the system would refuse later."""
    if ports and os.geteuid() != 0:
        raise BuildError("network interfaces need root (CAP_NET_RAW): run it with sudo")
    present = sorted(name for _, name in socket.if_nameindex())  # of this namespace; /sys may show another one's
    for port, iface in ports.items():
        if iface not in present:
            raise BuildError(f"-i {port}@{iface}: there is no interface {iface} here; there is {', '.join(present)}")


def _load_program(options: argparse.Namespace) -> BuildResult | None:
    if options.no_p4:
        if options.file:
            raise UsageError("give either FILE.p4 or --no-p4, not both")
        return None
    if options.file is None:
        raise UsageError("give FILE.p4, or --no-p4 to wait for a controller to push a program")
    return _build(options, options.trace)


def _run(options: argparse.Namespace) -> int:
    ports, queues = _ports(options), _rates(options)
    _check_interfaces(ports)
    program = _load_program(options)
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its own log lines would stand beside our one clear message
    from p4switch.dataplane import DataPlane, DataPlaneError, SwitchOptions
    from p4switch.server import PortInUse, serve
    from p4switch.server.options import ServerOptions

    if options.pcap:
        options.pcap.mkdir(parents=True, exist_ok=True)
    switch_options = SwitchOptions(
        device_id=options.device_id,
        cpu_port=options.cpu_port,
        drop_port=options.drop_port,
        event_port=options.event_port,
        tick_us=options.tick_us,
        pcap_dir=options.pcap,
        trace=options.trace,
        busy_poll=options.busy_poll,
        qdisc_bypass=options.qdisc_bypass,
    )
    # Blocked before any thread exists, so that the main thread alone takes the signal, by sigwait.
    stopping = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, stopping)
    try:
        with contextlib.ExitStack() as stack:
            dataplane = DataPlane(switch_options)
            stack.callback(dataplane.stop)
            server = serve(dataplane, ServerOptions(options.grpc_addr, options.device_id), program)
            for port, iface in ports.items():
                dataplane.add_port(port, iface)
            for port, queue in queues.items():
                dataplane.set_queue(port, **queue)
            dataplane.start()
            server.start()
            stack.callback(server.stop)
            host = options.grpc_addr.rpartition(":")[0]
            print(f"p4switch: device {options.device_id} ready, grpc {host}:{server.port}", flush=True)
            signal.sigwait(stopping)
    except (DataPlaneError, PortInUse) as error:
        print(f"p4switch run: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
