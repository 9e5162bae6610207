"""What can be chosen about an endpoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from codec.constants import LSU_MAX_BYTES, REQUEST_WINDOW, TMA_MAX_BLOCK, TMA_MIN_BLOCK
from endpoint.errors import ConfigurationError
from endpoint.impairments import Impairment

MAX_SERVICE_S: Final = 0.01
_BLOCK_SIZES: Final = tuple(1 << block for block in range(TMA_MIN_BLOCK, TMA_MAX_BLOCK + 1))


@dataclass(frozen=True, slots=True)
class EndpointOptions:
    """Choices of one endpoint. Raises ConfigurationError for a value that cannot work."""

    timeout_s: float = 5.0
    """An access that has no answer after this long fails with LsuTimeout."""

    window: int = 128
    """Unfinished requests per destination (1 to 1,023). Without credits on the link, what all sources of a destination
    have in flight must fit in its switch port's queue: 7 x 128 fits in 1,024."""

    ordered: bool = False
    """False: requests are spread over all planes, and over equal paths within a plane, and may overtake each other (F
    = 1 in the OEFH). True: all requests to a destination take one plane and one path (F = 0)."""

    unreachable_s: float = 1.0
    """An access to a GPU to which no plane leads fails with Unreachable once that has been so for this long; one that
    comes later fails at once. Until then a plane may come back. One that is given a time-out of its own waits so long
    for a plane, too."""

    first_rto_s: float = 0.25
    """Time until an unanswered request is sent again, before any round trip was measured."""

    min_rto_s: float = 0.1
    """Least time until an unanswered request is sent again. Well above a round trip (some 0.2 ms), as a busy machine
    delays a process by tens of milliseconds and a needless resend only adds to its load."""

    lossless_rto_s: float | None = None
    """The same where every link has credits; None: as the link profiles say (`endpoint.congestion.lossless_rto_s`)."""

    max_rto_s: float = 1.0
    """Largest time between two sendings of a request."""

    tries_per_path: int = 1
    """Times that something is sent before it goes another way. Plays NICs that know nothing better than to try the same
    path again (RoCE's retry count)."""

    events: bool = True
    """False: what switches tell of dead links is ignored, as by NICs that know nothing of it."""

    receive_buffer: int = 8 << 20
    """Bytes of each port's socket buffer; the kernel charges some 1,300 for a small frame, 5,400 for a largest one."""

    linger_s: float = 0.05
    """On close, requests are still answered until none has come for this long: the last answer may have been lost."""

    service_s: float = 0.0
    """Seconds that the GPU takes over each request; what has come meanwhile waits in the receive buffer. Plays a GPU
    that drains slowly. 0: as fast as it can."""

    block_bytes: int = 2048
    """Bytes of an RDMA message that a frame carries: 256, 512, 1,024, 2,048 or 4,096."""

    bulk_bytes: int = LSU_MAX_BYTES + 1
    """From so many bytes on, `put` and `get` go by RDMA, and below by load/store. As measured (`python -m bench rdma`),
    load/store is faster while it takes one request, and a message of RDMA from where it would take two."""

    notifications: int = 1 << 16
    """Notifications kept until the program takes them; while there are so many, notified messages do not complete."""

    impairments: tuple[Impairment, ...] | None = None
    """What goes wrong on the wire; `Gpu.impair` changes it. None: nothing, and no cost."""

    impairment_seed: int = 1
    """Of what goes wrong with a probability; each GPU and plane has a sequence of its own."""

    def __post_init__(self) -> None:
        if not 1 <= self.window < REQUEST_WINDOW:
            raise ConfigurationError(f"window = {self.window} is out of range, 1 to {REQUEST_WINDOW - 1}")
        if not 0 < self.min_rto_s <= self.first_rto_s <= self.max_rto_s:
            raise ConfigurationError("0 < min_rto_s <= first_rto_s <= max_rto_s does not hold")
        if self.lossless_rto_s is not None and self.lossless_rto_s <= 0:
            raise ConfigurationError(f"lossless_rto_s = {self.lossless_rto_s:g} is out of range: above 0")
        if self.tries_per_path < 1:
            raise ConfigurationError(f"tries_per_path = {self.tries_per_path} is out of range: at least 1")
        if self.unreachable_s < 0:
            raise ConfigurationError(f"unreachable_s = {self.unreachable_s:g} is out of range: at least 0")
        if self.timeout_s <= 0 or self.linger_s < 0 or self.receive_buffer < 1:
            raise ConfigurationError("timeout_s and receive_buffer must be above 0, linger_s at least 0")
        if self.block_bytes not in _BLOCK_SIZES:
            raise ConfigurationError(f"block_bytes = {self.block_bytes} is none of {', '.join(map(str, _BLOCK_SIZES))}")
        if self.bulk_bytes < 0 or self.notifications < 1:
            raise ConfigurationError("bulk_bytes must be at least 0, notifications at least 1")
        if not 0 <= self.service_s <= MAX_SERVICE_S:
            raise ConfigurationError(
                f"service_s = {self.service_s:g} is out of range, 0 to {MAX_SERVICE_S:g}: a link would seem silent"
            )
