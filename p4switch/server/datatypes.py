"""Types of values that P4Info describes, and their translation between messages and plain integers.

Two forms exist on the wire: byte strings (match fields, action parameters, packet metadata) and P4Data trees
(registers, digests). The data plane knows only unsigned integers: one per field, or one per scalar leaf of a P4Data,
in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from finsy.proto import p4d, p4t

from p4switch.server.status import INVALID_ARGUMENT, RequestError
from p4switch.server.translation import Translation
from p4switch.server.values import decode_signed, decode_unsigned, encode_signed, encode_unsigned

_MOST_NESTED = 16  # deeper than any P4 program; a P4Info may name a struct inside itself


class _Described(Protocol):
    """What MatchField, Action.Param and ControllerPacketMetadata.Metadata have in common."""

    id: int
    name: str
    bitwidth: int
    type_name: p4t.P4NamedType


@dataclass(frozen=True)
class Types:
    """What is known of named types: the P4Info's part, and the translations of those that need one."""

    info: p4t.P4TypeInfo
    translations: Mapping[str, Translation]


@dataclass(frozen=True)
class Field:
    """A value that travels as a byte string. width: bits as controllers see it, 0 for strings."""

    id: int
    name: str
    width: int
    owner: str  # for messages: "match field 'x' of table 't'"
    type_name: str = ""
    translation: Translation | None = field(default=None, compare=False)

    @classmethod
    def of(cls, described: _Described, types: Types, owner: str) -> Field:
        """Describe a field of a P4Info; INVALID_ARGUMENT when it has no usable width."""
        translation = types.translations.get(described.type_name.name)
        if described.bitwidth < 0:
            raise RequestError(INVALID_ARGUMENT, f"P4Info: {owner} has bit width {described.bitwidth}")
        return cls(described.id, described.name, described.bitwidth, owner, described.type_name.name, translation)

    @property
    def plane_width(self) -> int:
        """Bits in the program."""
        return self.width if self.translation is None else self.translation.plane_width

    def decode(self, data: bytes) -> int:
        """Read a value as the program has it."""
        if self.translation is not None:
            return self.translation.to_plane(data, self.owner)
        if data and len(data) * 8 <= self.width:  # the common case, without a call
            return int.from_bytes(data, "big")
        return decode_unsigned(data, self.width, self.owner)

    def encode(self, value: int) -> bytes:
        """Write a value of the program."""
        return encode_unsigned(value) if self.translation is None else self.translation.to_sdn(value)


@dataclass(frozen=True)
class DataType:
    """A P4 type as P4Data carries it.

    kind: the name of P4Data's own field for it: bitstring, bool, tuple, struct, header, enum, enum_value or error.
    members: of a tuple, struct or header. labels: of an enum or error, in order of their values.
    """

    kind: str
    width: int = 0
    signed: bool = False
    members: tuple[tuple[str, DataType], ...] = ()
    labels: tuple[str, ...] = ()
    translation: Translation | None = field(default=None, compare=False)

    @classmethod
    def of(cls, spec: p4t.P4DataTypeSpec, types: Types, owner: str, depth: int = 0) -> DataType:
        """Describe a P4DataTypeSpec; INVALID_ARGUMENT for what this switch cannot keep."""
        kind = spec.WhichOneof("type_spec")
        if depth > _MOST_NESTED:
            raise RequestError(INVALID_ARGUMENT, f"P4Info: the type of {owner} is nested without end")
        if kind == "bitstring":
            return cls._bitstring(spec.bitstring, owner)
        if kind == "bool":
            return cls("bool", 1)
        if kind == "tuple":
            return cls("tuple", members=tuple(("", cls.of(m, types, owner, depth + 1)) for m in spec.tuple.members))
        if kind == "struct" and spec.struct.name in types.info.structs:
            members = types.info.structs[spec.struct.name].members
            return cls("struct", members=tuple((m.name, cls.of(m.type_spec, types, owner, depth + 1)) for m in members))
        if kind == "header" and spec.header.name in types.info.headers:
            fields = types.info.headers[spec.header.name].members
            return cls("header", members=tuple((m.name, cls._bitstring(m.type_spec, owner)) for m in fields))
        if kind == "enum" and spec.enum.name in types.info.enums:
            return cls("enum", 32, labels=tuple(m.name for m in types.info.enums[spec.enum.name].members))
        if kind == "serializable_enum" and spec.serializable_enum.name in types.info.serializable_enums:
            return cls(
                "enum_value", types.info.serializable_enums[spec.serializable_enum.name].underlying_type.bitwidth
            )
        if kind == "error":
            return cls("error", 32, labels=tuple(types.info.error.members))
        if kind == "new_type" and spec.new_type.name in types.info.new_types:
            new_type = types.info.new_types[spec.new_type.name]
            if new_type.HasField("original_type"):
                return cls.of(new_type.original_type, types, owner, depth + 1)
            translation = types.translations.get(spec.new_type.name)
            return cls("bitstring", new_type.translated_type.sdn_bitwidth, translation=translation)
        raise RequestError(INVALID_ARGUMENT, f"P4Info: {owner} has a type that this switch cannot expose: {kind}")

    @classmethod
    def _bitstring(cls, spec: p4t.P4BitstringLikeTypeSpec, owner: str) -> DataType:
        kind = spec.WhichOneof("type_spec")
        if kind == "bit" and spec.bit.bitwidth > 0:
            return cls("bitstring", spec.bit.bitwidth)
        if kind == "int" and spec.int.bitwidth > 0:
            return cls("bitstring", spec.int.bitwidth, signed=True)
        raise RequestError(INVALID_ARGUMENT, f"P4Info: {owner} holds a {kind or 'value'} without a fixed width")

    @property
    def widths(self) -> tuple[int, ...]:
        """Bits of each leaf, as the program has them."""
        if self.members:
            return tuple(width for _, member in self.members for width in member.widths)
        return (self.width if self.translation is None else self.translation.plane_width,)

    def pack(self, leaves: Sequence[int]) -> int:
        """Put leaves side by side, the first in the highest bits: how a register's cell keeps them."""
        value = 0
        for leaf, width in zip(leaves, self.widths, strict=True):
            value = value << width | leaf
        return value

    def unpack(self, value: int) -> list[int]:
        """Take the leaves out of a register's cell."""
        leaves = []
        for width in reversed(self.widths):
            leaves.append(value & (1 << width) - 1)
            value >>= width
        return leaves[::-1]

    def encode(self, leaves: Iterator[int]) -> p4d.P4Data:
        """Build a P4Data from as many leaves as the type has."""
        if self.kind in ("struct", "tuple"):
            data = p4d.P4Data()
            like = data.struct if self.kind == "struct" else data.tuple
            like.SetInParent()
            like.members.extend(member.encode(leaves) for _, member in self.members)
            return data
        if self.kind == "header":
            header = p4d.P4Header(is_valid=True)
            header.bitstrings.extend(member.encode(leaves).bitstring for _, member in self.members)
            return p4d.P4Data(header=header)
        value = next(leaves)
        if self.translation is not None:
            return p4d.P4Data(bitstring=self.translation.to_sdn(value))
        if self.kind == "bool":
            return p4d.P4Data(bool=bool(value))
        if self.kind == "enum":
            return p4d.P4Data(enum=self._label(value))
        if self.kind == "error":
            return p4d.P4Data(error=self._label(value))
        encoded = encode_signed(value, self.width) if self.signed else encode_unsigned(value)
        return p4d.P4Data(enum_value=encoded) if self.kind == "enum_value" else p4d.P4Data(bitstring=encoded)

    def decode(self, data: p4d.P4Data, what: str) -> list[int]:
        """Read a P4Data into leaves; INVALID_ARGUMENT when it does not have this type."""
        given = data.WhichOneof("data")
        if given != self.kind:
            raise RequestError(INVALID_ARGUMENT, f"{what}: a P4Data of kind {given}, where a {self.kind} is needed")
        if self.kind in ("struct", "tuple"):
            parts = (data.struct if self.kind == "struct" else data.tuple).members
            self._check_count(len(parts), what)
            return [
                leaf
                for (name, member), part in zip(self.members, parts, strict=True)
                for leaf in member.decode(part, f"{what}.{name}" if name else what)
            ]
        if self.kind == "header":
            if not data.header.is_valid:
                raise RequestError(INVALID_ARGUMENT, f"{what}: an invalid header cannot be stored")
            self._check_count(len(data.header.bitstrings), what)
            return [
                member._decode_bits(part, f"{what}.{name}")
                for (name, member), part in zip(self.members, data.header.bitstrings, strict=True)
            ]
        if self.kind == "bool":
            return [int(data.bool)]
        if self.kind in ("enum", "error"):
            label = data.enum if self.kind == "enum" else data.error
            if label not in self.labels:
                raise RequestError(INVALID_ARGUMENT, f"{what}: no member '{label}'; there is {', '.join(self.labels)}")
            return [self.labels.index(label)]
        return [self._decode_bits(data.enum_value if self.kind == "enum_value" else data.bitstring, what)]

    def _decode_bits(self, data: bytes, what: str) -> int:
        if self.translation is not None:
            return self.translation.to_plane(data, what)
        return decode_signed(data, self.width, what) if self.signed else decode_unsigned(data, self.width, what)

    def _label(self, value: int) -> str:
        return self.labels[value] if value < len(self.labels) else ""

    def _check_count(self, given: int, what: str) -> None:
        if given != len(self.members):
            raise RequestError(INVALID_ARGUMENT, f"{what}: {given} members, where {len(self.members)} are needed")
