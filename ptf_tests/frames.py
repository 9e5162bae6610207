"""Make the frames that packet tests send, and tell what a switch should make of them."""

from __future__ import annotations

from typing import Any, Final

from scapy.packet import Packet

from codec.constants import HOPS, TMA_MAX_BYTES, Next
from codec.layouts import LINK, OEFH, link_crc
from codec.scapy_layers import LSU, OEFH as Oefh, TMA, Link, Probe  # noqa: I001  # the layer, beside its layout

SIZES: Final = (
    *(64, 65, 127, 128, 129, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 2047, 2048, 2049, 4095, 4096, 4097),
    4134,
)
"""Frame sizes in bytes after the link header: conformance.md's list, the largest frame last."""

_HOPS_OFFSET: Final = LINK.size + 4  # of the byte whose low half is the hop limit
_CRC_END: Final = LINK.size
_CRC_START: Final = LINK.size - 4


def store(src: int, dst: int, data: bytes = b"\x11\x22\x33\x44\x55\x66\x77\x88", **oefh: Any) -> Packet:
    """Return an LSU STORE; keyword arguments are fields of the OEFH."""
    fields = {"hops": HOPS, **oefh}
    return Link() / Oefh(src=src, dst=dst, **fields) / LSU(opcode="STORE", request=1, key=0xBEEF, address=64, data=data)


def write(src: int, dst: int, size: int, **oefh: Any) -> Packet:
    """Return a TMA WRITE that is `size` bytes long after the link header (38 to 4,134)."""
    length = size - (OEFH.size + 28 + 4)
    if not 0 <= length <= TMA_MAX_BYTES:
        raise ValueError(f"no TMA frame has {size} bytes after the link header")
    data = bytes(index & 0xFF for index in range(length))
    fields = {"hops": HOPS, **oefh}
    return Link() / Oefh(src=src, dst=dst, **fields) / TMA(opcode="WRITE", block=11, total=length, data=data)


def probe(src: int, dst: int, op: int = 1, **oefh: Any) -> Packet:
    """Return a PROBE."""
    return Link() / Oefh(src=src, dst=dst, hops=HOPS, vc=7, next=Next.PROBE, **oefh) / Probe(op=op)


def with_crc(frame: bytes) -> bytes:
    """Return the frame with the link CRC that its other bytes ask for."""
    return frame[:_CRC_START] + link_crc(frame).to_bytes(4, "big") + frame[_CRC_END:]


def forwarded(frame: Packet | bytes) -> bytes:
    """Return what leaves an open port after one switch routed this frame: one hop less, a fresh link header.

    Worked out on the bytes, apart from the Scapy layers and from the switch program.
    """
    data = bytearray(bytes(frame))
    data[0] &= 0xF0  # flags
    data[1 : LINK.size] = bytes(LINK.size - 1)  # seq, ack, session, CRC
    data[_HOPS_OFFSET] -= 1
    return with_crc(bytes(data))


def sent(frame: Packet | bytes) -> bytes:
    """Return what leaves an open port of a packet-out that names this port: a fresh link header, nothing else."""
    data = bytearray(bytes(frame))
    data[0] &= 0xF0
    data[1 : LINK.size] = bytes(LINK.size - 1)
    return with_crc(bytes(data))
