"""The same updates to p4switch and to BMv2: where both agree, and each difference that docs/p4runtime.md names."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from finsy.proto import p4d, p4r

from p4switch.build import build
from p4switch.dataplane import DataPlane, SwitchOptions
from p4switch.server import ServerOptions, serve, status
from ptf_tests.p4runtime import Names, P4RuntimeClient, P4RuntimeError

from ..bmv2 import INSTALLED, Bmv2, bmv2, compile_for_bmv2
from .client import Client, between, exact, lpm, optional, ternary
from .conftest import CPU_PORT, PROGRAMS
from .test_entities import counter, group, meter, session
from .test_profiles import member, one_shot, paths

OK, INVALID, UNKNOWN, NONE = status.OK, status.INVALID_ARGUMENT, status.UNKNOWN, status.UNIMPLEMENTED
DENIED, MISSING, EXISTS, BEYOND = (
    status.PERMISSION_DENIED,
    status.NOT_FOUND,
    status.ALREADY_EXISTS,
    status.OUT_OF_RANGE,
)
FRAMES = 200

pytestmark = pytest.mark.skipif(not INSTALLED, reason="BMv2 is not installed")


class Both:
    """Two switches with the same program. `say` makes messages by the program's names."""

    def __init__(self, say: Client, plane: DataPlane, ours: P4RuntimeClient, theirs: Bmv2) -> None:
        self.say, self.plane, self.ours, self.theirs = say, plane, ours, theirs

    def write(self, update: str, entity: p4r.Entity) -> tuple[int, int]:
        """Give the code of p4switch and that of BMv2."""
        return _code(self.ours, update, entity), _code(self.theirs.client, update, entity)


def _code(client: P4RuntimeClient, update: str, entity: p4r.Entity) -> int:
    try:
        client.write(update, [entity])
    except P4RuntimeError as error:
        found = re.search(r"update 0: code (\d+)", str(error))
        assert found, error
        return int(found.group(1))
    return OK


@contextmanager
def run(name: str, folder: Path) -> Iterator[Both]:
    program = build(PROGRAMS / name)
    p4info, config = compile_for_bmv2(PROGRAMS / name, folder)
    assert p4info.tables == program.p4info.tables and p4info.actions == program.p4info.actions
    with (
        DataPlane(SwitchOptions(cpu_port=CPU_PORT)) as plane,
        serve(plane, ServerOptions(grpc_addr="127.0.0.1:0"), program) as server,
        P4RuntimeClient(f"127.0.0.1:{server.port}", 1, Names(program.p4info)) as ours,
        bmv2(p4info, config, folder) as theirs,
    ):
        say = Client(server.port, p4info=program.p4info)
        yield Both(say, plane, ours, theirs)
        say.close()


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with run("features.p4", tmp_path_factory.mktemp("bmv2")) as both:
        yield both


@pytest.fixture(scope="module")
def both_profiles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with run("profiles.p4", tmp_path_factory.mktemp("bmv2")) as both:
        yield both


Make = Callable[[Client], Any]


def entry(table: str, *matches: p4r.FieldMatch, action: tuple[Any, ...] = (), **fields: Any) -> Make:
    """An entry; action: its name and arguments."""

    def make(c: Client) -> p4r.Entity:
        given = {"action": c.action(*action)} if action else {}
        return p4r.Entity(table_entry=c.entry(table, *matches, **given, **fields))

    return make


def forward(argument: bytes) -> Make:
    def make(c: Client) -> p4r.Entity:
        action = c.action("counted_forward", 1)
        action.action.params[0].value = argument
        return p4r.Entity(table_entry=c.entry("exact_table", exact(1, 99), action=action))

    return make


def default(table: str, *action: Any) -> Make:
    return entry(table, action=action, is_default_action=True)


def replication(message: p4r.PacketReplicationEngineEntry) -> Make:
    return lambda c: p4r.Entity(packet_replication_engine_entry=message)


def counts(index: int, packets: int) -> Make:
    return lambda c: p4r.Entity(counter_entry=counter(c, index, packets))


def meters(**config: int) -> Make:
    def make(c: Client) -> p4r.Entity:
        message = meter(c, 1)
        message.config.CopyFrom(p4r.MeterConfig(**config))
        return p4r.Entity(meter_entry=message)

    return make


def misplaced_counter(c: Client) -> p4r.Entity:
    message = p4r.DirectCounterEntry(table_entry=c.entry("exact_table", exact(1, 1)), data=p4r.CounterData())
    return p4r.Entity(direct_counter_entry=message)


def register(c: Client) -> p4r.Entity:
    return p4r.Entity(register_entry=p4r.RegisterEntry(register_id=c.id_of("wide"), data=p4d.P4Data(bitstring=b"\1")))


def value_set(c: Client) -> p4r.Entity:
    return p4r.Entity(value_set_entry=p4r.ValueSetEntry(value_set_id=c.p4info.value_sets[0].preamble.id))


def digest(c: Client) -> p4r.Entity:
    return p4r.Entity(digest_entry=p4r.DigestEntry(digest_id=c.id_of("learn_t")))


NOTHING, LEARN, DENY, FORWARD = ("NoAction",), ("learn",), ("deny",), ("counted_forward", 1)
CASES: list[tuple[str, str, Make, int, int]] = [  # what, update, entity, code of p4switch, code of BMv2
    # Entries without any match field; the priority has to be there where any field has no order of its own.
    ("lpm", "INSERT", entry("lpm_table", action=NOTHING), OK, OK),
    ("lpm again", "INSERT", entry("lpm_table", action=NOTHING), EXISTS, EXISTS),
    ("lpm with priority", "INSERT", entry("lpm_table", priority=1, action=NOTHING), INVALID, INVALID),
    ("range", "INSERT", entry("range_table", priority=3, action=LEARN), OK, OK),
    ("range changed", "MODIFY", entry("range_table", priority=3, action=NOTHING), OK, OK),
    ("range deleted", "DELETE", entry("range_table", priority=3), OK, OK),
    ("range without priority", "INSERT", entry("range_table", action=LEARN), INVALID, INVALID),
    ("optional", "INSERT", entry("optional_table", priority=3, action=DENY), OK, OK),
    ("optional without priority", "INSERT", entry("optional_table", action=DENY), INVALID, INVALID),
    ("only the exact field", "INSERT", entry("ternary_table", exact(2, 1), priority=1, action=NOTHING), OK, OK),
    ("exact", "INSERT", entry("exact_table", action=FORWARD), INVALID, INVALID),
    # Fields that say "any" in other words.
    ("mask 0", "INSERT", entry("ternary_table", ternary(1, 0, 0), exact(2, 5), priority=1, action=NOTHING), INVALID,
     INVALID),
    ("prefix 0", "INSERT", entry("lpm_table", lpm(1, 0, 0), action=NOTHING), INVALID, INVALID),
    ("range over all", "INSERT", entry("range_table", between(1, 0, 0xFFFF), priority=1, action=LEARN), INVALID, OK),
    # Values.
    ("bits outside the mask", "INSERT",
     entry("ternary_table", ternary(1, 3, 2), exact(2, 5), priority=1, action=NOTHING), INVALID, INVALID),
    ("empty range", "INSERT", entry("range_table", between(1, 5, 4), priority=1, action=LEARN), INVALID, INVALID),
    ("padded value", "INSERT", forward(b"\0\0\1"), OK, OK),
    ("value too wide", "MODIFY", forward(b"\2\0"), INVALID, INVALID),
    ("empty value", "MODIFY", forward(b""), INVALID, OK),
    # Entries.
    ("const table", "INSERT", entry("const_table", priority=1, action=DENY), DENIED, UNKNOWN),
    ("table without key", "INSERT", entry("keyless_table", action=LEARN), INVALID, UNKNOWN),
    ("no such entry", "DELETE", entry("exact_table", exact(1, 7)), MISSING, MISSING),
    ("no action", "MODIFY", entry("lpm_table", metadata=b"m"), OK, INVALID),
    ("is_const", "INSERT", entry("exact_table", exact(1, 6), action=FORWARD, is_const=True), INVALID, OK),
    ("no time-outs", "INSERT", entry("exact_table", exact(1, 8), action=FORWARD, idle_timeout_ns=1), INVALID, INVALID),
    ("time-out", "INSERT", entry("optional_table", optional(1, 2), priority=2, action=DENY, idle_timeout_ns=10**15),
     OK, OK),
    ("default-only action", "INSERT", entry("exact_table", exact(1, 5), action=DENY), DENIED, DENIED),
    ("another table's action", "INSERT", entry("exact_table", exact(1, 5), action=LEARN), INVALID, INVALID),
    ("default inserted", "INSERT", default("lpm_table", "NoAction"), INVALID, INVALID),
    ("default reset", "MODIFY", default("lpm_table"), OK, OK),
    ("default const", "MODIFY", default("range_table", "learn"), DENIED, DENIED),
    ("table-only action", "MODIFY", default("lpm_table", "mirror", 1), DENIED, DENIED),
    # Counters, meters, and what BMv2 does not have.
    ("beyond a counter", "MODIFY", counts(16, 1), BEYOND, UNKNOWN),
    ("negative count", "MODIFY", counts(1, -1), INVALID, OK),
    ("counter inserted", "INSERT", counts(1, 1), INVALID, INVALID),
    ("counter of no entry", "MODIFY", misplaced_counter, MISSING, INVALID),
    ("excess burst", "MODIFY", meters(cir=1, cburst=1, pir=1, pburst=1, eburst=5), INVALID, OK),
    ("committed above peak", "MODIFY", meters(cir=2, cburst=1, pir=1, pburst=1), INVALID, UNKNOWN),
    ("register", "MODIFY", register, OK, NONE),
    ("value set", "MODIFY", value_set, OK, NONE),
    ("digest", "MODIFY", digest, MISSING, MISSING),
    # Groups and sessions.
    ("port of a replica", "INSERT", replication(group(1, (512, 0))), INVALID, OK),
    ("instance of a replica", "INSERT", replication(group(3, (1, 1 << 16))), INVALID, OK),
    ("replica twice", "INSERT", replication(group(2, (1, 1), (1, 1))), INVALID, INVALID),
    ("class of service", "INSERT", replication(session(4, (1, 0), class_of_service=1)), INVALID, NONE),
    ("group 0", "INSERT", replication(group(0)), INVALID, INVALID),
    ("group too high", "INSERT", replication(group(1 << 16)), BEYOND, BEYOND),
    ("no such group", "DELETE", replication(group(9)), MISSING, MISSING),
    ("session 0", "INSERT", replication(session(0)), INVALID, INVALID),
    ("session too high", "INSERT", replication(session(1 << 15)), INVALID, INVALID),
    ("clones cut short", "INSERT", replication(session(5, (1, 0), packet_length_bytes=60)), OK, UNKNOWN),
]  # fmt: skip


def a_member(number: int, *action: Any, profile: str = "paths") -> Make:
    return lambda c: p4r.Entity(action_profile_member=member(c, number, *action, profile=profile))


def a_group(number: int, *members: tuple[int, int], **fields: Any) -> Make:
    return lambda c: p4r.Entity(action_profile_group=paths(c, number, *members, **fields))


def shots(table: str, key: int, *actions: tuple[int, int]) -> Make:
    """An entry in one shot: values to mark with, and weights."""
    return lambda c: p4r.Entity(table_entry=c.entry(table, exact(1, key), action=one_shot(c, *actions)))


def refers(table: str, key: int, **reference: int) -> Make:
    action = p4r.TableAction(**reference)  # type: ignore[arg-type]
    return lambda c: p4r.Entity(table_entry=c.entry(table, exact(1, key), action=action))


PROFILES: list[tuple[str, str, Make, int, int]] = [
    # One shots.
    ("weight 0", "INSERT", shots("third", 1, (1, 0)), INVALID, INVALID),
    ("one shot", "INSERT", shots("third", 1, (1, 2), (2, 1)), OK, OK),
    ("one shot again", "INSERT", shots("third", 1, (1, 2)), EXISTS, EXISTS),
    ("one shot changed", "MODIFY", shots("third", 1, (1, 2), (1, 1)), OK, OK),
    ("member beside", "INSERT", a_member(1, "mark", 1), INVALID, INVALID),
    ("group beside", "INSERT", a_group(1), INVALID, INVALID),
    ("reference beside", "INSERT", refers("third", 2, action_profile_member_id=1), INVALID, INVALID),
    ("one shot without a selector", "INSERT", shots("first", 1, (1, 1)), INVALID, UNKNOWN),
    ("one shot of nothing", "INSERT", shots("third", 3), OK, NONE),
    ("one shot deleted", "DELETE", shots("third", 1), OK, OK),
    ("one shot of nothing deleted", "DELETE", shots("third", 3), OK, MISSING),
    # Members.
    ("member", "INSERT", a_member(1, "mark", 1), OK, OK),
    ("member again", "INSERT", a_member(1, "mark", 1), EXISTS, EXISTS),
    ("member without an action", "INSERT", a_member(2), INVALID, INVALID),
    ("no such member", "MODIFY", a_member(3, "mark", 1), MISSING, MISSING),
    ("no such member", "DELETE", a_member(3), MISSING, MISSING),
    ("second member", "INSERT", a_member(2, "deny"), OK, OK),
    ("default-only action", "INSERT", a_member(4, "NoAction"), DENIED, OK),
    # Groups.
    ("group of no member", "INSERT", a_group(1, (9, 1)), MISSING, MISSING),
    ("member of weight 0", "INSERT", a_group(2, (1, 0)), INVALID, INVALID),
    ("max_size below 0", "INSERT", a_group(3, max_size=-1), INVALID, INVALID),
    ("group", "INSERT", a_group(4, (1, 1), (2, 1), max_size=4), OK, OK),
    ("group again", "INSERT", a_group(4, (1, 1), max_size=4), EXISTS, EXISTS),
    ("group changed", "MODIFY", a_group(4, (1, 2), max_size=4), OK, OK),
    ("max_size changed", "MODIFY", a_group(4, (1, 1), max_size=5), INVALID, INVALID),
    ("no such group", "MODIFY", a_group(5, (1, 1)), MISSING, MISSING),
    ("no such port", "MODIFY", a_group(4, (1, 1), max_size=4, watch=9), INVALID, status.INTERNAL),
    ("group too large", "MODIFY", a_group(4, (1, 5), max_size=4), status.RESOURCE_EXHAUSTED, status.RESOURCE_EXHAUSTED),
    ("member twice", "INSERT", a_group(6, (1, 1), (1, 1)), INVALID, INVALID),
    # Entries.
    ("group's entry", "INSERT", refers("third", 1, action_profile_group_id=4), OK, OK),
    ("member's entry", "INSERT", refers("third", 2, action_profile_member_id=1), OK, OK),
    ("no such group", "INSERT", refers("third", 3, action_profile_group_id=7), MISSING, INVALID),
    ("no such member", "INSERT", refers("third", 3, action_profile_member_id=7), MISSING, INVALID),
    ("group without a selector", "INSERT", refers("first", 1, action_profile_group_id=4), INVALID, INVALID),
    ("no reference", "INSERT", refers("third", 3), INVALID, INVALID),
    ("action of its own", "INSERT", entry("third", exact(1, 3), action=DENY), INVALID, INVALID),
    ("one shot beside", "INSERT", shots("third", 3, (1, 1)), INVALID, INVALID),
    ("default entry", "MODIFY", default("third", "deny"), DENIED, INVALID),
    ("member in use", "DELETE", a_member(1), status.FAILED_PRECONDITION, UNKNOWN),
    ("group in use", "DELETE", a_group(4), status.FAILED_PRECONDITION, UNKNOWN),
    # What only p4switch refuses.
    ("member 0", "INSERT", a_member(0, "mark", 1), INVALID, OK),
    ("group 0", "INSERT", a_group(0), INVALID, OK),
    *((f"member {n}", "INSERT", a_member(n, "deny", profile="shared"), OK, OK) for n in range(1, 5)),
    ("one member too many", "INSERT", a_member(5, "deny", profile="shared"), status.RESOURCE_EXHAUSTED, OK),
]  # fmt: skip


@pytest.mark.parametrize(
    ("update", "make", "our_code", "their_code"), [pytest.param(*case[1:], id=case[0]) for case in PROFILES]
)
def test_profiles(both_profiles: Both, update: str, make: Make, our_code: int, their_code: int) -> None:
    assert both_profiles.write(update, make(both_profiles.say)) == (our_code, their_code)


@pytest.mark.parametrize(
    ("update", "make", "our_code", "their_code"), [pytest.param(*case[1:], id=case[0]) for case in CASES]
)
def test_updates(both: Both, update: str, make: Make, our_code: int, their_code: int) -> None:
    """One after the other on the same two switches: some need what those before them wrote."""
    assert both.write(update, make(both.say)) == (our_code, their_code)


def test_reads(tmp_path: Path) -> None:
    """After the same writes the same is read, whatever is asked for and however much of it."""
    rates = p4r.MeterConfig(cir=1, cburst=2, pir=3, pburst=4)
    writes = [
        entry("exact_table", exact(1, 5), action=FORWARD, metadata=b"m", controller_metadata=4),
        entry("lpm_table", lpm(1, 0x110000000000, 8), action=("to_cpu", 5)),
        entry("lpm_table", action=("flood", 7)),
        entry("ternary_table", ternary(1, 0x10, 0xF0), exact(2, 5), priority=10, action=("rated",), meter_config=rates),
        entry("ternary_table", exact(2, 6), priority=10, action=("rated",)),
        entry("range_table", between(1, 1, 5), priority=10, action=LEARN),
        entry("optional_table", optional(1, 2), priority=2, action=DENY, idle_timeout_ns=10**15),
        entry("optional_table", priority=1, action=DENY),
        replication(group(3, (1, 1))),
        replication(session(3, (1, 1))),
    ]
    settings = [default("lpm_table", "forward", 4), counts(2, 5), meters(cir=1, cburst=2, pir=3, pburst=4)]
    queries: list[Make] = [
        *(entry(table) for table in ("exact_table", "lpm_table", "range_table", "optional_table", "keyless_table")),
        entry("exact_table", exact(1, 5)),
        entry("exact_table", exact(1, 6)),
        entry("lpm_table", lpm(1, 0x110000000000, 8)),
        entry("exact_table", counter_data=p4r.CounterData()),
        entry("ternary_table", meter_config=p4r.MeterConfig()),
        default("lpm_table"),
        default("ternary_table"),
        lambda c: p4r.Entity(direct_counter_entry=p4r.DirectCounterEntry(table_entry=c.entry("exact_table"))),
        lambda c: p4r.Entity(direct_meter_entry=p4r.DirectMeterEntry(table_entry=c.entry("ternary_table"))),
        lambda c: p4r.Entity(counter_entry=p4r.CounterEntry()),
        lambda c: p4r.Entity(counter_entry=counter(c, 2)),
        lambda c: p4r.Entity(meter_entry=p4r.MeterEntry()),
        replication(group(0)),
        replication(session(0)),
    ]
    with run("features.p4", tmp_path) as both:
        for update, makes in (("INSERT", writes), ("MODIFY", settings)):
            for make in makes:
                assert both.write(update, make(both.say)) == (OK, OK)
        found = 0
        for make in queries:
            query = make(both.say)
            ours, theirs = (sorted(map(str, c.read([query]))) for c in (both.ours, both.theirs.client))
            assert ours == theirs, query
            found += len(ours)
    assert found == 39


def test_frames_meet_entries_without_fields(tmp_path: Path) -> None:
    """They match everything, below what is more specific or comes first by priority."""
    entries = [
        entry("by_mask", priority=1, action=("add", 1)),
        entry("by_mask", ternary(1, 0x80, 0x80), priority=2, action=("add", 2)),
        entry("by_range", priority=5, action=("add", 0x10)),
        entry("by_range", between(1, 0, 99), priority=4, action=("add", 0x20)),  # never: its priority is lower
        entry("by_option", priority=1, action=("add", 0x100)),
        entry("by_option", optional(2, 7), priority=2, action=("add", 0x200)),
        entry("by_prefix", action=("add", 0x1000)),
        entry("by_prefix", lpm(1, 0x40, 2), action=("add", 0x2000)),
        entry("by_prefix_and_mask", priority=1, action=("add", 0x10000)),
        entry("by_prefix_and_mask", lpm(1, 0x80, 1), priority=2, action=("add", 0x20000)),
    ]
    rng = random.Random(1)
    sums = set()
    with run("anything.p4", tmp_path) as both:
        for each in entries:
            assert both.write("INSERT", each(both.say)) == (OK, OK)
        for _ in range(FRAMES):
            frame = bytes([rng.getrandbits(8), rng.choice((7, rng.getrandbits(8))), 0, 0, 0, 0])
            ((_, out),) = wanted = both.theirs.inject(1, frame)
            assert both.plane.inject(1, frame) == wanted, frame.hex()
            sums.add(out[2:6])
    assert len(sums) == 6 and all(value[3] & 0xF0 == 0x10 for value in sums)
