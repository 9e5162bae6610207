"""The Write RPC: a batch of updates, its atomicity, and one precise error for each update that fails.

Updates of tables that stand together in a batch go to the data plane in one call, which is what makes large batches
fast; everything else is done one by one, in order.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from finsy.proto import p4r

from p4switch.server import status
from p4switch.server.entities import Entities
from p4switch.server.handler import DELETE, INSERT, MODIFY, Undo
from p4switch.server.roles import RoleConfig
from p4switch.server.status import BatchError, RequestError
from p4switch.server.tables import TableUpdate

LOG = logging.getLogger(__name__)

_OK = p4r.Error(canonical_code=status.OK)


def write(entities: Entities, request: p4r.WriteRequest, role: RoleConfig) -> None:
    """Carry out a batch; BatchError when an update failed, with the status of each."""
    if request.atomicity == p4r.WriteRequest.CONTINUE_ON_ERROR:
        errors = _write_each(entities, request, role)
    elif request.atomicity == p4r.WriteRequest.ROLLBACK_ON_ERROR:
        errors = _write_all_or_none(entities, request, role)
    elif request.atomicity == p4r.WriteRequest.DATAPLANE_ATOMIC:
        with entities.dataplane.paused():
            errors = _write_all_or_none(entities, request, role)
    else:
        raise RequestError(status.INVALID_ARGUMENT, f"atomicity {request.atomicity} does not exist")
    if any(error is not _OK for error in errors):
        raise BatchError("updates", errors)


def _write_each(entities: Entities, request: p4r.WriteRequest, role: RoleConfig) -> list[p4r.Error]:
    errors = [_OK] * len(request.updates)
    waiting: list[tuple[int, TableUpdate]] = []

    def flush() -> None:
        results = entities.tables.apply([update for _, update in waiting])
        for (position, _), error in zip(waiting, results, strict=True):
            if error is not None:
                errors[position] = error.to_p4_error()
        waiting.clear()

    for position, update in enumerate(request.updates):
        try:
            kind, message = _check(entities, update, role)
            if kind == "table_entry" and entities.tables.is_plain(update.type, update.entity.table_entry):
                waiting.append((position, entities.tables.prepare(update.type, message)))
            else:
                flush()
                entities.handler(kind).write(update.type, message)
        except RequestError as error:
            errors[position] = error.to_p4_error()
    flush()
    return errors


def _write_all_or_none(entities: Entities, request: p4r.WriteRequest, role: RoleConfig) -> list[p4r.Error]:
    undos: list[Undo] = []
    for position, update in enumerate(request.updates):
        try:
            kind, message = _check(entities, update, role)
            undos.append(entities.handler(kind).write(update.type, message))
        except RequestError as error:
            _take_back(undos)
            rolled_back = p4r.Error(canonical_code=status.ABORTED, message=f"rolled back: update {position} failed")
            not_tried = p4r.Error(canonical_code=status.ABORTED, message=f"not tried: update {position} failed")
            later = len(request.updates) - position - 1
            return [rolled_back] * position + [error.to_p4_error()] + [not_tried] * later
    return [_OK] * len(request.updates)


def _take_back(undos: list[Callable[[], None]]) -> None:
    for undo in reversed(undos):
        undo()


def _check(entities: Entities, update: p4r.Update, role: RoleConfig) -> tuple[str, Any]:
    """Check what holds for every kind of entity; return its kind and the message inside."""
    if update.type not in (INSERT, MODIFY, DELETE):
        raise RequestError(status.INVALID_ARGUMENT, "the update has no type; it is INSERT, MODIFY or DELETE")
    kind = update.entity.WhichOneof("entity")
    if kind is None:
        raise RequestError(status.INVALID_ARGUMENT, "the update has no entity, or one of a kind unknown to this server")
    message = getattr(update.entity, kind)
    if role.writable is not None:
        p4_id = entities.handler(kind).p4_id(message)
        if not role.may_write(p4_id):
            name = entities.schema.names.get(p4_id, kind)
            raise RequestError(status.PERMISSION_DENIED, f"'{name}' ({p4_id}) is not this role's to write")
    return kind, message
