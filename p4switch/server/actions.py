"""Actions with their arguments: p4.v1.Action <-> (action id, parameter values in order)."""

from __future__ import annotations

from finsy.proto import p4r

from p4switch.server import status
from p4switch.server.schema import Action, Table
from p4switch.server.status import INVALID_ARGUMENT, PERMISSION_DENIED, RequestError

Params = tuple[int, ...]


def decode_action(table: Table, message: p4r.Action, *, as_default: bool) -> tuple[int, Params]:
    """Check an action against what a table allows, in its entries or as its default action."""
    ref = table.actions.get(message.action_id)
    if ref is None:
        known = status.list_choices(f"'{each.action.name}' ({number})" for number, each in table.actions.items())
        raise RequestError(
            INVALID_ARGUMENT, f"table '{table.name}' has no action with id {message.action_id}; it has {known}"
        )
    if not (ref.as_default if as_default else ref.in_entries):
        rule = "@tableonly and cannot be the default action" if as_default else "@defaultonly and cannot be in an entry"
        raise RequestError(PERMISSION_DENIED, f"action '{ref.action.name}' of table '{table.name}' is {rule}")
    return ref.action.id, decode_params(ref.action, message)


def decode_params(action: Action, message: p4r.Action) -> Params:
    """Read the arguments of an action, given in any order, each exactly once."""
    fields, given = action.params, message.params
    if len(given) == len(fields) == 1 and given[0].param_id == fields[0].id:  # the common case
        return (fields[0].decode(given[0].value),)
    values: list[int | None] = [None] * len(fields)
    for param in given:
        position = action.positions.get(param.param_id)
        if position is None:
            known = status.list_choices(f"{field.id} ({field.name})" for field in fields)
            raise RequestError(
                INVALID_ARGUMENT,
                f"action '{action.name}' has no parameter with id {param.param_id}; its parameters: {known}",
            )
        if values[position] is not None:
            raise RequestError(INVALID_ARGUMENT, f"{fields[position].owner} is given twice")
        values[position] = fields[position].decode(param.value)
    missing = [field.name for field, value in zip(fields, values, strict=True) if value is None]
    if missing:
        raise RequestError(INVALID_ARGUMENT, f"action '{action.name}' lacks an argument for {', '.join(missing)}")
    return tuple(value for value in values if value is not None)


def encode_action(action: Action, params: Params, into: p4r.Action) -> None:
    """Fill in an action message."""
    into.action_id = action.id
    for field, value in zip(action.params, params, strict=True):
        into.params.add(param_id=field.id, value=field.encode(value))
