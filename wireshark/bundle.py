"""Put the dissector's Lua modules and the codec's tables into one file, which is all that Wireshark needs.

Wireshark runs every Lua file that it finds in its folder of plug-ins as a plug-in; one file leaves it nothing to take
for one that is none, and can be copied to another machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from codec import constants, layouts
from codec.constants import LsuOpcode, ProbeOp
from codec.layouts import Field, Layout
from codec.scapy_layers import ENUMS, FLAGS, HEX

SOURCES: Final = Path(__file__).resolve().parent
TABLES: Final = "ethlink.layouts"
"""The module that is made here instead of being read from a file."""

_NAMED: Final = (
    constants.Kind, constants.Next, constants.Vc, constants.Ecn, constants.LsuOpcode, constants.LsuStatus,
    constants.TmaOpcode, constants.EventType, constants.NoticeType, constants.ProbeOp, constants.LinkState,
)  # fmt: skip
_CONSTANTS: Final = (
    "VC_COUNT", "CRC_BYTES", "MAX_FRAME", "OEFH_VERSION", "INIT_VERSION", "FIRST_SWITCH_ID", "MAX_SWITCH_ID", "NOBODY",
    "ATOMIC_BYTES", "TMA_MAX_BYTES", "LSU_STATUS_ECN_ECHO", "LSU_FIRST_RESPONSE",
)  # fmt: skip
_CARRY_DATA: Final = (
    LsuOpcode.STORE, LsuOpcode.LOAD_DATA, LsuOpcode.ATOMIC_ADD, LsuOpcode.ATOMIC_SWAP, LsuOpcode.ATOMIC_DATA,
)  # fmt: skip

Lua = str | int | bool | None | Mapping[Any, "Lua"] | Sequence["Lua"]
"""What `lua` can write; the keys of a mapping are strings and integers."""


def short(layout: Layout) -> str:
    """Return a layout's name as the fields' names have it: `lsu` of `lsu_t`."""
    return layout.name.removesuffix("_t")


def tables() -> dict[str, Lua]:
    """Return what the dissector knows of the protocol's numbers, from the codec."""
    enums: dict[str, Lua] = {}
    for enum in _NAMED:
        both_ways: dict[str | int, Lua] = {}
        for member in enum:
            both_ways |= {member.name: int(member), int(member): member.name}
        enums[enum.__name__] = both_ways
    data_factor: dict[int, Lua] = {**{int(opcode): 1 for opcode in _CARRY_DATA}, int(LsuOpcode.ATOMIC_CAS): 2}
    return {
        "layouts": {
            short(layout): {"bytes": layout.size, "fields": [_field(layout, f) for f in layout.fields]}
            for layout in layouts.LAYOUTS
        },
        "body_of_kind": {int(kind): short(layout) for kind, layout in layouts.BODY_OF_KIND.items()},
        "header_of_next": {int(following): short(layout) for following, layout in layouts.HEADER_OF_NEXT.items()},
        "body_of_probe": {int(op): short(layout) for op, layout in layouts.BODY_OF_PROBE.items()},
        "probe_question": {int(op): int(ProbeOp[f"READ_{op.name}"]) for op in layouts.BODY_OF_PROBE},
        "lsu_data_factor": data_factor,
        "enums": enums,
        "constants": {name: int(getattr(constants, name)) for name in _CONSTANTS},
    }


def _field(layout: Layout, f: Field) -> dict[str, Lua]:
    where = layout.name, f.name
    described: dict[str, Lua] = {"name": f.name, "bits": f.bits}
    if f.parts > 1:
        described["parts"] = f.parts
    if f.signed:
        described["signed"] = True
    if f.name in HEX or where in FLAGS:
        described["hex"] = True
    if where in ENUMS:
        described["names"] = {int(member): member.name for member in ENUMS[where]}
    if where in FLAGS:
        described["flags"] = [{"name": member.name, "value": int(member)} for member in FLAGS[where]]
    return described


def lua(value: Lua, indent: str = "") -> str:
    """Return a value as Lua text; mappings and sequences become tables."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if value is None:
        return "nil"
    deeper = indent + "    "
    if isinstance(value, Mapping):
        items = [f"[{lua(key)}] = {lua(item, deeper)}" for key, item in value.items()]
    else:
        items = [lua(item, deeper) for item in value]
    if sum(map(len, items)) < 90 and not any("\n" in item for item in items):
        return "{ " + ", ".join(items) + " }"
    return "{\n" + "".join(f"{deeper}{item},\n" for item in items) + indent + "}"


def bundle() -> str:
    """Return the whole dissector as one Lua file. Errors in it still name the module and its line."""
    modules = {f"ethlink.{path.stem}": path.read_text() for path in sorted((SOURCES / "ethlink").glob("*.lua"))}
    modules[TABLES] = f"return {lua(tables())}\n"
    parts = ["-- EthLink for Wireshark, put together by `make wireshark`: change the files of its folder instead.\n"]
    for name, text in modules.items():
        file = name.replace(".", "/") + ".lua"
        parts.append(f'package.preload["{name}"] = assert(load([==[\n{text}]==], "@{file}"))\n')
    main = (SOURCES / "ethlink.lua").read_text()
    parts.append(f'assert(load([==[\n{main}]==], "@ethlink.lua"))()\n')
    return "\n".join(parts)
