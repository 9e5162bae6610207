"""Name the protocol's numbers: kinds, opcodes, statuses, ids and sizes (docs/protocol.md).

Everything here is a plain value of the wire; how the values are laid out is in `codec.layouts`.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Final


class Kind(IntEnum):
    """Kind of a frame, in the link header."""

    DATA = 1
    LLR_ACK = 2
    LLR_NACK = 3
    LLR_INIT = 4
    LLR_INIT_ECHO = 5
    CF_UPDATE = 6
    CC_UPDATE = 7


class LinkFlag(IntFlag):
    """Flags of the link header; bit 0 is always 0, so that no host stack takes the frame for a multicast one."""

    LLR = 2
    REPLAY = 4
    POISON = 8


class Next(IntEnum):
    """What follows the OEFH."""

    LSU = 1
    TMA = 2
    EVENT = 3
    PROBE = 4


class Vc(IntEnum):
    """Virtual channels with a fixed use; 2 to 6 are free."""

    REQUEST = 0
    RESPONSE = 1
    CONTROL = 7


class Ecn(IntEnum):
    """Congestion notification, as in IP."""

    NOT_CAPABLE = 0
    CAPABLE_1 = 1
    CAPABLE_0 = 2
    CONGESTION_EXPERIENCED = 3


class LsuOpcode(IntEnum):
    """Requests (below 8) and responses of the load/store unit."""

    LOAD = 1
    STORE = 2
    ATOMIC_ADD = 3
    ATOMIC_SWAP = 4
    ATOMIC_CAS = 5
    LOAD_DATA = 9
    ACK = 10
    ATOMIC_DATA = 11
    NAK = 15


class LsuStatus(IntEnum):
    """Why a request was refused (bits 0 to 2 of `status` in a NAK)."""

    OK = 0
    OUT_OF_RANGE = 1
    MISALIGNED = 2
    BAD_OPCODE = 3
    BAD_LENGTH = 4
    BAD_KEY = 5


LSU_FIRST_RESPONSE: Final = 8
"""Opcodes from here on are responses."""

LSU_STATUS_ECN_ECHO: Final = 8
"""Bit 3 of `status` in a response: the request met congestion."""


class TmaOpcode(IntEnum):
    """Operations of the RDMA unit."""

    WRITE = 1
    READ = 2
    READ_DATA = 3
    ACK = 4
    NAK = 15


class TmaFlag(IntFlag):
    """Flags of the RDMA header."""

    LAST = 1
    ACK_REQ = 2
    NOTIFY = 4
    ECN_ECHO = 8


class EventType(IntEnum):
    """What a switch reports about a subject on a plane."""

    LINK_DOWN = 1
    LINK_UP = 2
    LINK_DEGRADED = 3


class ProbeOp(IntEnum):
    """What a PROBE asks of a switch, and its answer; other values are free."""

    READ_CREDITS = 2
    CREDITS = 3
    READ_RETRY = 6
    RETRY = 7


class LinkState(IntEnum):
    """How far a switch is with a managed link, as a probe's answer says it."""

    DOWN = 0
    INIT = 1
    UP = 2
    READY = 3


class NoticeType(IntEnum):
    """What a switch senses, as it enters the switch program on its internal event port."""

    PORT_STATUS = 1
    TICK = 2


class Capability(IntFlag):
    """Link features offered at bring-up; both sides' are ANDed."""

    LLR = 1
    CBFC = 2


OEFH_VERSION: Final = 0
INIT_VERSION: Final = 1
HOPS: Final = 8
"""Hop limit of a fresh frame."""

MAX_GPU_ID: Final = 0xEFF
FIRST_SWITCH_ID: Final = 0xF00
MAX_SWITCH_ID: Final = 0xFFE
NOBODY: Final = 0xFFF

VC_COUNT: Final = 8

REQUEST_WINDOW: Final = 1024
"""Results that a target keeps per source; newest minus oldest unfinished request stays below it."""

LSU_MAX_BYTES: Final = 256
ATOMIC_BYTES: Final = 8
TMA_MAX_BYTES: Final = 4096
TMA_MAX_MESSAGE: Final = (1 << 32) - 1
TMA_MIN_BLOCK: Final = 8
TMA_MAX_BLOCK: Final = 12
"""log2 of the sizes that a message's blocks may have: 256 to 4,096 bytes."""
BLOCK_WINDOW: Final = 1024
"""Blocks of one message from the lowest that is not placed; nobody sends or places one beyond them."""
READ_BLOCKS: Final = 16
"""Blocks that one READ asks for at most."""

CRC_BYTES: Final = 4
MIN_FRAME: Final = 18
"""Shortest legal frame: a link header and the six bytes that every body begins with."""
MAX_FRAME: Final = 4146
"""Longest legal frame: link header, OEFH, TMA header, 4,096 bytes, end-to-end CRC."""
MTU: Final = 4132
"""MTU of every link: the kernel does not count the 14 bytes that it takes for an Ethernet header."""
