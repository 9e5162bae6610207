"""What can go wrong at an endpoint, as exceptions that say what was tried, where, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from codec.constants import LsuOpcode, LsuStatus, TmaOpcode


class EndpointError(Exception):
    """Any error of an endpoint."""


class ConfigurationError(EndpointError):
    """The environment, the fabric description or an option is wrong."""


class PortError(EndpointError):
    """An interface cannot be used as a port."""


class ClosedError(EndpointError):
    """The GPU was closed, or its receive thread failed, while or before something was asked of it."""


class AccessError(EndpointError):
    """An access to another GPU's memory did not succeed.

    `dst` is the GPU, `opcode` the operation, `address` and `length` (bytes) the place, `key` the region's key.
    """

    reason = "failed"

    def __init__(self, opcode: int, dst: int, address: int, length: int, key: int, detail: str = "") -> None:
        self.opcode = opcode if isinstance(opcode, TmaOpcode) else LsuOpcode(opcode)
        self.dst = dst
        self.address = address
        self.length = length
        self.key = key
        what = f"{self.opcode.name} of {length} bytes at {address:#x} of GPU {dst} (key {key:#x})"
        super().__init__(f"{what}: {detail or self.reason}")


class AccessRefused(AccessError):
    """The target refused the access and did not touch its memory."""

    reason = "refused"


class OutOfRange(AccessRefused):
    """The access does not lie inside the region."""

    reason = "out of the region's range"


class Misaligned(AccessRefused):
    """An atomic on an address that is not a multiple of 8."""

    reason = "atomics need an address that is a multiple of 8"


class BadOpcode(AccessRefused):
    """The target does not know the operation."""

    reason = "the target does not know this operation"


class BadLength(AccessRefused):
    """The length does not fit the operation or the data."""

    reason = "the length does not fit the operation or its data"


class BadKey(AccessRefused):
    """No region is registered under the key."""

    reason = "no region with this key is registered there"


class LsuTimeout(AccessError, TimeoutError):
    """No answer came in time. The access may or may not have taken effect, but never more than once."""

    reason = "no answer"


class TmaTimeout(AccessError, TimeoutError):
    """A message made no progress in time. Its bytes may be there in part, and never more than once."""

    reason = "no progress"


class FenceTimeout(EndpointError, TimeoutError):
    """Something earlier than a fence was still under way when its time was over."""


class NotificationTimeout(EndpointError, TimeoutError):
    """No notification came in time."""


class Unreachable(AccessError, ConnectionError):
    """No plane leads to the destination: its links or switches are down, or it is. The access may or may not have taken
    effect, but never more than once."""

    reason = "unreachable"


class BarrierTimeout(EndpointError, TimeoutError):
    """Not all GPUs came to the barrier in time."""


class CollectiveError(EndpointError):
    """A collective failed. The GPUs are out of step, and no later one works: end the program."""


class CollectiveTimeout(CollectiveError, TimeoutError):
    """A collective stood still for too long; `missing` are the GPUs that it waits for."""

    def __init__(self, message: str, missing: tuple[int, ...]) -> None:
        super().__init__(message)
        self.missing = missing


class CollectiveMismatch(CollectiveError):
    """The GPUs of a group do not call the same thing."""


REFUSALS: Final[Mapping[int, type[AccessRefused]]] = {
    LsuStatus.OUT_OF_RANGE: OutOfRange,
    LsuStatus.MISALIGNED: Misaligned,
    LsuStatus.BAD_OPCODE: BadOpcode,
    LsuStatus.BAD_LENGTH: BadLength,
    LsuStatus.BAD_KEY: BadKey,
}
"""The exception for each reason that a NAK gives."""
