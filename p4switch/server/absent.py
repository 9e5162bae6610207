"""Kinds of entities that this switch has none of."""

from __future__ import annotations

from typing import Any, NoReturn

from p4switch.server.handler import Sink
from p4switch.server.status import UNIMPLEMENTED, RequestError


class AbsentEntities:
    """Refuses writes; reads of everything (ids unset) find nothing: clients that clear a switch ask for all kinds."""

    def __init__(self, kind: str, *ids: str) -> None:
        self._kind = kind
        self._ids = ids

    def p4_id(self, message: Any) -> int:
        return int(getattr(message, self._ids[0]))

    def write(self, kind: int, message: Any) -> NoReturn:
        raise RequestError(UNIMPLEMENTED, f"{self._kind} is not supported by this switch")

    def read(self, query: Any, sink: Sink) -> None:
        if any(getattr(query, name) for name in self._ids):
            raise RequestError(UNIMPLEMENTED, f"{self._kind} is not supported by this switch")
