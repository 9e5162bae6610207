"""Match keys: FieldMatch messages <-> the data plane's FieldMatch, by the rules of P4Runtime 1.4, "Match Format"."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from finsy.proto import p4r

from p4switch.dataplane import FieldMatch
from p4switch.server import status
from p4switch.server.schema import EXACT, LPM, OPTIONAL, TERNARY, Key
from p4switch.server.status import INVALID_ARGUMENT, RequestError
from p4switch.server.values import decode_unsigned, encode_unsigned, show_bytes

Matches = tuple[FieldMatch | None, ...]  # one per key, None: don't care
EntryKey = tuple[Matches, int]  # what identifies an entry in its table: match fields and priority


def decode_matches(
    keys: Sequence[Key], positions: Mapping[int, int], owner: str, messages: Iterable[p4r.FieldMatch]
) -> Matches:
    """Read the match fields of an entry, in any order; those left out are don't care."""
    matches: list[FieldMatch | None] = [None] * len(keys)
    for message in messages:
        position = positions.get(message.field_id)
        if position is None:
            known = status.list_choices(f"{key.field.id} ({key.field.name})" for key in keys)
            raise RequestError(INVALID_ARGUMENT, f"{owner}: no match field has id {message.field_id}; there is {known}")
        if matches[position] is not None:
            raise RequestError(INVALID_ARGUMENT, f"{keys[position].field.owner} is given twice")
        matches[position] = _decode(keys[position], message)
    for key, match in zip(keys, matches, strict=True):
        if match is None and key.kind == EXACT:
            raise RequestError(INVALID_ARGUMENT, f"{key.field.owner} is missing; exact fields cannot be left out")
    return tuple(matches)


def encode_matches(keys: Sequence[Key], matches: Matches, into: p4r.TableEntry | p4r.ValueSetMember) -> None:
    """Append the match fields that are not don't care."""
    for key, match in zip(keys, matches, strict=True):
        if match is None:
            continue
        message = into.match.add(field_id=key.field.id)
        if key.field.translation is not None:
            _encode_translated(key, match, message)
        elif key.kind == EXACT:
            message.exact.value = encode_unsigned(match.value)
        elif key.kind == LPM:
            message.lpm.value = encode_unsigned(match.value)
            message.lpm.prefix_len = match.prefix
        elif key.kind == TERNARY:
            message.ternary.value = encode_unsigned(match.value)
            message.ternary.mask = encode_unsigned(match.mask_or_hi)
        elif key.kind == OPTIONAL:
            message.optional.value = encode_unsigned(match.value)
        else:
            message.range.low = encode_unsigned(match.value)
            message.range.high = encode_unsigned(match.mask_or_hi)


def _decode(key: Key, message: p4r.FieldMatch) -> FieldMatch:
    kind, field = key.kind, key.field
    given = message.WhichOneof("field_match_type")
    if given != key.kind_name:
        raise RequestError(
            INVALID_ARGUMENT, f"{field.owner} is matched by {key.kind_name}, not by {given or 'an unset match type'}"
        )
    if kind == EXACT:
        return FieldMatch(field.decode(message.exact.value))
    if field.translation is not None and kind != OPTIONAL:
        return _decode_translated(key, message)
    if kind == LPM:
        return _lpm(key, message.lpm)
    if kind == TERNARY:
        return _ternary(key, message.ternary)
    if kind == OPTIONAL:
        return FieldMatch(field.decode(message.optional.value))
    return _range(key, message.range)


def _lpm(key: Key, message: p4r.FieldMatch.LPM) -> FieldMatch:
    field, prefix = key.field, message.prefix_len
    if not 0 < prefix <= field.width:
        hint = "; leave the field out to match everything" if prefix == 0 else ""
        raise RequestError(
            INVALID_ARGUMENT, f"{field.owner}: prefix length {prefix} is not between 1 and {field.width}{hint}"
        )
    value = field.decode(message.value)
    if value & (1 << field.width - prefix) - 1:
        raise RequestError(
            INVALID_ARGUMENT,
            f"{field.owner}: value {show_bytes(message.value)} has bits set beyond its prefix of {prefix} bits",
        )
    return FieldMatch(value, prefix=prefix)


def _ternary(key: Key, message: p4r.FieldMatch.Ternary) -> FieldMatch:
    field = key.field
    value, mask = field.decode(message.value), decode_unsigned(message.mask, field.width, f"mask of {field.owner}")
    if mask == 0:
        raise RequestError(
            INVALID_ARGUMENT, f"{field.owner}: the mask is zero; leave the field out to match everything"
        )
    if value & ~mask:
        raise RequestError(
            INVALID_ARGUMENT,
            f"{field.owner}: value {show_bytes(message.value)} has bits set outside mask {show_bytes(message.mask)}",
        )
    return FieldMatch(value, mask_or_hi=mask)


def _range(key: Key, message: p4r.FieldMatch.Range) -> FieldMatch:
    field = key.field
    low = decode_unsigned(message.low, field.width, f"low end of {field.owner}")
    high = decode_unsigned(message.high, field.width, f"high end of {field.owner}")
    if low > high:
        raise RequestError(INVALID_ARGUMENT, f"{field.owner}: the range {low}..{high} is empty")
    if low == 0 and high == (1 << field.width) - 1:
        raise RequestError(
            INVALID_ARGUMENT, f"{field.owner}: the range covers every value; leave the field out to match everything"
        )
    return FieldMatch(low, mask_or_hi=high)


def _decode_translated(key: Key, message: p4r.FieldMatch) -> FieldMatch:
    """Read an lpm, ternary or range match of a translated type, which has to name one value: 1.4 allows no more."""
    field = key.field
    if message.WhichOneof("field_match_type") == "lpm":
        value, one = message.lpm.value, message.lpm.prefix_len == field.width
    elif message.WhichOneof("field_match_type") == "ternary":
        value, one = message.ternary.value, int.from_bytes(message.ternary.mask, "big") == (1 << field.width) - 1
    else:
        value, one = message.range.low, message.range.low == message.range.high
    if not one or not field.width:
        raise RequestError(
            INVALID_ARGUMENT,
            f"{field.owner} has the translated type '{field.type_name}': it matches one value or is left out",
        )
    plane = field.decode(value)
    if key.kind == LPM:
        return FieldMatch(plane, prefix=field.plane_width)
    return FieldMatch(plane, mask_or_hi=(1 << field.plane_width) - 1 if key.kind == TERNARY else plane)


def _encode_translated(key: Key, match: FieldMatch, message: p4r.FieldMatch) -> None:
    value = key.field.encode(match.value)
    if key.kind == EXACT:
        message.exact.value = value
    elif key.kind == OPTIONAL:
        message.optional.value = value
    elif key.kind == LPM:
        message.lpm.value, message.lpm.prefix_len = value, key.field.width
    elif key.kind == TERNARY:
        message.ternary.value, message.ternary.mask = value, encode_unsigned((1 << key.field.width) - 1)
    else:
        message.range.low = message.range.high = value
