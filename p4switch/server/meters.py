"""Meter configurations as messages and as the data plane's rates (P4Runtime 1.4, "MeterEntry & DirectMeterEntry")."""

from __future__ import annotations

from typing import Any

from finsy.proto import p4r

from p4switch.server.status import INVALID_ARGUMENT, UNIMPLEMENTED, RequestError

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


def refuse_color_counters(message: Any, what: str) -> None:
    """Raise UNIMPLEMENTED when a request sets the per-colour counters, which this switch does not keep."""
    if message.HasField("counter_data"):
        raise RequestError(UNIMPLEMENTED, f"{what}: this switch keeps no counters per colour; leave counter_data unset")
