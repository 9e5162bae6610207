"""Packet-out and packet-in: controller metadata as messages <-> the controller header in front of the packet.

On the CPU port a packet starts with the program's @controller_header, its fields packed as bits in order.
"""

from __future__ import annotations

from collections.abc import Iterable

from finsy.proto import p4r

from p4switch.server import status
from p4switch.server.schema import ControllerHeader, Schema
from p4switch.server.status import INVALID_ARGUMENT, RequestError


def encode_packet_out(schema: Schema, message: p4r.PacketOut) -> bytes:
    """Return the bytes to inject on the CPU port; INVALID_ARGUMENT when metadata and P4Info disagree."""
    header = schema.packet_out
    if header is None:
        if message.metadata:
            raise RequestError(
                INVALID_ARGUMENT,
                'packet-out: metadata given, but the program has no header with @controller_header("packet_out")',
            )
        return message.payload
    return _pack(header, message.metadata) + message.payload


def decode_packet_in(schema: Schema, frame: bytes) -> p4r.PacketIn:
    """Split what the program sent to the CPU port. A frame too short to hold the header is all payload."""
    header = schema.packet_in
    if header is None or len(frame) < header.length:
        return p4r.PacketIn(payload=frame)
    message = p4r.PacketIn(payload=frame[header.length :])
    bits = int.from_bytes(frame[: header.length], "big")
    left = header.length * 8
    for field in header.fields:
        left -= field.plane_width
        value = bits >> left & (1 << field.plane_width) - 1
        message.metadata.add(metadata_id=field.id, value=field.encode(value))
    return message


def _pack(header: ControllerHeader, metadata: Iterable[p4r.PacketMetadata]) -> bytes:
    values: dict[int, bytes] = {}
    known = {field.id: field.name for field in header.fields}
    for each in metadata:
        if each.metadata_id not in known:
            valid = status.list_choices(f"{number} ({name})" for number, name in known.items())
            raise RequestError(
                INVALID_ARGUMENT, f"{header.name}: unknown metadata id {each.metadata_id}; there is {valid}"
            )
        if each.metadata_id in values:
            raise RequestError(INVALID_ARGUMENT, f"{header.name}: metadata '{known[each.metadata_id]}' is given twice")
        values[each.metadata_id] = each.value
    bits = 0
    for field in header.fields:
        if field.id not in values:
            raise RequestError(INVALID_ARGUMENT, f"{header.name}: metadata '{field.name}' ({field.id}) is missing")
        bits = bits << field.plane_width | field.decode(values[field.id])
    spare = header.length * 8 - sum(field.plane_width for field in header.fields)
    return (bits << spare).to_bytes(header.length, "big")
