"""A GPU on the fabric: link layer, load/store, RDMA, and the traffic tools (`python -m endpoint`)."""

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
    FenceTimeout,
    LsuTimeout,
    Misaligned,
    NotificationTimeout,
    OutOfRange,
    PortError,
    TmaTimeout,
)
from endpoint.gpu import Gpu, Semantics
from endpoint.impairments import Impairment
from endpoint.memory import Region
from endpoint.options import EndpointOptions
from endpoint.tma.notifications import Notification
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
    "FenceTimeout",
    "Gpu",
    "Impairment",
    "LsuTimeout",
    "Misaligned",
    "Notification",
    "NotificationTimeout",
    "OutOfRange",
    "PortError",
    "Region",
    "Semantics",
    "TmaTimeout",
    "Transfer",
]
