"""A GPU on the fabric: link layer, load/store, and the traffic tools (`python -m endpoint`)."""

from endpoint.errors import (
    AccessError,
    AccessRefused,
    BadKey,
    BadLength,
    BadOpcode,
    BarrierTimeout,
    ClosedError,
    ConfigurationError,
    EndpointError,
    LsuTimeout,
    Misaligned,
    OutOfRange,
    PortError,
    Unreachable,
)
from endpoint.gpu import Gpu
from endpoint.memory import Region
from endpoint.options import EndpointOptions
from endpoint.transfer import Transfer

__all__ = [
    "AccessError",
    "AccessRefused",
    "BadKey",
    "BadLength",
    "BadOpcode",
    "BarrierTimeout",
    "ClosedError",
    "ConfigurationError",
    "EndpointError",
    "EndpointOptions",
    "Gpu",
    "LsuTimeout",
    "Misaligned",
    "OutOfRange",
    "PortError",
    "Region",
    "Transfer",
    "Unreachable",
]
