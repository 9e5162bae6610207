"""P4Info ids and aliases, as p4c gives them.

An id is an 8-bit prefix that tells the type of object and 24 bits that hash its fully qualified name with Jenkins'
one-at-a-time function (P4Runtime specification, section 6.3.1, leaves the choice to the compiler; p4c's is kept so that
controllers with numbers in them keep working).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from p4switch import ir
from p4switch.frontend.elaborate.notes import MAX_ID, notes, number_of
from p4switch.frontend.elaborate.objects import Named, annotation
from p4switch.frontend.errors import Failure

PREFIXES = {
    "action": 0x01,
    "table": 0x02,
    "value_set": 0x03,
    "controller_header": 0x04,
    "action_profile": 0x11,
    "counter": 0x12,
    "direct_counter": 0x13,
    "meter": 0x14,
    "direct_meter": 0x15,
    "register": 0x16,
    "digest": 0x17,
}

# Annotations of action profiles that P4Info has fields for.
_OF_PROFILES = ("max_group_size", "selector_size_semantics", "max_member_weight")


def jenkins_one_at_a_time(text: bytes) -> int:
    """Hash bytes to 32 bits (Bob Jenkins, Dr. Dobb's Journal, 1997)."""
    value = 0
    for byte in text:
        value = (value + byte) & 0xFFFFFFFF
        value = (value + (value << 10)) & 0xFFFFFFFF
        value ^= value >> 6
    value = (value + (value << 3)) & 0xFFFFFFFF
    value ^= value >> 11
    return (value + (value << 15)) & 0xFFFFFFFF


def identify(objects: Iterable[Named]) -> None:
    """Give every object its Identity: name, id, alias, annotations. Objects of one kind and name share one."""
    found = list(objects)
    _check_names(found)
    ids = _ids(found)
    aliases = _aliases({o.name for o in found})
    for item in found:
        without = _OF_PROFILES if item.kind == "action_profile" else ()
        hidden = annotation(item.annotations, "hidden") is not None
        shown = notes(item.annotations, without)
        identity = ir.Identity(item.name, ids[item.kind, item.name], aliases[item.name], shown, hidden)
        value: Any = item.value
        item.value = replace(value, identity=identity)


def _check_names(objects: list[Named]) -> None:
    """Objects of a kind need names of their own; an action's may stand for several bindings of it."""
    seen: dict[tuple[str, str], ir.Loc] = {}
    for item in objects:
        key = (item.kind, item.name)
        shared = item.kind == "controller_header" or (item.kind == "action" and seen.get(key) == item.loc)
        if key in seen and not shared:
            kind = item.kind.replace("_", " ")
            raise Failure(
                item.loc, f"two objects of kind {kind} are called '{item.name}'", "use @name to tell them apart"
            )
        seen[key] = item.loc


def _ids(objects: list[Named]) -> dict[tuple[str, str], int]:
    ids: dict[tuple[str, str], int] = {}
    taken: dict[str, set[int]] = {}
    # Ids that the program chose come first, so that no hash takes them.
    for item in objects:
        number = number_of(item.annotations, "id", MAX_ID)
        if number is not None:
            if number <= 0:
                raise Failure(item.loc, f"@id({number}) is not a valid id", "ids are positive")
            value = number if number >> 24 else PREFIXES[item.kind] << 24 | number
            used = taken.setdefault(item.kind, set())
            if value in used and ids.get((item.kind, item.name)) != value:
                raise Failure(item.loc, f"@id({number}) is used twice")
            ids[item.kind, item.name] = value
            used.add(value)
    for kind, name in sorted({(o.kind, o.name) for o in objects}, key=lambda k: (k[0], k[1].encode())):
        if (kind, name) in ids:
            continue
        used = taken.setdefault(kind, set())
        hashed = jenkins_one_at_a_time(name.encode())
        while (value := PREFIXES[kind] << 24 | (hashed & 0xFFFFFF)) in used:
            hashed = (hashed + 1) & 0xFFFFFFFF
        ids[kind, name] = value
        used.add(value)
    return ids


def _aliases(names: set[str]) -> dict[str, str]:
    """Give each name its shortest dotted suffix that no other name ends with."""
    count: dict[str, int] = {}
    suffixes: dict[str, list[str]] = {}
    for name in names:
        parts = name.split(".")
        suffixes[name] = [".".join(parts[i:]) for i in range(len(parts) - 1, -1, -1)]
        for suffix in suffixes[name]:
            count[suffix] = count.get(suffix, 0) + 1
    return {n: next((s for s in suffixes[n] if count[s] == 1), n) for n in names}
