"""What the data plane refuses, in P4Runtime's terms."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from p4switch import dataplane
from p4switch.server import status
from p4switch.server.status import RequestError

_KINDS: tuple[tuple[type[dataplane.DataPlaneError], int, str], ...] = (
    (dataplane.EntryExists, status.ALREADY_EXISTS, "it exists already; MODIFY it"),
    (dataplane.EntryMissing, status.NOT_FOUND, "it does not exist"),
    (dataplane.TableFull, status.RESOURCE_EXHAUSTED, "there is no room for more"),
    (dataplane.ReadOnly, status.PERMISSION_DENIED, "it is const"),
    (dataplane.InvalidArgument, status.INVALID_ARGUMENT, ""),
)


def translate(error: dataplane.DataPlaneError, what: str) -> RequestError:
    """Return the RequestError for an error of the data plane; `what` names the object."""
    for kind, code, message in _KINDS:
        if isinstance(error, kind):
            return RequestError(code, f"{what}: {message or error}")
    return RequestError(status.INTERNAL, f"{what}: {error}")


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Raise what the data plane refuses inside as RequestError."""
    try:
        yield
    except dataplane.DataPlaneError as error:
        raise translate(error, what) from error
