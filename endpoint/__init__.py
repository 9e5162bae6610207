"""A GPU on the fabric: link layer, load/store, RDMA, collectives, and the traffic tools (`python -m endpoint`)."""

from endpoint.collectives import Algorithm, Group, Operator
from endpoint.errors import (
    AccessError,
    AccessRefused,
    BadKey,
    BadLength,
    BadOpcode,
    BarrierTimeout,
    ClosedError,
    CollectiveError,
    CollectiveMismatch,
    CollectiveTimeout,
    ConfigurationError,
    EndpointError,
    FenceTimeout,
    LsuTimeout,
    Misaligned,
    NotificationTimeout,
    OutOfRange,
    PortError,
    TmaTimeout,
    Unreachable,
)
from endpoint.event_log import EventRecord
from endpoint.gpu import Gpu, Semantics
from endpoint.impairments import Impairment
from endpoint.memory import Region
from endpoint.options import EndpointOptions
from endpoint.tma.notifications import Notification
from endpoint.transfer import Transfer

__all__ = [
    "AccessError",
    "AccessRefused",
    "Algorithm",
    "BadKey",
    "BadLength",
    "BadOpcode",
    "BarrierTimeout",
    "ClosedError",
    "CollectiveError",
    "CollectiveMismatch",
    "CollectiveTimeout",
    "ConfigurationError",
    "EndpointError",
    "EndpointOptions",
    "EventRecord",
    "FenceTimeout",
    "Gpu",
    "Group",
    "Impairment",
    "LsuTimeout",
    "Misaligned",
    "Notification",
    "NotificationTimeout",
    "Operator",
    "OutOfRange",
    "PortError",
    "Region",
    "Semantics",
    "TmaTimeout",
    "Transfer",
    "Unreachable",
]
