"""ExternEntry: extern objects beyond P4Runtime's own. v1model has none."""

from __future__ import annotations

from typing import NoReturn

from finsy.proto import p4r

from p4switch.server.handler import Sink
from p4switch.server.status import UNIMPLEMENTED, RequestError


class ExternEntities:
    """Refuses writes. A read of everything finds nothing, as clients that clear a switch ask for all kinds."""

    def p4_id(self, message: p4r.ExternEntry) -> int:
        return message.extern_id

    def write(self, kind: int, message: p4r.ExternEntry) -> NoReturn:
        raise RequestError(UNIMPLEMENTED, "extern_entry is not supported: v1model has no externs of its own")

    def read(self, query: p4r.ExternEntry, sink: Sink) -> None:
        if query.extern_type_id or query.extern_id:
            raise RequestError(UNIMPLEMENTED, "extern_entry is not supported: v1model has no externs of its own")
