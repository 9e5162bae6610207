"""What the data plane refuses, in P4Runtime's terms."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from p4switch import dataplane
from p4switch.server import status
from p4switch.server.status import RequestError

_CODES: tuple[tuple[type[dataplane.DataPlaneError], int], ...] = (
    (dataplane.EntryExists, status.ALREADY_EXISTS),
    (dataplane.EntryMissing, status.NOT_FOUND),
    (dataplane.TableFull, status.RESOURCE_EXHAUSTED),
    (dataplane.ReadOnly, status.PERMISSION_DENIED),
    (dataplane.InvalidArgument, status.INVALID_ARGUMENT),
)


def translate(error: dataplane.DataPlaneError, what: str) -> RequestError:
    """Return the RequestError for an error of the data plane; `what` names the object."""
    code = next((code for kind, code in _CODES if isinstance(error, kind)), status.INTERNAL)
    message = str(error)
    return RequestError(code, message if message.startswith(what) else f"{what}: {message}")


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Raise what the data plane refuses inside as RequestError."""
    try:
        yield
    except dataplane.DataPlaneError as error:
        raise translate(error, what) from error
