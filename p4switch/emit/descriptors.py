"""What a program says of itself: the constant tables of p4rt.h's p4_program, for the runtime and the control plane."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from p4switch import ir
from p4switch.emit.context import Unit, WordField, word_fields
from p4switch.emit.layout import c_string, word_literals
from p4switch.emit.writer import Writer

_MATCH = {
    ir.MatchKind.EXACT: "P4_EXACT",
    ir.MatchKind.LPM: "P4_LPM",
    ir.MatchKind.TERNARY: "P4_TERNARY",
    ir.MatchKind.RANGE: "P4_RANGE",
    ir.MatchKind.OPTIONAL: "P4_OPTIONAL",
    ir.MatchKind.SELECTOR: "P4_SELECTOR",
}
_HASHES = {  # of action selectors; the custom CRCs are the standard ones, as on BMv2 until set otherwise
    "crc32": "P4_HASH_CRC32",
    "crc32_custom": "P4_HASH_CRC32",
    "csum16": "P4_HASH_CSUM16",
    "xor16": "P4_HASH_XOR16",
    "identity": "P4_HASH_IDENTITY",
    "random": "P4_HASH_RANDOM",
}
_UNIT = {"packets": "P4_PACKETS", "bytes": "P4_BYTES", "packets_and_bytes": "P4_PACKETS_AND_BYTES"}


def _truth(value: bool) -> str:
    return "true" if value else "false"


class DescriptorWriter:
    """Write the descriptors of a program's objects, then `program` itself."""

    def __init__(self, unit: Unit, out: Writer) -> None:
        self.unit = unit
        self.program = unit.program
        self.out = out

    def write(self) -> None:
        """Write everything up to and including p4_program_get()."""
        p = self.program
        self._array("const char *const", "errors", [c_string(e) for e in p.errors])
        self._write_actions()
        self._write_tables()
        self._array("const struct p4_register_desc", "registers", [self._register(r) for r in p.registers])
        self._array("const struct p4_counter_desc", "counters", [self._counted(c) for c in p.counters])
        self._array("const struct p4_meter_desc", "meters", [self._counted(m) for m in p.meters])
        self._write_digests()
        self._array("const struct p4_profile_desc", "profiles", [self._profile(a) for a in p.action_profiles])
        self._write_value_sets()
        self._write_program()

    def _array(self, c_type: str, name: str, items: Sequence[str]) -> None:
        """Write a static array; C has no empty ones, so that nothing is written for no items."""
        if items:
            with self.out.block(f"static {c_type} {name}[] =", "};"):
                for item in items:
                    self.out.line(f"{item},")

    @staticmethod
    def _reference(name: str, items: Sequence[object]) -> str:
        """C initializers of a count and a pointer to an array written by `_array`."""
        return f"{len(items)}, {name if items else 'NULL'}"

    # ------------------------------------------------------------------------------------------------------- objects

    def _write_actions(self) -> None:
        rows = []
        for number, action in enumerate(self.program.actions):
            fields, total = self.unit.param_fields(action)
            descriptions = [
                f"{{{c_string(p.name)}, {p.id}, {f.width}, {f.word}}}"
                for p, f in zip(action.params, fields, strict=True)
            ]
            self._array("const struct p4_field_desc", f"action_params_{number}", descriptions)
            params = f"action_params_{number}" if fields else "NULL"
            rows.append(
                f"{{{c_string(action.identity.name)}, {action.identity.id:#x}, {len(fields)}, {total}, {params}}}"
            )
        self._array("const struct p4_action_desc", "actions", rows)

    def _write_tables(self) -> None:
        self._array("const struct p4_table_desc", "tables", [self._table(t) for t in self.program.tables])

    def _table(self, table: ir.Table) -> str:
        """Write the arrays of a table; give its initializer."""
        number = self.unit.table_index[table.ir_name]
        fields, key_words = self.unit.key_fields(table)
        keys = [
            f"{{{c_string(k.name)}, {k.id}, {f.width}, {f.word}, {_MATCH[k.match]}}}"
            for k, f in zip(table.keys, fields, strict=True)
        ]
        self._array("const struct p4_key_desc", f"table_keys_{number}", keys)
        choices = [str(self.unit.action_index[a.action]) for a in table.actions]
        self._array("const uint32_t", f"table_actions_{number}", choices)
        default_data = self._words(f"table_default_{number}", self._data(table.default_action, table.default_args))
        entries = [
            self._entry(table, entry, fields, key_words, f"table_{number}_entry_{i}")
            for i, entry in enumerate(table.const_entries)
        ]
        self._array("const struct p4_const_entry", f"table_entries_{number}", entries)
        counter = self.unit.counter_index[table.direct_counter] if table.direct_counter else -1
        meter = self.unit.meter_index[table.direct_meter] if table.direct_meter else -1
        profile = self.unit.profile_index[table.implementation] if table.implementation else -1
        members = [
            c_string(table.identity.name),
            f"{table.identity.id:#x}",
            f"{len(keys)}, {key_words}, {f'table_keys_{number}' if keys else 'NULL'}",
            self._reference(f"table_actions_{number}", choices),
            f"{self._choice(table, table.default_action)}, {default_data}, {_truth(table.const_default)}",
            str(table.size),
            f"{self._reference(f'table_entries_{number}', entries)}, {_truth(table.entries_are_const)}",
            f"{counter}, {meter}, {profile}, {_truth(table.support_timeout)}",
        ]
        return f"{{{', '.join(members)}}}"

    @staticmethod
    def _choice(table: ir.Table, action: str) -> int:
        """Index of an action among the table's."""
        return [a.action for a in table.actions].index(action)

    def _data(self, action: str, args: tuple[int, ...]) -> list[str]:
        """Words of action data, as literals."""
        params = self.unit.actions[action].params
        return [w for p, value in zip(params, args, strict=True) for w in word_literals(value, p.type.width)]

    def _words(self, name: str, literals: list[str]) -> str:
        """Write an array of words; give the C text that names it."""
        self._array("const uint64_t", name, [", ".join(literals)] if literals else [])
        return name if literals else "NULL"

    def _entry(self, table: ir.Table, entry: ir.ConstEntry, fields: list[WordField], key_words: int, name: str) -> str:
        values: list[str] = []
        masks: list[str] = []
        for key, match, place in zip(table.keys, entry.matches, fields, strict=True):
            value, mask = _value_and_mask(key, match)
            values += word_literals(value, place.width)
            masks += word_literals(mask, place.width)
        assert len(values) == max(key_words, 0)
        value_name = self._words(f"{name}_value", values)
        mask_name = self._words(f"{name}_mask", masks)
        data = self._words(f"{name}_data", self._data(entry.action, entry.args))
        members = [value_name, mask_name, str(self._choice(table, entry.action)), data, str(entry.priority)]
        return f"{{{', '.join([*members, _truth(entry.is_const)])}}}"

    @staticmethod
    def _register(register: ir.Register) -> str:
        identity = register.identity
        return f"{{{c_string(identity.name)}, {identity.id:#x}, {register.element.width}, {register.size}}}"

    def _counted(self, item: ir.Counter | ir.Meter) -> str:
        table = self.unit.table_index[item.table] if item.table else -1
        identity = item.identity
        return f"{{{c_string(identity.name)}, {identity.id:#x}, {item.size}, {_UNIT[item.unit]}, {table}}}"

    @staticmethod
    def _profile(profile: ir.ActionProfile) -> str:
        identity = profile.identity
        hash_name = _HASHES.get(profile.hash_algorithm, "P4_HASH_CRC16")
        selector = _truth(profile.selector)
        return f"{{{c_string(identity.name)}, {identity.id:#x}, {profile.size}, {selector}, {hash_name}}}"

    def _write_digests(self) -> None:
        rows = []
        for number, digest in enumerate(self.program.digests):
            fields, total = self.unit.digest_fields(digest)
            descriptions = [f"{{{c_string(f.name)}, {i + 1}, {f.width}, {f.word}}}" for i, f in enumerate(fields)]
            self._array("const struct p4_field_desc", f"digest_fields_{number}", descriptions)
            reference = f"digest_fields_{number}" if fields else "NULL"
            rows.append(
                f"{{{c_string(digest.identity.name)}, {digest.identity.id:#x}, {len(fields)}, {total}, {reference}}}"
            )
        self._array("const struct p4_digest_desc", "digests", rows)

    def _write_value_sets(self) -> None:
        rows = []
        for number, value_set in enumerate(self.program.value_sets):
            fields, total = word_fields((f"field{i + 1}", width) for i, width in enumerate(value_set.widths))
            kinds = value_set.matches or (ir.MatchKind.EXACT,) * len(fields)
            keys = [
                f"{{{c_string(f.name)}, {i + 1}, {f.width}, {f.word}, {_MATCH[kind]}}}"
                for i, (f, kind) in enumerate(zip(fields, kinds, strict=True))
            ]
            self._array("const struct p4_key_desc", f"value_set_fields_{number}", keys)
            identity = value_set.identity
            rows.append(
                f"{{{c_string(identity.name)}, {identity.id:#x}, {len(fields)}, {total}, {value_set.size}, "
                f"{f'value_set_fields_{number}' if fields else 'NULL'}}}"
            )
        self._array("const struct p4_value_set_desc", "value_sets", rows)

    def _write_program(self) -> None:
        p = self.program
        members = [
            "P4_ABI_VERSION",
            c_string(PurePath(p.source).name),
            "sizeof(struct phv)",
            self._reference("errors", p.errors),
            self._reference("actions", p.actions),
            self._reference("tables", p.tables),
            self._reference("registers", p.registers),
            self._reference("counters", p.counters),
            self._reference("meters", p.meters),
            self._reference("digests", p.digests),
            self._reference("profiles", p.action_profiles),
            self._reference("value_sets", p.value_sets),
            "phv_clear, meta_clear, parse, verify, ingress, egress, compute, deparse",
            "copy_fields",
        ]
        self._array("const struct p4_program", "program", [f"{{{', '.join(members)}}}"])
        self.out.line("const struct p4_program *p4_program_get(void) { return program; }")


def _value_and_mask(key: ir.Key, match: ir.KeyMatch) -> tuple[int, int]:
    """Give value and mask (range: low and high end) of one component of a constant entry."""
    full = 2**key.width - 1
    if key.match is ir.MatchKind.RANGE:
        return (0, full) if match.wildcard else (match.value, match.mask_or_hi)
    if match.wildcard:
        return 0, 0
    if key.match is ir.MatchKind.LPM:
        mask = full ^ (2 ** (key.width - match.prefix) - 1)
    elif key.match is ir.MatchKind.TERNARY:
        mask = match.mask_or_hi
    else:
        mask = full
    return match.value & mask, mask
