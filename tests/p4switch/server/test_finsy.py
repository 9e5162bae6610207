"""The server driven by finsy, the client that the project's own controller uses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import finsy as fy
import pytest
from finsy.p4entity import P4ValueSetMember, encode_updates
from finsy.proto import p4r

from p4switch.build import build
from p4switch.dataplane import DataPlane
from p4switch.server import P4RuntimeServer
from tests.p4switch.server.client import Client
from tests.p4switch.server.conftest import PROGRAMS
from tests.p4switch.server.finsy_switch import read

ENTRIES = [
    fy.P4TableEntry("exact_table", match=fy.P4TableMatch(dst=5), action=fy.P4TableAction("counted_forward", port=3)),
    fy.P4TableEntry(
        "lpm_table", match=fy.P4TableMatch(src="11:00:00:00:00:00/8"), action=fy.P4TableAction("flood", group=7)
    ),
    fy.P4TableEntry(
        "ternary_table",
        match=fy.P4TableMatch(dst="0x10/&0xf0", type=0x800),
        priority=5,
        action=fy.P4TableAction("rated"),
    ),
    fy.P4TableEntry("range_table", match=fy.P4TableMatch(type="1...5"), priority=5, action=fy.P4TableAction("learn")),
    fy.P4TableEntry(
        "optional_table",
        match=fy.P4TableMatch(ingress_port=2),
        priority=5,
        action=fy.P4TableAction("deny"),
    ),
]


def test_every_kind_of_match(drive: Callable[..., None]) -> None:
    async def script(switch: fy.Switch) -> None:
        assert switch.is_primary
        await switch.insert(ENTRIES)
        found = {entry.table_id: entry for entry in await read(switch, fy.P4TableEntry()) if not entry.is_const}
        assert {entry.table_id for entry in ENTRIES} == set(found)
        assert found["exact_table"]["dst"] == 5
        assert found["lpm_table"].action == fy.P4TableAction("flood", group=7)
        await switch.modify(
            [fy.P4TableEntry("exact_table", match=ENTRIES[0].match, action=fy.P4TableAction("counted_forward", port=4))]
        )
        (changed,) = await read(switch, fy.P4TableEntry("exact_table"))
        assert changed.action == fy.P4TableAction("counted_forward", port=4)
        with pytest.raises(fy.P4ClientError) as refused:
            await switch.insert(ENTRIES)
        assert {error.canonical_code for error in refused.value.details.values()} == {fy.GRPCStatusCode.ALREADY_EXISTS}
        await switch.delete(ENTRIES)
        assert await read(switch, fy.P4TableEntry("lpm_table")) == []

    drive(script)


def test_the_rest(drive: Callable[..., None]) -> None:
    async def script(switch: fy.Switch) -> None:
        await switch.write(
            [
                +fy.P4MulticastGroupEntry(4, replicas=[1, (2, 7)]),
                +fy.P4CloneSessionEntry(9, replicas=[1], packet_length_bytes=64),
                +fy.P4DigestEntry("learn_t", max_list_size=1),
                ~fy.P4CounterEntry("port_rx", index=1, data=fy.P4CounterData(packet_count=5, byte_count=50)),
                ~fy.P4RegisterEntry("wide", index=3, data=1 << 190),
                ~fy.P4MeterEntry("police", index=2, config=fy.P4MeterConfig(cir=1, cburst=2, pir=3, pburst=4)),
                ~fy.P4TableEntry("lpm_table", is_default_action=True, action=fy.P4TableAction("forward", port=1)),
                ~fy.P4ValueSetEntry("special_types", members=[P4ValueSetMember(0x1234)]),
            ]
        )
        (group,) = await read(switch, fy.P4MulticastGroupEntry())
        assert len(group.replicas) == 2
        (session,) = await read(switch, fy.P4CloneSessionEntry())
        assert session.packet_length_bytes == 64
        (counter,) = await read(switch, fy.P4CounterEntry("port_rx", index=1))
        assert counter.packet_count == 5 and counter.byte_count == 50
        (register,) = await read(switch, fy.P4RegisterEntry("wide", index=3))
        assert register.data == 1 << 190
        (meter,) = await read(switch, fy.P4MeterEntry("police", index=2))
        assert meter.config == fy.P4MeterConfig(cir=1, cburst=2, pir=3, pburst=4)
        (default,) = await read(switch, fy.P4TableEntry("lpm_table", is_default_action=True))
        assert default.action == fy.P4TableAction("forward", port=1)
        (values,) = await read(switch, fy.P4ValueSetEntry("special_types", members=[]))
        assert values.members[0].value == 0x1234
        await switch.insert(ENTRIES)
        await switch.delete_all()  # finsy 0.30 deletes only table entries when the program has const tables
        assert [entry for entry in await read(switch, fy.P4TableEntry()) if not entry.is_const] == []
        (default,) = await read(switch, fy.P4TableEntry("lpm_table", is_default_action=True))
        assert default.action == fy.P4TableAction("NoAction")
        assert await read(switch, fy.P4DigestEntry()) == []

    drive(script)


def test_packets_and_digests(drive: Callable[..., None], dataplane: DataPlane) -> None:
    frame = bytes.fromhex("00000000000a00000000000b1234") + bytes(46)

    async def script(switch: fy.Switch) -> None:
        await switch.write(
            [
                +fy.P4DigestEntry("learn_t", max_list_size=1),
                +fy.P4TableEntry(
                    "range_table",
                    match=fy.P4TableMatch(type="1...0xfff0"),
                    priority=5,
                    action=fy.P4TableAction("learn"),
                ),
                +fy.P4TableEntry(
                    "exact_table",
                    match=fy.P4TableMatch(dst=10),
                    action=fy.P4TableAction("counted_forward", port=1),
                ),
                +fy.P4TableEntry("lpm_table", action=fy.P4TableAction("to_cpu", reason=2)),
            ]
        )
        packets, digests = aiter(switch.read_packets()), aiter(switch.read_digests("learn_t"))
        waiting = asyncio.gather(anext(packets), anext(digests))
        await asyncio.sleep(0)
        dataplane.packet_out(frame, 6)
        packet, digest = await waiting
        assert packet.payload == frame
        assert packet["ingress_port"] == 6 and packet["reason"] == 2
        assert digest.data == [{"src": 11, "port": 6}]
        await switch.write([fy.P4DigestListAck(digest.digest_id, list_id=digest.list_id)])
        await switch.write([fy.P4PacketOut(frame, egress_port=510, pad=0)])
        assert (await anext(packets)).payload == frame[2:]

    drive(script)


def test_two_clients(drive: Callable[..., None], empty_server: P4RuntimeServer) -> None:
    """A second client with a higher election id demotes finsy, which becomes primary again when the other leaves."""

    async def script(switch: fy.Switch) -> None:
        other = Client(empty_server.port)
        other.bid(1000)
        demoted = switch.ee.event_future(fy.SwitchEvent.BECOME_BACKUP)
        await asyncio.wait_for(demoted, 5)
        assert await read(switch, fy.P4TableEntry("exact_table")) == []
        with pytest.raises(fy.P4ClientError) as denied:
            await switch.insert(ENTRIES[:1])
        assert denied.value.code == fy.GRPCStatusCode.PERMISSION_DENIED
        promoted = switch.ee.event_future(fy.SwitchEvent.BECOME_PRIMARY)
        other.close()
        await asyncio.wait_for(promoted, 5)
        await switch.insert(ENTRIES[:1])

    drive(script)


def test_atomicity(drive: Callable[..., None]) -> None:
    """finsy has no word for the mode of a batch; its client's request() takes any message."""

    async def script(switch: fy.Switch) -> None:
        def updates(*addresses: int) -> list[Any]:
            action = fy.P4TableAction("counted_forward", port=3)
            made = [fy.P4TableEntry("exact_table", match=fy.P4TableMatch(dst=a), action=action) for a in addresses]
            return encode_updates([+entry for entry in made], switch.p4info)

        async def batch(atomicity: Any, *addresses: int) -> list[tuple[int, fy.GRPCStatusCode]]:
            request = p4r.WriteRequest(device_id=1, updates=updates(*addresses), atomicity=atomicity)
            assert switch._p4client is not None
            try:
                await switch._p4client.request(request)
            except fy.P4ClientError as error:
                return [(index, detail.canonical_code) for index, detail in error.details.items()]
            return []

        async def there() -> int:
            return len(await read(switch, fy.P4TableEntry("exact_table")))

        modes = p4r.WriteRequest
        assert await batch(modes.CONTINUE_ON_ERROR, 1, 1, 2) == [(1, fy.GRPCStatusCode.ALREADY_EXISTS)]
        assert await there() == 2
        for mode in (modes.ROLLBACK_ON_ERROR, modes.DATAPLANE_ATOMIC):
            failed = dict(await batch(mode, 3, 1))
            assert failed == {0: fy.GRPCStatusCode.ABORTED, 1: fy.GRPCStatusCode.ALREADY_EXISTS}
            assert await there() == 2
        assert await batch(modes.DATAPLANE_ATOMIC, 3, 4) == []
        assert await there() == 4

    drive(script)


def test_every_way_to_push_a_pipeline(drive: Callable[..., None]) -> None:
    """The same program again: reconciled, its entries stay; saved, it is filled before it is committed; pushed anew, it
    is empty."""

    async def script(switch: fy.Switch) -> None:
        async def push(action: fy.P4ConfigAction, with_config: bool = True) -> int:
            config = switch.p4info.get_pipeline_config() if with_config else p4r.ForwardingPipelineConfig()
            await switch._set_pipeline_config_request(action=action, config=config)
            return len(await read(switch, fy.P4TableEntry()))

        await switch.insert(ENTRIES)
        kept = len(await read(switch, fy.P4TableEntry()))
        assert kept >= len(ENTRIES)
        assert await push(fy.P4ConfigAction.VERIFY) == kept
        assert await push(fy.P4ConfigAction.RECONCILE_AND_COMMIT) == kept
        empty = await push(fy.P4ConfigAction.VERIFY_AND_SAVE)
        assert empty == kept - len(ENTRIES)  # those that the program itself has
        await switch.insert(ENTRIES)
        assert await push(fy.P4ConfigAction.COMMIT, with_config=False) == kept
        assert await push(fy.P4ConfigAction.VERIFY_AND_COMMIT) == empty

    drive(script)


def test_profiles(drive: Callable[..., None]) -> None:
    async def script(switch: fy.Switch) -> None:
        mark = fy.P4TableAction
        entry = fy.P4TableEntry("third", match=fy.P4TableMatch(dst=10))
        await switch.insert(
            [fy.P4ActionProfileMember("paths", member_id=n, action=mark("mark", value=n)) for n in (1, 2)]
        )
        group = fy.P4ActionProfileGroup(
            "paths", group_id=1, members=[fy.P4Member(1, weight=1), fy.P4Member(2, weight=2)]
        )
        await switch.insert([group])
        entry.action = fy.P4IndirectAction(group_id=1)
        await switch.insert([entry])
        (found,) = await read(switch, fy.P4TableEntry("third"))
        assert found.action == entry.action
        (found,) = await read(switch, fy.P4ActionProfileGroup("paths", group_id=1))
        assert [(m.member_id, m.weight) for m in found.members] == [(1, 1), (2, 2)]
        await switch.delete_all()
        assert await read(switch, fy.P4ActionProfileMember()) == []
        entry.action = fy.P4IndirectAction([(2, mark("mark", value=1)), (1, mark("mark", value=2))])
        await switch.insert([entry])
        (found,) = await read(switch, fy.P4TableEntry("third"))
        assert found.action == entry.action

    drive(script, build(PROGRAMS / "profiles.p4"))
