"""The language programs on BMv2: their STF scripts hold there too, and random entries and frames give the same.

What p4c refuses, and where BMv2 is known to differ, stands below with the reason; docs/p4switch.md explains each.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import pytest
from finsy.proto import p4i

from p4switch.build import BuildResult, build
from p4switch.dataplane import DataPlane, DataPlaneError, FieldMatch, SwitchOptions, TableEntry
from p4switch.stf.names import Names
from p4switch.stf.runner import Runner
from p4switch.stf.script import parse

from ..bmv2 import INSTALLED, Bmv2, Died, Refused, bmv2, compile_for_bmv2

PROGRAMS = Path(__file__).parent / "programs"
SCRIPTS = sorted(PROGRAMS.glob("*.stf"))
REFUSED = {  # programs, and what p4c says
    "arrays": "Cannot evaluate initializer for constant",
    "const_entries": "Cannot cast implicitly type 'bit<8>' to type 'Op'",
    "division": "could not evaluate expression at compilation time",
    "drops": r"Expected 1 argument for mark_to_drop\(\)",
    "enums_errors": "width not well-defined for values of type Color",
    "exit_shared": "contains a path from table I.shared.t back to itself",
    "lists": "BMV2 does not support for-in loops",
    "long_headers": "8184 size too large",
    "loops": "BMV2 does not support for-in loops",
    "nested_tables": "contains a path from table I.middle.leaf.t back to itself",
    "old_forms": "resubmit: unknown extern function",
    "pragmas": "syntax error, unexpected INTEGER",
    "randoms": "BMV2 does not support for-in loops",
    "struct_registers": "cells.read",
}
DIFFERENT = {  # scripts, and how BMv2 differs: see docs/p4switch.md
    "endless_loops": "a parser loop is left after some rounds",
    "parser_select": "no matching case of a select is no error",
    "registers_counters": "the sign of int<W> in registers is lost",
    "wide": "its command line shows 64 bits of a register",
}
DIES = {"union_stacks"}  # scripts that BMv2 does not survive
NOT_RANDOM = {  # programs that random frames lead to where BMv2 is known to differ
    "endless_loops": DIFFERENT["endless_loops"],
    "logging": "an assert that fails aborts BMv2",
    "parser_select": DIFFERENT["parser_select"],
    "registers_counters": DIFFERENT["registers_counters"],
    "stacks": "it reads headers that are not valid, which on BMv2 hold what another packet left",
    "union_stacks": "BMv2 does not survive it",
}
FRAMES = 60
ENTRIES = 6
CELLS = 16
PORTS = (1, 2, 3)

pytestmark = pytest.mark.skipif(not INSTALLED, reason="BMv2 is not installed")


def program_of(script: Path) -> Path:
    return script.with_name(script.name.split(".")[0] + ".p4")


def run(switch: Bmv2, p4info: p4i.P4Info, script: Path) -> list[str]:
    return Runner(cast("DataPlane", switch), Names(p4info)).run(parse(script))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda s: s.stem)
def test_script(script: Path, tmp_path: Path) -> None:
    program = program_of(script)
    if program.stem in REFUSED:
        with pytest.raises(Refused, match=REFUSED[program.stem]):
            compile_for_bmv2(program, tmp_path)
        return
    p4info, config = compile_for_bmv2(program, tmp_path)
    with bmv2(p4info, config, tmp_path) as switch:
        if script.stem in DIES:
            with pytest.raises(Died):
                run(switch, p4info, script)
            return
        failures = run(switch, p4info, script)
    if script.stem in DIFFERENT:
        assert failures, f"BMv2 no longer differs: {DIFFERENT[script.stem]}"
    else:
        assert not failures, "\n".join(failures)


# -------------------------------------------------------------------------------------------- random entries, frames


def a_number(rng: random.Random, width: int, seen: Sequence[bytes]) -> int:
    """A value that a key of this width may well meet: small, from a frame, or anything."""
    kind = rng.randrange(4)
    if kind == 0:
        value = rng.randrange(4)
    elif kind == 1 and seen:
        frame = rng.choice(seen)
        size = (width + 7) // 8
        value = int.from_bytes(frame[(at := rng.randrange(len(frame))) : at + size], "big")
    elif kind == 2:
        value = (1 << width) - 1 - rng.randrange(2)
    else:
        value = rng.getrandbits(width)
    return value & (1 << width) - 1


def a_match(rng: random.Random, field: p4i.MatchField, seen: Sequence[bytes]) -> FieldMatch | None:
    kinds, width = p4i.MatchField, field.bitwidth
    value = a_number(rng, width, seen)
    if field.match_type == kinds.EXACT:
        return FieldMatch(value)
    if rng.random() < 0.2:
        return None
    if field.match_type == kinds.OPTIONAL:
        return FieldMatch(value)
    if field.match_type == kinds.LPM:
        prefix = rng.randint(1, width)
        return FieldMatch(value >> (width - prefix) << (width - prefix), prefix=prefix)
    if field.match_type == kinds.TERNARY:
        mask = rng.choice((1, (1 << width) - 1, rng.getrandbits(width))) or 1
        return FieldMatch(value & mask, mask_or_hi=mask)
    low, high = sorted((value, a_number(rng, width, seen)))
    return None if high - low == (1 << width) - 1 else FieldMatch(low, mask_or_hi=high)


def some_entries(rng: random.Random, p4info: p4i.P4Info, seen: Sequence[bytes]) -> Iterator[TableEntry]:
    """Entries for all tables that take them."""
    actions = {a.preamble.id: a for a in p4info.actions}
    for table in p4info.tables:
        choices = [actions[r.id] for r in table.action_refs if r.scope != p4i.ActionRef.DEFAULT_ONLY]
        if table.is_const_table or table.implementation_id or not table.match_fields or not choices:
            continue
        plain = all(f.match_type in (p4i.MatchField.EXACT, p4i.MatchField.LPM) for f in table.match_fields)
        for number in range(min(ENTRIES, table.size)):
            action = rng.choice(choices)
            params = tuple(
                rng.choice(PORTS) if p.bitwidth == 9 else a_number(rng, p.bitwidth, seen) for p in action.params
            )
            matches = tuple(a_match(rng, f, seen) for f in table.match_fields)
            yield TableEntry(table.preamble.id, matches, 0 if plain else 100 + number, action.preamble.id, params)


def some_frames(rng: random.Random, seen: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
    """Frames like those of the script, some bytes changed, some longer.

    None is cut: most programs here read a header that is not valid then, and BMv2 has another packet's fields in it."""
    for _ in range(FRAMES):
        data = bytearray(rng.choice(seen))
        for _ in range(rng.choice((0, 1, 1, 2, 4))):
            data[rng.randrange(len(data))] = rng.choice((0, 1, 2, 3, 255, rng.randrange(256)))
        if rng.random() < 0.2:
            data += rng.randbytes(rng.randrange(1, 40))
        yield rng.choice(PORTS), bytes(data)


def fill(rng: random.Random, ours: DataPlane, theirs: Bmv2, p4info: p4i.P4Info, seen: Sequence[bytes]) -> None:
    for entry in some_entries(rng, p4info, seen):
        try:
            ours.table_insert(entry)
        except DataPlaneError:  # twice the same key
            continue
        theirs.table_insert(entry)
    for number, port in enumerate(PORTS, 1):
        for switch in (ours, theirs):
            switch.set_clone_session(number, [(port, number)])
            switch.set_multicast_group(number, [(port, 1), (PORTS[0], 2)])


@pytest.mark.parametrize("script", [s for s in SCRIPTS if "." not in s.stem], ids=lambda s: s.stem)
def test_random(script: Path, tmp_path: Path) -> None:
    program = program_of(script)
    if program.stem in REFUSED or program.stem in NOT_RANDOM:
        pytest.skip(NOT_RANDOM.get(program.stem, "p4c refuses it"))
    built: BuildResult = build(program)
    p4info, config = compile_for_bmv2(program, tmp_path)
    rng = random.Random(program.stem)
    seen = [bytes.fromhex(s.data) for s in parse(script) if s.keyword == "packet" and s.data]
    with bmv2(p4info, config, tmp_path) as theirs, DataPlane(SwitchOptions(), built.runtime) as ours:
        ours.load(built.library)
        fill(rng, ours, theirs, p4info, seen)
        for port, frame in some_frames(rng, seen):
            wanted = sorted(out for out in theirs.inject(port, frame) if out[1])  # BMv2 "sends" what is empty
            assert sorted(ours.inject(port, frame)) == wanted, f"port {port}, frame {frame.hex()}"
        for counter in p4info.counters:
            for cell in range(min(CELLS, counter.size)):
                where = counter.preamble.id, cell
                assert ours.counter_read(*where) == theirs.counter_read(*where), f"{counter.preamble.name}[{cell}]"
        for register in p4info.registers:
            if register.type_spec.bitstring.bit.bitwidth in range(1, 64):  # more is not shown
                cells = ours.register_read_all(register.preamble.id)
                assert cells == theirs.register_read_all(register.preamble.id), register.preamble.name
