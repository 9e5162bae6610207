"""What every kind of entity has to offer to Write and Read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from finsy.proto import p4r

from p4switch.dataplane import DataPlane
from p4switch.server.roles import RoleConfig
from p4switch.server.status import INVALID_ARGUMENT, OUT_OF_RANGE, RequestError

INSERT = p4r.Update.INSERT
MODIFY = p4r.Update.MODIFY
DELETE = p4r.Update.DELETE

Undo = Callable[[], None]

Later = Callable[["Sink"], Iterator[None]]

_CHUNK = 512  # entities in a ReadResponse: some 50 KB


class Sink:
    """Collects the entities that a Read finds, in responses of bounded size. role: only what it may write, None all.

    Handlers are called while the device is locked. What may be much they add `later`.
    """

    def __init__(self, role: RoleConfig | None = None) -> None:
        self._parts: list[p4r.ReadResponse | Later] = []
        self._role = role

    def shows(self, p4_id: int) -> bool:
        """Tell whether entities of an object belong in the answer."""
        return self._role is None or self._role.may_write(p4_id)

    def add(self) -> p4r.Entity:
        """Append an empty entity, to be filled in."""
        last = self._parts[-1] if self._parts else None
        if not isinstance(last, p4r.ReadResponse) or len(last.entities) >= _CHUNK:
            last = p4r.ReadResponse()
            self._parts.append(last)
        return last.entities.add()

    def later(self, fill: Later) -> None:
        """Append entities that are made while the answer is sent, when the device is not locked any more.

        fill: adds an entity to the sink that it is given per step; it works on what was copied before, or takes it that
        entries have gone meanwhile.
        """
        self._parts.append(fill)

    def responses(self) -> Iterator[p4r.ReadResponse]:
        """Yield the responses, one after the other; can be done once."""
        for part in self._parts:
            if isinstance(part, p4r.ReadResponse):
                yield part
                continue
            chunk = Sink(self._role)
            for _ in part(chunk):
                if len(chunk._parts) > 1:
                    yield from chunk._parts[:1]  # type: ignore[misc]
                    del chunk._parts[0]
            yield from chunk.responses()


class DataPlaneUser:
    """Something that acts on a data plane; set `dataplane` to move it to one that has the same program and state."""

    def __init__(self, dataplane: DataPlane) -> None:
        self.dataplane = dataplane


class EntityHandler(Protocol):
    """Writes and reads one kind of entity; messages are the ones inside p4.v1.Entity."""

    def p4_id(self, message: Any) -> int:
        """Return the P4Info id that a role needs the right to write, 0 if none applies."""

    def write(self, kind: int, message: Any) -> Undo:
        """Carry out an INSERT, MODIFY or DELETE and return what would take it back; RequestError if it cannot be."""

    def read(self, query: Any, sink: Sink) -> None:
        """Add what matches the query; RequestError, before anything is added, if the query is wrong."""


def kind_name(kind: int) -> str:
    return p4r.Update.Type.Name(kind) if kind in p4r.Update.Type.values() else f"update type {kind}"


def only_modify(kind: int, what: str) -> None:
    """Raise INVALID_ARGUMENT unless the update is a MODIFY."""
    if kind != MODIFY:
        raise RequestError(INVALID_ARGUMENT, f"{what}: {kind_name(kind)} is not possible, only MODIFY")


def indices(message: Any, size: int, what: str) -> range:
    """Return the indices that an entry addresses: one, or all when index is unset."""
    if not message.HasField("index"):
        return range(size)
    index = message.index.index
    if index < 0:
        raise RequestError(INVALID_ARGUMENT, f"{what}: index {index} is negative")
    if index >= size:
        raise RequestError(OUT_OF_RANGE, f"{what}: index {index} is beyond the last one, {size - 1}")
    return range(index, index + 1)
