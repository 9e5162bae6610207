"""The rest of P4Runtime by finsy, feature by feature. What finsy has no words for goes by its client's request()."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import finsy as fy
import pytest
from finsy.p4entity import P4Replica, P4ValueSetMember
from finsy.proto import p4r

from p4switch.build import BuildResult, build
from p4switch.dataplane import DataPlane
from tests.p4switch.server.conftest import PROGRAMS
from tests.p4switch.server.finsy_switch import read

Drive = Callable[..., None]
Code = fy.GRPCStatusCode
FRAME = bytes.fromhex("00000000000a00000000000b1234") + bytes(46)
NO_COLORS = fy.P4MeterCounterData(green=fy.P4CounterData(), yellow=fy.P4CounterData(), red=fy.P4CounterData())
RATES = fy.P4MeterConfig(cir=1, cburst=60, pir=1, pburst=120)


async def refused(writing: Awaitable[None], *codes: fy.GRPCStatusCode, reason: str = "") -> None:
    """Await a Write in which one or more updates fail."""
    with pytest.raises(fy.P4ClientError) as caught:
        await writing
    assert [each.canonical_code for each in caught.value.details.values()] == list(codes), caught.value
    assert all(reason in each.message for each in caught.value.details.values()), caught.value


def matched(number: int, action: str = "rated", **fields: Any) -> fy.P4TableEntry:
    match = fy.P4TableMatch(type=number)
    return fy.P4TableEntry("ternary_table", match=match, priority=5, action=fy.P4TableAction(action), **fields)


def forwarded(**fields: Any) -> fy.P4TableEntry:
    action = fy.P4TableAction("counted_forward", port=3)
    return fy.P4TableEntry("exact_table", match=fy.P4TableMatch(dst=10), action=action, **fields)


def test_reads_of_some(drive: Drive) -> None:
    async def script(switch: fy.Switch) -> None:
        await switch.insert([matched(1), matched(2, "NoAction", metadata=b"two"), matched(3, controller_metadata=3)])

        async def numbers(**fields: Any) -> list[int]:
            return sorted(e["type"] for e in await read(switch, fy.P4TableEntry("ternary_table", **fields)))

        assert await numbers() == await numbers(priority=5) == [1, 2, 3]
        assert await numbers(priority=6) == []
        assert await numbers(action=fy.P4TableAction("NoAction")) == [2]
        assert await numbers(metadata=b"two") == [2]
        assert await numbers(controller_metadata=3) == [3]
        assert await numbers(match=fy.P4TableMatch(type=3)) == [3]
        assert await numbers(match=fy.P4TableMatch(type=3), priority=6) == []
        assert len(await read(switch, fy.P4TableEntry())) == 3 + 2
        assert len(await read(switch, [fy.P4TableEntry("const_table"), fy.P4CounterEntry()])) == 2 + 16
        defaults = await read(switch, [fy.P4TableEntry(t.alias, is_default_action=True) for t in switch.p4info.tables])
        assert len(defaults) == 7 and {e.table_id for e in defaults if e.is_const} == {"range_table"}
        with pytest.raises(fy.P4ClientError) as caught:
            await read(switch, [fy.P4TableEntry("ternary_table"), fy.P4CounterEntry("port_rx", index=16)])
        assert {n: e.canonical_code for n, e in caught.value.details.items()} == {1: Code.OUT_OF_RANGE}

    drive(script)


def test_the_whole_of_an_entry(drive: Drive, dataplane: DataPlane) -> None:
    """What a client wrote is read back as it was; a MODIFY gives the whole of an entry again."""

    async def script(switch: fy.Switch) -> None:
        entry = matched(1, meter_config=RATES, metadata=b"m", controller_metadata=7)
        asking = fy.P4TableEntry("ternary_table", meter_config=RATES, meter_counter_data=NO_COLORS)
        await switch.insert([entry])
        (found,) = await read(switch, asking)
        assert found == matched(
            1, meter_config=RATES, metadata=b"m", controller_metadata=7, meter_counter_data=NO_COLORS
        )
        await switch.modify([matched(1)])
        (found,) = await read(switch, asking)
        assert found == matched(1, meter_counter_data=NO_COLORS)
        anything = fy.P4TableEntry(
            "optional_table", priority=2, action=fy.P4TableAction("deny"), idle_timeout_ns=10**15
        )
        await switch.insert([anything])  # no match field at all
        (found,) = await read(switch, fy.P4TableEntry("optional_table", priority=2))
        assert found == anything
        (found,) = await read(switch, fy.P4TableEntry("optional_table", time_since_last_hit=0))
        assert found.time_since_last_hit > 0
        anything.priority = 0
        await refused(switch.insert([anything]), Code.INVALID_ARGUMENT, reason="need a priority above 0")

    drive(script)


def test_counts_of_colours(drive: Drive, dataplane: DataPlane) -> None:
    def colors(green: int, yellow: int, red: int) -> fy.P4MeterCounterData:
        parts = (fy.P4CounterData(packet_count=n, byte_count=n * len(FRAME)) for n in (green, yellow, red))
        return fy.P4MeterCounterData(**dict(zip(("green", "yellow", "red"), parts, strict=True)))

    async def script(switch: fy.Switch) -> None:
        await switch.insert([matched(0x1234, meter_config=RATES)])
        packets = fy.P4MeterConfig(cir=1, cburst=1, pir=1, pburst=3)
        await switch.write([~fy.P4MeterEntry("police", index=1, config=packets)])
        for _ in range(4):
            dataplane.inject(1, FRAME)
        direct = fy.P4DirectMeterEntry(table_entry=fy.P4TableEntry("ternary_table"), counter_data=NO_COLORS)
        (found,) = await read(switch, direct)
        assert found.counter_data == colors(1, 1, 2) and found.config == RATES
        (found,) = await read(switch, fy.P4MeterEntry("police", index=1, counter_data=NO_COLORS))
        assert found.counter_data == colors(1, 2, 1) and found.config == packets
        assert len(await read(switch, fy.P4MeterEntry("police"))) == len(await read(switch, fy.P4MeterEntry())) == 4
        key = fy.P4TableEntry("ternary_table", match=fy.P4TableMatch(type=0x1234), priority=5)
        await refused(
            switch.write([~fy.P4DirectMeterEntry(table_entry=key, config=RATES, counter_data=colors(1, 0, 0))]),
            Code.INVALID_ARGUMENT,
            reason="only be set to zero",
        )
        await switch.write([~fy.P4DirectMeterEntry(table_entry=key, counter_data=NO_COLORS)])
        (found,) = await read(switch, direct)
        assert found.counter_data == NO_COLORS and found.config is None  # no config: the default one
        wrong = fy.P4MeterConfig(cir=5, cburst=1, pir=1, pburst=1)
        await refused(switch.write([~fy.P4MeterEntry("police", index=1, config=wrong)]), Code.INVALID_ARGUMENT)

    drive(script)


def test_counters(drive: Drive, dataplane: DataPlane) -> None:
    async def script(switch: fy.Switch) -> None:
        count = fy.P4CounterData(packet_count=7, byte_count=70)
        await switch.write([~fy.P4CounterEntry("port_rx", data=count)])  # all of them
        assert {c.packet_count for c in await read(switch, fy.P4CounterEntry("port_rx"))} == {7}
        await refused(switch.insert([fy.P4CounterEntry("port_rx", index=1, data=count)]), Code.INVALID_ARGUMENT)
        await switch.insert([forwarded(counter_data=count)])
        dataplane.inject(1, FRAME)
        (direct,) = await read(switch, fy.P4DirectCounterEntry("exact_hits"))
        assert (direct.packet_count, direct.byte_count) == (8, 70 + len(FRAME))
        direct.data = fy.P4CounterData(packet_count=1, byte_count=2)
        await switch.modify([direct])
        (entry,) = await read(switch, fy.P4TableEntry("exact_table", counter_data=fy.P4CounterData()))
        assert entry.counter_data == direct.data
        dataplane.inject(1, bytes(60))
        misses = fy.P4TableEntry("exact_table", is_default_action=True, counter_data=fy.P4CounterData())
        (default,) = await read(switch, misses)
        assert default.counter_data == fy.P4CounterData(packet_count=1, byte_count=60)

    drive(script)


def test_default_entries(drive: Drive) -> None:
    async def script(switch: fy.Switch) -> None:
        async def default(table: str) -> fy.P4TableEntry:
            (found,) = await read(switch, fy.P4TableEntry(table, is_default_action=True, meter_config=RATES))
            return found

        painted = fy.P4TableEntry(
            "ternary_table",
            is_default_action=True,
            action=fy.P4TableAction("paint", value=5),
            metadata=b"m",
            meter_config=RATES,
        )
        await switch.modify([painted])
        assert await default("ternary_table") == painted
        await switch.modify([fy.P4TableEntry("ternary_table", is_default_action=True)])
        reset = fy.P4TableEntry("ternary_table", is_default_action=True, action=fy.P4TableAction("NoAction"))
        assert await default("ternary_table") == reset
        for update in (switch.insert, switch.delete):
            await refused(update([painted]), Code.INVALID_ARGUMENT)
        for table, action in (("range_table", "learn"), ("lpm_table", "mirror")):  # const; @tableonly
            args = {"session": 1} if action == "mirror" else {}
            wrong = fy.P4TableEntry(table, is_default_action=True, action=fy.P4TableAction(action, **args))
            await refused(switch.modify([wrong]), Code.PERMISSION_DENIED)

    drive(script)


def test_const_tables(drive: Drive) -> None:
    async def script(switch: fy.Switch) -> None:
        first, second = await read(switch, fy.P4TableEntry("const_table"))
        assert first.is_const and second.is_const and first.priority != second.priority
        first.is_const = False
        for update in (switch.insert, switch.modify, switch.delete):
            await refused(update([first]), Code.PERMISSION_DENIED)
        first.action = None
        first.counter_data = fy.P4CounterData(packet_count=9)
        await switch.modify([first])
        counts = await read(switch, fy.P4DirectCounterEntry("const_hits"))
        assert sorted(c.packet_count for c in counts) == [0, 9]
        first.is_const = True
        await refused(switch.modify([first]), Code.INVALID_ARGUMENT, reason="is_const")

    drive(script)


def test_a_const_entry_among_others(drive: Drive) -> None:
    def entry(a: int, port: int) -> fy.P4TableEntry:
        return fy.P4TableEntry("mixed", match=fy.P4TableMatch(a=a), action=fy.P4TableAction("set_port", port=port))

    async def script(switch: fy.Switch) -> None:
        found = {e["a"]: e for e in await read(switch, fy.P4TableEntry("mixed"))}
        assert {a: e.is_const for a, e in found.items()} == {1: True, 2: False}
        await refused(switch.modify([entry(1, 5)]), Code.PERMISSION_DENIED)
        await refused(switch.delete([entry(1, 5)]), Code.PERMISSION_DENIED)
        await switch.write([~entry(2, 5), +entry(3, 6)])
        assert {e["a"]: e.action.args["port"] for e in await read(switch, fy.P4TableEntry("mixed"))} == {
            1: 11,
            2: 5,
            3: 6,
        }

    drive(script, build(PROGRAMS / "initial_entries.p4"))


def test_groups_and_sessions(drive: Drive) -> None:
    async def script(switch: fy.Switch) -> None:
        group = fy.P4MulticastGroupEntry(4, replicas=(1, P4Replica(2, instance=7)), metadata=b"m")
        session = fy.P4CloneSessionEntry(9, replicas=(1,), packet_length_bytes=64)
        await switch.insert([group, session])
        assert await read(switch, [fy.P4MulticastGroupEntry(), fy.P4CloneSessionEntry()]) == [group, session]
        await refused(switch.insert([group, session]), Code.ALREADY_EXISTS, Code.ALREADY_EXISTS)
        group, session = fy.P4MulticastGroupEntry(4, replicas=(3,)), fy.P4CloneSessionEntry(9, replicas=(2, 3))
        await switch.modify([group, session])
        assert await read(switch, [fy.P4MulticastGroupEntry(4), fy.P4CloneSessionEntry(9)]) == [group, session]
        await switch.delete([group, session])
        await refused(switch.delete([group, session]), Code.NOT_FOUND, Code.NOT_FOUND)
        await switch.delete([group, session], strict=False)
        wrong = [
            fy.P4MulticastGroupEntry(1, replicas=(1, 1)),
            fy.P4MulticastGroupEntry(70000),
            fy.P4CloneSessionEntry(1, class_of_service=1),
            fy.P4CloneSessionEntry(1, replicas=(512,)),
        ]
        bad = Code.INVALID_ARGUMENT
        await refused(switch.insert(wrong), bad, Code.OUT_OF_RANGE, bad, bad)

    drive(script)


def test_value_sets_and_registers(drive: Drive) -> None:
    async def script(switch: fy.Switch) -> None:
        def members(*values: int) -> fy.P4ValueSetEntry:
            return fy.P4ValueSetEntry("special_types", members=[P4ValueSetMember(value) for value in values])

        await switch.modify([members(1, 2)])
        (found,) = await read(switch, fy.P4ValueSetEntry("special_types", members=[]))
        assert found == members(1, 2)
        await refused(switch.insert([members(1)]), Code.INVALID_ARGUMENT, reason="only MODIFY")
        await refused(switch.modify([members(1, 1)]), Code.ALREADY_EXISTS)
        await refused(switch.modify([members(*range(5))]), Code.RESOURCE_EXHAUSTED)
        await switch.modify([members()])
        (found,) = await read(switch, fy.P4ValueSetEntry("special_types", members=[]))
        assert found.members == []
        await switch.modify([fy.P4RegisterEntry("last_source", data=5)])  # all of them
        assert [r.data for r in await read(switch, fy.P4RegisterEntry("last_source"))] == [5] * 8
        assert len(await read(switch, fy.P4RegisterEntry())) == 8 + 4
        await refused(switch.modify([fy.P4RegisterEntry("wide", index=4, data=1)]), Code.OUT_OF_RANGE)

    drive(script)


def test_digests(drive: Drive, dataplane: DataPlane) -> None:
    """What was sent is not sent again before it is acknowledged, or its time is over."""

    async def script(switch: fy.Switch) -> None:
        learn = fy.P4TableEntry(
            "range_table", match=fy.P4TableMatch(type="1...0xfff0"), priority=5, action=fy.P4TableAction("learn")
        )
        setting = fy.P4DigestEntry("learn_t", max_list_size=1, ack_timeout_ns=10**12)
        await refused(switch.modify([setting]), Code.NOT_FOUND)
        await switch.insert([learn, setting])
        assert await read(switch, fy.P4DigestEntry()) == [setting]
        digests = aiter(switch.read_digests("learn_t"))
        waiting = asyncio.ensure_future(anext(digests))
        await asyncio.sleep(0)
        dataplane.inject(6, FRAME)
        first = await waiting
        assert first.data == [{"src": 11, "port": 6}]
        dataplane.inject(6, FRAME)  # known, and not acknowledged
        dataplane.inject(7, FRAME)
        assert (await anext(digests)).data == [{"src": 11, "port": 7}]
        await switch.write([first.ack()])
        again = asyncio.ensure_future(anext(digests))
        while not again.done():  # an acknowledgement is not answered
            dataplane.inject(6, FRAME)
            await asyncio.sleep(0.02)
        assert again.result().data == first.data and again.result().list_id > first.list_id
        await switch.delete([setting])
        assert await read(switch, fy.P4DigestEntry()) == []

    drive(script)


def test_errors_on_the_stream(drive: Drive) -> None:
    async def script(switch: fy.Switch) -> None:
        async def told(message: p4r.StreamMessageRequest) -> p4r.StreamError:
            waiting: asyncio.Future[p4r.StreamError] = asyncio.get_running_loop().create_future()
            switch.ee.once(fy.SwitchEvent.STREAM_ERROR, lambda _, response: waiting.set_result(response.error))
            assert switch._p4client is not None
            await switch._p4client.send(message)
            return await asyncio.wait_for(waiting, 5)

        packet = p4r.StreamMessageRequest(packet=p4r.PacketOut(payload=FRAME))
        error = await told(packet)
        assert error.canonical_code == Code.INVALID_ARGUMENT and "'egress_port' (1) is missing" in error.message
        assert error.packet_out.packet_out == packet.packet
        ack = p4r.StreamMessageRequest(digest_ack=p4r.DigestListAck(digest_id=7, list_id=1))
        error = await told(ack)
        assert error.canonical_code == Code.INVALID_ARGUMENT
        assert error.digest_list_ack.digest_list_ack == ack.digest_ack
        other = p4r.StreamMessageRequest()
        other.other.Pack(p4r.Error())
        error = await told(other)
        assert error.canonical_code == Code.INVALID_ARGUMENT and error.other.other == other.other

    drive(script)


def test_pipeline_and_capabilities(drive: Drive) -> None:
    async def script(switch: fy.Switch) -> None:
        assert switch.p4runtime_version >= fy.p4schema.P4RuntimeVersion.parse("1.4.0")
        kinds = fy.p4schema.P4ConfigResponseType
        for kind, with_p4info, with_config in (
            (kinds.ALL, True, True),
            (kinds.COOKIE_ONLY, False, False),
            (kinds.P4INFO_AND_COOKIE, True, False),
            (kinds.DEVICE_CONFIG_AND_COOKIE, False, True),
        ):
            config = (await switch._get_pipeline_config_request(response_type=kind)).config
            assert config.cookie.cookie == switch.p4info.p4cookie
            assert config.HasField("p4info") == with_p4info
            assert bool(config.p4_device_config) == with_config
        broken = p4r.ForwardingPipelineConfig()
        broken.CopyFrom(switch.p4info.get_pipeline_config())
        broken.p4info.tables[0].size += 1
        with pytest.raises(fy.P4ClientError) as caught:
            await switch._set_pipeline_config_request(action=fy.P4ConfigAction.RECONCILE_AND_COMMIT, config=broken)
        assert caught.value.code == Code.INVALID_ARGUMENT

    drive(script)


def test_another_program_under_traffic(
    drive: Drive, dataplane: DataPlane, variants: dict[str, BuildResult], program: BuildResult
) -> None:
    """A program with a table more takes over what is there; every frame is forwarded, and counted. One with a table
    less would lose an entry, and is refused."""

    async def script(switch: fy.Switch) -> None:
        async def reconcile(variant: BuildResult) -> None:
            config = p4r.ForwardingPipelineConfig(p4info=variant.p4info, p4_device_config=variant.container)
            await switch._set_pipeline_config_request(action=fy.P4ConfigAction.RECONCILE_AND_COMMIT, config=config)

        idle = fy.P4TableEntry("optional_table", priority=1, action=fy.P4TableAction("NoAction"), metadata=b"mine")
        await switch.insert([forwarded(), idle])
        done = asyncio.Event()

        async def frames() -> list[int]:
            ports = []
            while not done.is_set():
                ports += [port for port, _ in dataplane.inject(1, FRAME)]
                sent.append(1)
                await asyncio.sleep(0)
            return ports

        sent: list[int] = []
        traffic = asyncio.ensure_future(frames())
        await reconcile(variants["more"])
        await asyncio.sleep(0.05)
        with pytest.raises(fy.P4ClientError, match="cannot be preserved"):
            await reconcile(variants["less"])
        await reconcile(program)
        done.set()
        assert await traffic == [3] * len(sent) and len(sent) > 10
        assert await read(switch, fy.P4TableEntry("optional_table")) == [idle]
        (count,) = await read(switch, fy.P4DirectCounterEntry("exact_hits"))
        assert count.packet_count == len(sent)
        (received,) = await read(switch, fy.P4CounterEntry("port_rx", index=1))
        assert received.packet_count == len(sent)

    drive(script)


def test_watched_ports(drive: Drive, cabled: str) -> None:
    def mark(value: int) -> fy.P4TableAction:
        return fy.P4TableAction("mark", value=value)

    async def script(switch: fy.Switch) -> None:
        members = [fy.P4ActionProfileMember("paths", member_id=n, action=mark(n)) for n in (1, 2)]
        await switch.insert(members)
        await refused(switch.insert(members[:1]), Code.ALREADY_EXISTS)
        members[0].action = mark(11)
        await switch.modify(members[:1])
        assert await read(switch, fy.P4ActionProfileMember("paths", member_id=1)) == members[:1]
        group = fy.P4ActionProfileGroup(
            "paths", group_id=1, max_size=4, members=[fy.P4Member(1, weight=(2, 3)), fy.P4Member(2, weight=1)]
        )
        await switch.insert([group])
        assert await read(switch, fy.P4ActionProfileGroup()) == [group]
        for weight, reason in (
            ((1, 9), "no port 9 to watch"),
            (0, "weight 0 is not above 0"),
            (5, "size 5 is above 4"),
        ):
            wrong = fy.P4ActionProfileGroup("paths", group_id=1, max_size=4, members=[fy.P4Member(1, weight=weight)])
            code = Code.RESOURCE_EXHAUSTED if weight == 5 else Code.INVALID_ARGUMENT
            await refused(switch.modify([wrong]), code, reason=reason)
        await refused(switch.delete(members), Code.FAILED_PRECONDITION, Code.FAILED_PRECONDITION)
        await switch.delete([group])
        await switch.delete(members)
        shot = fy.P4IndirectAction([((2, 3), mark(1)), (1, mark(2)), (1, mark(2))])
        entry = fy.P4TableEntry("third", match=fy.P4TableMatch(dst=10), action=shot)
        await switch.insert([entry])
        assert await read(switch, fy.P4TableEntry("third")) == [entry]
        await refused(switch.insert(members[:1]), Code.INVALID_ARGUMENT, reason="one shots")
        entry.action = fy.P4IndirectAction([((2, 9), mark(1))])
        await refused(switch.modify([entry]), Code.INVALID_ARGUMENT, reason="no port 9 to watch")
        single = fy.P4TableEntry("first", match=fy.P4TableMatch(dst=10), action=fy.P4IndirectAction([(1, mark(1))]))
        await refused(switch.insert([single]), Code.INVALID_ARGUMENT, reason="a member is needed")

    drive(script, build(PROGRAMS / "profiles.p4"))


def test_no_bits(drive: Drive, dataplane: DataPlane) -> None:
    """P4Info gives bit<0> no width, so that finsy takes it for a string: the empty one."""

    async def script(switch: fy.Switch) -> None:
        action = fy.P4TableAction("send", nothing="", port=3)
        await switch.insert([fy.P4TableEntry("t", match=fy.P4TableMatch(a=5), action=action)])
        assert dataplane.inject(1, b"\x05") == [(3, b"\x05")]

    drive(script, build(PROGRAMS / "zero_width.p4"))


def test_value_sets_of_every_kind_of_match(drive: Drive) -> None:
    async def script(switch: fy.Switch) -> None:
        entry = fy.P4ValueSetEntry(
            "wanted",
            members=[P4ValueSetMember(a=7, b="0x10/&0xf0", c="0xab00/8", d="100...200"), P4ValueSetMember(a=8)],
        )
        await switch.modify([entry])
        (found,) = await read(switch, fy.P4ValueSetEntry("wanted", members=[]))
        assert [set(member) for member in found.members] == [{"a", "b", "c", "d"}, {"a"}]
        assert found.members[0]["d"] == (100, 200)

    drive(script, build(PROGRAMS / "value_sets.p4"))
