"""STF scripts: one statement per line, `#` starts a comment. Keywords in any case.

    add TABLE [PRIORITY] KEY:VALUE ... ACTION(PARAM:VALUE, ...) [= $HANDLE]
    setdefault TABLE ACTION(PARAM:VALUE, ...)
    remove all | remove $HANDLE
    packet PORT HEX...
    expect PORT [HEX...]          * is any nibble; a $ at the end: no more bytes; no data: any frame
    no_packet                     nothing more comes out of any port
    wait                          for p4c's sake: packets have always run to completion
    mirroring_add SESSION PORT    mirroring_add_mc SESSION GROUP    mirroring_delete SESSION    mirroring_get SESSION
    mc_mgrp_create GROUP          mc_node_create RID PORT...        mc_node_associate GROUP NODE
    check_counter NAME(INDEX or $HANDLE) [packets|bytes OPERATOR NUMBER]
    counter_read NAME INDEX       counter_write NAME INDEX PACKETS BYTES
    register_read NAME INDEX [OPERATOR NUMBER]    register_write NAME INDEX VALUE    register_reset NAME
    meter_get_rates NAME INDEX    meter_set_rates NAME INDEX RATE:BURST RATE:BURST    (rates per microsecond)
    meter_array_set_rates NAME RATE:BURST RATE:BURST

VALUE is decimal, 0x or 0b with * for any digit, VALUE/PREFIX, VALUE&&&MASK or LOW->HIGH.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

OPERATORS = ("==", "!=", "<=", ">=", "<", ">")
_COUNTS = {  # statements that are a keyword and plain words: least and most words
    "mirroring_add": (2, 2),
    "mirroring_add_mc": (2, 2),
    "mirroring_delete": (1, 1),
    "mirroring_get": (1, 1),
    "mc_mgrp_create": (1, 1),
    "mc_node_create": (2, 999),
    "mc_node_associate": (2, 2),
    "counter_read": (2, 2),
    "counter_write": (4, 4),
    "register_read": (2, 4),
    "register_write": (3, 3),
    "register_reset": (1, 1),
    "meter_get_rates": (2, 2),
    "meter_set_rates": (4, 4),
    "meter_array_set_rates": (3, 3),
    "wait": (0, 999),
    "no_packet": (0, 0),
    "remove": (1, 1),
}
_NAME = r'(?:"[^"]+"|[A-Za-z_$.][\w$.]*(?:\[\d+\])?(?:\.[\w$.]+)*)'
_CALL = re.compile(rf"({_NAME})\s*\(\s*(.*?)\s*\)\s*(?:=\s*(\$?\w+)\s*)?$")
_KEY = re.compile(rf"({_NAME})\s*:\s*(\S+)")
_CHECK = re.compile(
    rf"({_NAME})\s*\(\s*(\$?\w+)\s*\)\s*(?:(packets|bytes)\s*({'|'.join(OPERATORS)})\s*(\d+)\s*)?$", re.I
)


class StfError(Exception):
    """A script that makes no sense: file:line, what is wrong, what would be right."""

    def __init__(self, place: str, message: str) -> None:
        super().__init__(f"{place}: {message}")


@dataclass(frozen=True)
class Value:
    """A number or a match.

    kind: 'exact', 'mask' (other: the mask), 'prefix' (other: its length) or 'range' (other: the high end).
    digits: bits that the digits written stand for; 0 for decimal numbers.
    """

    value: int
    kind: str = "exact"
    other: int = 0
    digits: int = 0


@dataclass(frozen=True)
class Call:
    """An action with its named arguments."""

    name: str
    args: tuple[tuple[str, Value], ...]


@dataclass(frozen=True)
class Statement:
    """keyword and what follows it; the fields that a keyword does not have stay empty."""

    place: str  # file:line
    keyword: str
    words: tuple[str, ...] = ()
    table: str = ""
    priority: int | None = None
    keys: tuple[tuple[str, Value], ...] = ()
    call: Call | None = None
    handle: str = ""
    port: int = 0
    data: str | None = None  # upper-case hexadecimal digits, * in expectations
    exact: bool = False  # the frame must end where data ends
    check: tuple[str, str, int] = field(default=("", "==", 0))  # packets or bytes, operator, number


def parse(path: Path) -> list[Statement]:
    """Parse a script. Raises StfError, OSError."""
    statements = []
    for number, raw in enumerate(path.read_text().splitlines(), 1):
        text = raw.split("#", 1)[0].strip()
        if text:
            statements.append(_statement(f"{path}:{number}", text))
    return statements


def parse_number(place: str, text: str) -> int:
    """Parse a decimal, 0x or 0b number."""
    try:
        return int(text, 0) if text[:2].lower() in ("0x", "0b", "0o") else int(text)
    except ValueError:
        raise StfError(place, f"'{text}' is no number; write 10, 0x0a or 0b1010") from None


def parse_value(place: str, text: str) -> Value:
    """Parse a number or a match."""
    for separator, kind in (("&&&", "mask"), ("->", "range"), ("/", "prefix")):
        left, found, right = text.partition(separator)
        if found:
            first = parse_value(place, left) if kind != "prefix" else parse_value(place, left.replace("*", "0"))
            return Value(first.value, kind, parse_number(place, right), first.digits)
    base = {"0x": 4, "0b": 1, "0o": 3}.get(text[:2].lower())
    if base is None:
        return Value(parse_number(place, text))
    digits = text[2:]
    value = parse_number(place, text[:2] + digits.replace("*", "0"))
    width = base * len(digits)
    if "*" not in digits:
        return Value(value, digits=width)
    mask = 0
    for digit in digits:
        mask = mask << base | (0 if digit == "*" else (1 << base) - 1)
    return Value(value, "mask", mask, width)


def _statement(place: str, text: str) -> Statement:
    keyword, _, rest = text.partition(" ")
    if "\t" in keyword:
        keyword, _, rest = text.partition("\t")
    keyword, rest = keyword.lower(), rest.strip()
    match keyword:
        case "add":
            return _add(place, rest)
        case "setdefault":
            table, _, call = rest.partition(" ")
            action, handle = _call(place, call.strip())
            return Statement(place, keyword, table=_unquote(table), call=action, handle=handle)
        case "packet" | "expect":
            return _frame(place, keyword, rest)
        case "check_counter":
            found = _CHECK.match(rest)
            if not found:
                raise StfError(place, "write check_counter NAME(INDEX) packets == NUMBER")
            name, index, unit, operator, number = found.groups()
            check = ((unit or "").lower(), operator or "==", int(number or 0))
            return Statement(place, keyword, words=(_unquote(name), index), check=check)
    if keyword not in _COUNTS:
        known = ", ".join(sorted(["add", "setdefault", "packet", "expect", "check_counter", *_COUNTS]))
        raise StfError(place, f"unknown statement '{keyword}'; there are {known}")
    words = tuple(_unquote(w) for w in rest.split())
    least, most = _COUNTS[keyword]
    if not least <= len(words) <= most:
        raise StfError(
            place, f"{keyword} takes {least if least == most else f'{least} or more'} words, not {len(words)}"
        )
    return Statement(place, keyword, words=words)


def _unquote(name: str) -> str:
    return name.strip('"')


def _add(place: str, text: str) -> Statement:
    table, _, rest = text.partition(" ")
    rest = rest.strip()
    priority = None
    first, _, others = rest.partition(" ")
    if first.isdigit():
        priority, rest = int(first), others.strip()
    keys = []
    while key := _KEY.match(rest):
        if "(" in key.group(0):
            break
        keys.append((_unquote(key.group(1)), parse_value(place, key.group(2))))
        rest = rest[key.end() :].strip()
    call, handle = _call(place, rest)
    return Statement(place, "add", table=_unquote(table), priority=priority, keys=tuple(keys), call=call, handle=handle)


def _call(place: str, text: str) -> tuple[Call, str]:
    found = _CALL.match(text)
    if not found:
        raise StfError(place, f"'{text}' is no action; write ACTION(PARAM:VALUE, ...)")
    name, arguments, handle = found.groups()
    args = []
    for part in filter(None, (a.strip() for a in arguments.split(","))):
        param, colon, value = part.partition(":")
        if not colon:
            raise StfError(place, f"argument '{part}' of {name} has no name; write PARAM:VALUE")
        args.append((_unquote(param.strip()), parse_value(place, value.strip())))
    return Call(_unquote(name), tuple(args)), (handle or "").lstrip("$")


def _frame(place: str, keyword: str, text: str) -> Statement:
    port, _, data = text.partition(" ")
    digits = "".join(data.split()).upper()
    exact = digits.endswith("$")
    digits = digits.removesuffix("$")
    allowed = "0-9A-F*" if keyword == "expect" else "0-9A-F"
    if bad := re.search(f"[^{allowed}]", digits):
        raise StfError(place, f"'{bad.group(0)}' is no hexadecimal digit" + (" or *" if keyword == "expect" else ""))
    if keyword == "packet" and (not digits or exact):
        raise StfError(place, "packet takes the frame's bytes in hexadecimal")
    if len(digits) % 2 and keyword == "packet":
        raise StfError(place, "the frame has an odd number of hexadecimal digits")
    return Statement(
        place, keyword, port=parse_number(place, port), data=digits if digits or exact else None, exact=exact
    )
