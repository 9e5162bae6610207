"""Make the frames that packet tests send, and tell what a switch should make of them."""

from __future__ import annotations

import zlib
from typing import Any, Final

from scapy.packet import Packet

from codec import layouts
from codec.constants import CRC_BYTES, HOPS, TMA_MAX_BYTES, Kind, Next
from codec.layouts import link_crc
from codec.scapy_layers import LSU, OEFH, TMA, CreditUpdate, Link, LinkInit, LlrControl, Probe

SIZES: Final = (
    *(64, 65, 127, 128, 129, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 2047, 2048, 2049, 4095, 4096, 4097),
    4134,
)
"""Frame sizes in bytes after the link header: conformance.md's list, the largest frame last."""

LINK_BYTES: Final = layouts.LINK.size
_HOPS_OFFSET: Final = LINK_BYTES + 4  # of the byte whose low half is the hop limit
_CRC_START: Final = LINK_BYTES - CRC_BYTES


def store(src: int, dst: int, data: bytes = b"\x11\x22\x33\x44\x55\x66\x77\x88", **oefh: Any) -> Packet:
    """Return an LSU STORE; keyword arguments are fields of the OEFH."""
    fields = {"hops": HOPS, **oefh}
    return Link() / OEFH(src=src, dst=dst, **fields) / LSU(opcode="STORE", request=1, key=0xBEEF, address=64, data=data)


def write(src: int, dst: int, size: int, **oefh: Any) -> Packet:
    """Return a TMA WRITE that is `size` bytes long after the link header (38 to 4,134)."""
    length = size - (layouts.OEFH.size + layouts.TMA.size + CRC_BYTES)
    if not 0 <= length <= TMA_MAX_BYTES:
        raise ValueError(f"no TMA frame has {size} bytes after the link header")
    data = bytes(index & 0xFF for index in range(length))
    fields = {"hops": HOPS, **oefh}
    return Link() / OEFH(src=src, dst=dst, **fields) / TMA(opcode="WRITE", block=11, total=length, data=data)


def probe(src: int, dst: int, op: int = 1, **oefh: Any) -> Packet:
    """Return a PROBE."""
    return Link() / OEFH(src=src, dst=dst, hops=HOPS, vc=7, next=Next.PROBE, **oefh) / Probe(op=op)


def control_frames() -> dict[str, bytes]:
    """Return one well-formed frame of each control kind, with session 0."""
    body = {
        Kind.LLR_ACK: LlrControl(),
        Kind.LLR_NACK: LlrControl(),
        Kind.LLR_INIT: LinkInit(own_epoch=0x1234567),
        Kind.LLR_INIT_ECHO: LinkInit(own_epoch=0x1234567, peer_epoch=0x89ABCDEF),
        Kind.CF_UPDATE: CreditUpdate(vc_mask=255),
        Kind.CC_UPDATE: CreditUpdate(vc_mask=255),
    }
    return {kind.name: bytes(Link(kind=kind) / body[kind]) for kind in body}


def data_frames() -> dict[str, bytes]:
    """Return one well-formed frame of each transaction, from GPU 1."""
    return {"LSU": bytes(store(1, 2)), "TMA": bytes(write(1, 2, 100)), "PROBE": bytes(probe(1, 2))}


def with_crc(frame: bytes) -> bytes:
    """Return the frame with the link CRC that its other bytes ask for."""
    return frame[:_CRC_START] + link_crc(frame).to_bytes(CRC_BYTES, "big") + frame[LINK_BYTES:]


def sent(frame: Packet | bytes) -> bytes:
    """Return what leaves an open port of a packet-out that names the port: a fresh link header, nothing else.

    Worked out on the bytes, apart from the Scapy layers and from the switch program.
    """
    data = bytes(frame)
    kind = data[0] & 0xF0
    return with_crc(bytes([kind]) + bytes(LINK_BYTES - 1) + data[LINK_BYTES:])


def forwarded(frame: Packet | bytes) -> bytes:
    """Return what leaves an open port after a switch routed this frame: a fresh link header and one hop less."""
    data = bytearray(bytes(frame))
    data[_HOPS_OFFSET] -= 1
    return sent(bytes(data))


def slot(frame: Packet, size: int) -> int:
    """Return the slot that docs/pipeline.md gives a frame in a group of this size."""
    oefh = frame["OEFH"]
    entropy = oefh.entropy if oefh.f else 0
    key = (oefh.dst << 20 | oefh.src << 8 | entropy).to_bytes(4, "big")
    return zlib.crc32(key) * size >> 32
