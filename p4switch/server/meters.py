"""Meter configurations as messages and as the data plane's rates (P4Runtime 1.4, "MeterEntry & DirectMeterEntry")."""

from __future__ import annotations

from finsy.proto import p4i, p4r

from p4switch.dataplane import MeterConfig, MeterCounts
from p4switch.server.status import INVALID_ARGUMENT, RequestError

_SINGLE_RATE = (p4i.MeterSpec.SINGLE_RATE_THREE_COLOR, p4i.MeterSpec.SINGLE_RATE_TWO_COLOR)


def decode_meter(message: p4r.MeterConfig, kind: int, what: str) -> MeterConfig:
    """Check and read a configuration. kind: the meter's p4i.MeterSpec.Type."""
    for name in ("cir", "cburst", "pir", "pburst", "eburst"):
        if getattr(message, name) < 0:
            raise RequestError(INVALID_ARGUMENT, f"{what}: {name} is negative ({getattr(message, name)})")
    if message.eburst and kind != p4i.MeterSpec.SINGLE_RATE_THREE_COLOR:
        raise RequestError(INVALID_ARGUMENT, f"{what}: eburst is set, which only single-rate three-colour meters have")
    if kind in _SINGLE_RATE and (message.cir, message.cburst) != (message.pir, message.pburst):
        raise RequestError(INVALID_ARGUMENT, f"{what} has a single rate: pir and pburst must equal cir and cburst")
    if message.cir > message.pir:
        raise RequestError(
            INVALID_ARGUMENT, f"{what}: the committed rate {message.cir} exceeds the peak rate {message.pir}"
        )
    return MeterConfig(message.cir, message.cburst, message.pir, message.pburst, message.eburst)


def encode_meter(config: MeterConfig | None, into: p4r.MeterConfig) -> None:
    """Fill in a configuration; the default one is an unset field."""
    if config is not None:
        into.cir, into.cburst, into.pir, into.pburst, into.eburst = config
        into.SetInParent()


def decode_counts(message: p4r.MeterCounterData, what: str, *, only_reset: bool = False) -> MeterCounts:
    """Check and read counts per colour; only_reset: zeros are all that 1.4 lets a client write."""
    counts = [
        count
        for color in (message.green, message.yellow, message.red)
        for count in (color.packet_count, color.byte_count)
    ]
    if any(count < 0 for count in counts):
        raise RequestError(INVALID_ARGUMENT, f"{what}: a count of a colour is negative ({counts})")
    if only_reset and any(counts):
        raise RequestError(INVALID_ARGUMENT, f"{what}: counts of colours can only be set to zero, not to {counts}")
    return counts[0], counts[1], counts[2], counts[3], counts[4], counts[5]


def encode_counts(counts: MeterCounts, into: p4r.MeterCounterData) -> None:
    """Fill in counts per colour."""
    for number, color in enumerate((into.green, into.yellow, into.red)):
        color.packet_count, color.byte_count = counts[2 * number : 2 * number + 2]
