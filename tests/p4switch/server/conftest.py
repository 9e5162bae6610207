"""A switch with a P4Runtime server in this process, running programs/features.p4."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import finsy as fy
import pytest

from p4switch.build import BuildResult, build
from p4switch.dataplane import DataPlane, SwitchOptions
from p4switch.server import P4RuntimeServer, ServerOptions, serve
from tests.p4switch.server.client import Client
from tests.p4switch.server.finsy_switch import options

PROGRAMS = Path(__file__).parent / "programs"
CPU_PORT = 510


@pytest.fixture(scope="session")
def program() -> BuildResult:
    return build(PROGRAMS / "features.p4")


@pytest.fixture(scope="session")
def variants(tmp_path_factory: pytest.TempPathFactory) -> dict[str, BuildResult]:
    """The program with a table more, and with a table less."""
    source = (PROGRAMS / "features.p4").read_text()
    folder = tmp_path_factory.mktemp("variants")

    def variant(name: str, old: str, new: str) -> BuildResult:
        assert source.count(old) == 1
        path = folder / f"{name}.p4"
        path.write_text(source.replace(old, new))
        return build(path)

    apply = "    apply {\n        if (hdr.packet_out"
    table = "    table extra_table { key = { hdr.ethernet.src: exact; } actions = { deny; NoAction; } }\n"
    applied = "    apply {\n        extra_table.apply();\n        if (hdr.packet_out"
    return {
        "more": variant("more", apply, table + applied),
        "less": variant("less", "            optional_table.apply();\n", ""),
    }


@pytest.fixture
def dataplane() -> Iterator[DataPlane]:
    plane = DataPlane(SwitchOptions(cpu_port=CPU_PORT))
    plane.start()
    yield plane
    plane.stop()


@pytest.fixture
def empty_server(dataplane: DataPlane) -> Iterator[P4RuntimeServer]:
    """A server without a pipeline."""
    with serve(dataplane, ServerOptions(grpc_addr="127.0.0.1:0")) as server:
        yield server


@pytest.fixture
def server(dataplane: DataPlane, program: BuildResult) -> Iterator[P4RuntimeServer]:
    """A server that was started with the program."""
    with serve(dataplane, ServerOptions(grpc_addr="127.0.0.1:0"), program) as server:
        yield server


@pytest.fixture
def connect(program: BuildResult) -> Iterator[Callable[[P4RuntimeServer], Client]]:
    """Connect clients that are closed at the end of the test."""
    clients: list[Client] = []

    def connect(server: P4RuntimeServer) -> Client:
        clients.append(Client(server.port, p4info=program.p4info))
        return clients[-1]

    yield connect
    for client in clients:
        client.close()


@pytest.fixture
def client(server: P4RuntimeServer, connect: Callable[[P4RuntimeServer], Client]) -> Client:
    """The primary of the default role."""
    return connect(server).become_primary()


@pytest.fixture
def cabled(dataplane: DataPlane) -> Iterator[str]:
    """Bind port 3 to one end of a cable and return the other end's name."""
    near, far = f"srv{os.getpid() % 100000}a", f"srv{os.getpid() % 100000}b"
    ip("link", "add", near, "type", "veth", "peer", "name", far)
    try:
        for end in (near, far):
            ip("link", "set", end, "up")
        dataplane.add_port(3, near)
        yield far
        dataplane.remove_port(3)
    finally:
        ip("link", "del", near)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture(scope="session")
def shell_python() -> Path:
    """The interpreter of the shell's environment; `make .venv-repl/.ready` makes it."""
    python = Path(
        os.environ.get("P4RUNTIME_SHELL_PYTHON") or Path(__file__).parents[3] / ".venv-repl" / "bin" / "python"
    )
    if not python.exists():
        pytest.fail(
            f"{python} does not exist: p4runtime-shell has an environment of its own. Make it with "
            "`make .venv-repl/.ready`, or name another interpreter that has it in P4RUNTIME_SHELL_PYTHON"
        )
    return python


@pytest.fixture
def drive(empty_server: P4RuntimeServer, program: BuildResult, tmp_path: Path) -> Callable[..., None]:
    """Run a coroutine with a switch that finsy has connected to and pushed a pipeline on."""

    def drive(script: Callable[[fy.Switch], Awaitable[None]], pipeline: BuildResult = program) -> None:
        async def main() -> None:
            async with fy.Switch("sw", f"127.0.0.1:{empty_server.port}", options(pipeline, tmp_path)) as switch:
                await asyncio.wait_for(script(switch), 20)

        asyncio.run(main())

    return drive
