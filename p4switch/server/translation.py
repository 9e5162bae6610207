"""Types with @p4runtime_translation: what controllers call a value, and what the program calls it.

P4Runtime leaves the mapping to the switch's configuration. Here numbers keep their value. A string is the name of a
bound interface, where the type is one of ports (its name or URI says so), and stands for the port's number; or it is a
decimal number, and stands for itself; anything else gets a number that no other string has, from the highest down.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from finsy.proto import p4t

from p4switch.server.status import INVALID_ARGUMENT, RESOURCE_EXHAUSTED, RequestError
from p4switch.server.values import decode_unsigned, encode_unsigned

_LONGEST_NAME = 256


@dataclass
class Translation:
    """A translated type. sdn_width: bits as controllers see it, 0 for strings; plane_width: bits in the program."""

    type_name: str
    uri: str
    sdn_width: int
    plane_width: int
    port_of: Callable[[str], int | None] = lambda name: None  # set where port names are known
    _numbers: dict[str, int] = field(default_factory=dict)
    _names: dict[int, str] = field(default_factory=dict)

    @property
    def is_string(self) -> bool:
        return self.sdn_width == 0

    def to_plane(self, data: bytes, owner: str) -> int:
        """Translate what a controller wrote."""
        if self.is_string:
            return self._number(data, owner)
        value = decode_unsigned(data, self.sdn_width, owner)
        if value >> self.plane_width:
            raise RequestError(
                INVALID_ARGUMENT,
                f"{owner}: {value} has no counterpart in the program, where '{self.type_name}' has "
                f"{self.plane_width} bits",
            )
        return value

    def to_sdn(self, value: int) -> bytes:
        """Translate what the program has."""
        if self.is_string:
            return self._names.get(value, str(value)).encode()
        return encode_unsigned(value)

    def _number(self, data: bytes, owner: str) -> int:
        try:
            name = data.decode()
        except UnicodeDecodeError:
            name = ""
        if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
            raise RequestError(
                INVALID_ARGUMENT, f"{owner}: a string of 1 to {_LONGEST_NAME} printable characters is needed"
            )
        if name in self._numbers:
            return self._numbers[name]
        number = self._known(name)
        if number is None:
            number = next((n for n in reversed(range(1 << self.plane_width)) if n not in self._names), None)
        if number is None:
            raise RequestError(RESOURCE_EXHAUSTED, f"{owner}: all values of '{self.type_name}' have a name already")
        if number >> self.plane_width:
            raise RequestError(
                INVALID_ARGUMENT, f"{owner}: {number} does not fit in the {self.plane_width} bits of '{self.type_name}'"
            )
        if str(number) != name:
            self._numbers[name] = number
            self._names[number] = name
        return number

    def _known(self, name: str) -> int | None:
        if name.isascii() and name.isdigit() and str(int(name)) == name:
            return int(name)
        if "port" in self.type_name.lower() or "port" in self.uri.lower():
            return self.port_of(name)
        return None


def translations(types: p4t.P4TypeInfo, plane_widths: dict[str, int]) -> dict[str, Translation]:
    """List the translated types of a P4Info by name, but for those that are numbers of the same width on both sides."""
    found = {}
    for name, new_type in types.new_types.items():
        if not new_type.HasField("translated_type"):
            continue
        translated = new_type.translated_type
        sdn_width = 0 if translated.HasField("sdn_string") else translated.sdn_bitwidth
        plane_width = plane_widths.get(name, sdn_width)
        if plane_width <= 0 or sdn_width < 0:
            raise RequestError(INVALID_ARGUMENT, f"P4Info: the program has no translated type '{name}'")
        if sdn_width != plane_width:
            found[name] = Translation(name, translated.uri, sdn_width, plane_width)
    return found
