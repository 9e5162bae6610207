"""More of the server by finsy: two controllers of two roles at once, idle time-outs, direct counters and meters,
translated values."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import PIPE, STDOUT
from pathlib import Path

import finsy as fy
import pytest
from finsy.proto import stratum

from p4switch.build import BuildResult, build
from p4switch.dataplane import DataPlane
from p4switch.server import P4RuntimeServer
from tests.p4switch.server.conftest import PROGRAMS
from tests.p4switch.server.finsy_switch import options, read

TIMEOUT_S = 20
SHELL = Path(__file__).parent / "shell"


def test_two_roles(empty_server: P4RuntimeServer, program: BuildResult, tmp_path: Path) -> None:
    """Both are primary, each of its role, and see what the other writes."""

    async def main() -> None:
        address = f"127.0.0.1:{empty_server.port}"
        entry = fy.P4TableEntry(
            "exact_table", match=fy.P4TableMatch(dst=5), action=fy.P4TableAction("counted_forward", port=3)
        )
        async with fy.Switch("first", address, options(program, tmp_path)) as first:
            shared = next(t.preamble.id for t in program.p4info.tables if t.preamble.alias == "exact_table")
            rights = stratum.P4RoleConfig(shared_p4_ids=[shared])
            role = options(program, tmp_path, role_name="second", role_config=rights)
            async with fy.Switch("second", address, role) as second:
                assert first.is_primary and second.is_primary
                assert second.role_name == "second"
                await second.insert([entry])
                (found,) = await read(first, fy.P4TableEntry("exact_table"))
                assert found.action == entry.action
                with pytest.raises(fy.P4ClientError) as denied:
                    await second.insert([fy.P4TableEntry("lpm_table", action=fy.P4TableAction("NoAction"))])
                (detail,) = denied.value.details.values()
                assert detail.canonical_code == fy.GRPCStatusCode.PERMISSION_DENIED
                await first.delete([entry])
                assert await read(second, fy.P4TableEntry("exact_table")) == []

    asyncio.run(asyncio.wait_for(main(), TIMEOUT_S))


def test_beside_the_shell(
    empty_server: P4RuntimeServer, program: BuildResult, shell_python: Path, tmp_path: Path
) -> None:
    """finsy and p4runtime-shell write at the same time, each as the primary of its role, and neither loses anything."""
    rounds = 30
    address = f"127.0.0.1:{empty_server.port}"

    def entry(number: int, port: int) -> fy.P4TableEntry:
        action = fy.P4TableAction("counted_forward", port=port)
        return fy.P4TableEntry("exact_table", match=fy.P4TableMatch(dst=number), action=action)

    async def main() -> None:
        async with fy.Switch("sw", address, options(program, tmp_path)) as switch:
            await switch.insert([entry(1, 0)])
            other = await asyncio.create_subprocess_exec(
                shell_python, SHELL / "beside.py", address, str(rounds), stdout=PIPE, stderr=STDOUT
            )
            ended = asyncio.ensure_future(other.communicate())
            port = 0
            while not ended.done():
                port = (port + 1) % 5  # never the shell's 5
                await switch.modify([entry(1, port)])
                (found,) = await read(switch, entry(1, port))
                assert found.action == entry(1, port).action
            output, _ = ended.result()
            assert output.endswith(b"done\n"), output.decode()
            assert len(await read(switch, fy.P4TableEntry("exact_table"))) == 1 + rounds

    asyncio.run(asyncio.wait_for(main(), TIMEOUT_S))


def test_idle_timeouts_and_direct_resources(
    empty_server: P4RuntimeServer, dataplane: DataPlane, program: BuildResult, tmp_path: Path
) -> None:
    async def main() -> None:
        async with fy.Switch("sw", f"127.0.0.1:{empty_server.port}", options(program, tmp_path)) as switch:
            idle = fy.P4TableEntry(
                "optional_table",
                match=fy.P4TableMatch(ingress_port=2),
                priority=5,
                action=fy.P4TableAction("deny"),
                idle_timeout_ns=10**8,
            )
            counted = fy.P4TableEntry(
                "exact_table", match=fy.P4TableMatch(dst=10), action=fy.P4TableAction("counted_forward", port=3)
            )
            metered = fy.P4TableEntry(
                "ternary_table",
                match=fy.P4TableMatch(dst="0x10/&0xf0", type=0x800),
                priority=5,
                action=fy.P4TableAction("rated"),
                meter_config=fy.P4MeterConfig(cir=1, cburst=2, pir=3, pburst=4),
            )
            reports = aiter(switch.read_idle_timeouts())
            waiting = asyncio.ensure_future(anext(reports))
            await asyncio.sleep(0)
            await switch.insert([idle, counted, metered])
            (reported,) = (await waiting).table_entry
            assert reported.table_id == "optional_table" and reported.match == idle.match

            dataplane.packet_out(bytes.fromhex("00000000000a00000000000b1234") + bytes(46), 6)
            while True:  # the packet is on its way
                (counts,) = await read(switch, fy.P4DirectCounterEntry("exact_hits"))
                if counts.data.packet_count:
                    break
                await asyncio.sleep(0.01)
            assert (counts.data.packet_count, counts.data.byte_count) == (1, 60)
            assert counts.table_entry.match == counted.match
            query = fy.P4DirectMeterEntry(table_entry=fy.P4TableEntry("ternary_table"))
            (rate,) = await read(switch, query)
            assert rate.config == metered.meter_config

    asyncio.run(asyncio.wait_for(main(), TIMEOUT_S))


def test_translated_values(empty_server: P4RuntimeServer, tmp_path: Path) -> None:
    async def main() -> None:
        pipeline = options(build(PROGRAMS / "translated.p4"), tmp_path)
        async with fy.Switch("sw", f"127.0.0.1:{empty_server.port}", pipeline) as switch:
            entries = [
                fy.P4TableEntry(
                    "by_number", match=fy.P4TableMatch(number=300), action=fy.P4TableAction("to_number", port=7)
                ),
                fy.P4TableEntry(
                    "by_name", match=fy.P4TableMatch(name="12"), action=fy.P4TableAction("to_name", port="13")
                ),
            ]
            await switch.insert(entries)
            for entry in entries:
                (found,) = await read(switch, fy.P4TableEntry(entry.table_id))
                assert found.match == entry.match and found.action == entry.action

    asyncio.run(asyncio.wait_for(main(), TIMEOUT_S))
