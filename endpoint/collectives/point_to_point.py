"""Send and receive: one array from one rank to another, as between the stages of a pipeline."""

from __future__ import annotations

from endpoint.collectives.call import Array, Call, Fill, bytes_of


def send(call: Call, values: Array, to: int) -> None:
    """Send an array to a rank; returns when it lies in the receiver's mailbox, but for what does not fit there."""
    call.exchange({to: bytes_of(values)}, {})


def receive(call: Call, into: Array, source: int) -> None:
    """Fill a contiguous array with what a rank sent."""
    call.exchange({}, {source: Fill(into)})
