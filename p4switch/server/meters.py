"""Meter configurations as messages and as the data plane's rates (P4Runtime 1.4, "MeterEntry & DirectMeterEntry")."""

from __future__ import annotations

from typing import Any

from finsy.proto import p4r

from p4switch.dataplane import MeterCounts
from p4switch.server.status import INVALID_ARGUMENT, RequestError

MeterConfig = tuple[int, int, int, int]  # cir, cburst, pir, pburst: packets or bytes, per second for the rates


def decode_meter(message: p4r.MeterConfig, single_rate: bool, what: str) -> MeterConfig:
    """Check and read a configuration."""
    for name in ("cir", "cburst", "pir", "pburst", "eburst"):
        if getattr(message, name) < 0:
            raise RequestError(INVALID_ARGUMENT, f"{what}: {name} is negative ({getattr(message, name)})")
    if message.eburst:
        raise RequestError(INVALID_ARGUMENT, f"{what}: eburst is set, which only single-rate three-colour meters have")
    if single_rate and (message.cir, message.cburst) != (message.pir, message.pburst):
        raise RequestError(INVALID_ARGUMENT, f"{what} has a single rate: pir and pburst must equal cir and cburst")
    if message.cir > message.pir:
        raise RequestError(
            INVALID_ARGUMENT, f"{what}: the committed rate {message.cir} exceeds the peak rate {message.pir}"
        )
    return message.cir, message.cburst, message.pir, message.pburst


def encode_meter(config: MeterConfig | None, into: Any) -> None:
    """Set the config field of a MeterEntry or DirectMeterEntry; the default configuration is an unset field."""
    if config is not None:
        into.config.cir, into.config.cburst, into.config.pir, into.config.pburst = config


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
