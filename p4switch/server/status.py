"""Errors in P4Runtime's terms: a canonical code and a message that names the object, the bad value and the choices.

P4Runtime 1.4, "Error Reporting Messages": an RPC that fails before any of its elements was tried carries one code; a
batch in which elements failed is UNKNOWN as a whole and carries one p4.v1.Error per element in its status details.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import NoReturn

import grpc
from finsy.proto import p4r, rpc_code, rpc_status

OK = rpc_code.OK
UNKNOWN = rpc_code.UNKNOWN
INVALID_ARGUMENT = rpc_code.INVALID_ARGUMENT
NOT_FOUND = rpc_code.NOT_FOUND
ALREADY_EXISTS = rpc_code.ALREADY_EXISTS
PERMISSION_DENIED = rpc_code.PERMISSION_DENIED
RESOURCE_EXHAUSTED = rpc_code.RESOURCE_EXHAUSTED
FAILED_PRECONDITION = rpc_code.FAILED_PRECONDITION
ABORTED = rpc_code.ABORTED
OUT_OF_RANGE = rpc_code.OUT_OF_RANGE
UNIMPLEMENTED = rpc_code.UNIMPLEMENTED
INTERNAL = rpc_code.INTERNAL
UNAVAILABLE = rpc_code.UNAVAILABLE

_DETAILS_KEY = "grpc-status-details-bin"
_GRPC_CODES: dict[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}
# Details travel as gRPC metadata. Of that clients accept 8 KB unless they ask for more, and above it they refuse
# at random. A code alone takes some 40 bytes, a message some more than itself; the rest of the metadata some 150.
_MOST_METADATA_BYTES = 8192
_OTHER_METADATA_BYTES = 256
_MESSAGE_EXTRA_BYTES = 8
_MOST_CHOICES = 8  # more than that and the message hides what was wrong


class RequestError(Exception):
    """A request, or one element of a batch, that cannot be carried out."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    def to_p4_error(self) -> p4r.Error:
        return p4r.Error(canonical_code=self.code, message=self.message)


class BatchError(Exception):
    """A Write or Read in which at least one element failed; one p4.v1.Error per element, in order."""

    def __init__(self, what: str, errors: Sequence[p4r.Error]) -> None:
        failed = [error for error in errors if error.canonical_code != OK]
        message = f"{len(failed)} of {len(errors)} {what} failed; the first: {failed[0].message}"
        super().__init__(message)
        self.message = message
        self.errors = errors


def abort(context: grpc.ServicerContext, error: RequestError | BatchError) -> NoReturn:
    """End an RPC with an error; never returns."""
    if isinstance(error, RequestError):
        context.abort(_GRPC_CODES[error.code], error.message)
    else:
        codes = [p4r.Error(canonical_code=element.canonical_code) for element in error.errors]
        room = _MOST_METADATA_BYTES - _OTHER_METADATA_BYTES - _encoded_bytes(error.message)
        room -= _status_of(error.message, codes).ByteSize()
        told = []
        for element, code in zip(error.errors, codes, strict=True):
            room -= len(element.message.encode()) + _MESSAGE_EXTRA_BYTES
            told.append(element if room >= 0 else code)
        status = _status_of(error.message, told)
        context.set_trailing_metadata(((_DETAILS_KEY, status.SerializeToString()),))
        context.abort(grpc.StatusCode.UNKNOWN, error.message)
    raise AssertionError("abort() of gRPC always raises")


def _status_of(message: str, errors: Iterable[p4r.Error]) -> rpc_status.Status:
    status = rpc_status.Status(code=UNKNOWN, message=message)
    for error in errors:
        status.details.add().Pack(error)
    return status


def _encoded_bytes(message: str) -> int:
    """Return the size of a message in gRPC's own encoding, three bytes for each that is not plain."""
    return sum(1 if 0x20 <= byte <= 0x7E and byte != ord("%") else 3 for byte in message.encode())


def list_choices(names: Iterable[str]) -> str:
    """List valid choices for a message, shortened when there are many."""
    listed = sorted(names)
    if not listed:
        return "none"
    if len(listed) > _MOST_CHOICES:
        return ", ".join(listed[:_MOST_CHOICES]) + f" and {len(listed) - _MOST_CHOICES} more"
    return ", ".join(listed)


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Give "; did you mean 'x'?" when one of the names is close to what was asked for, else an empty string."""
    close = difflib.get_close_matches(name, list(names), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""
