"""Build and read every vector of vectors.json, which was made apart from this project, to the bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from scapy.packet import Packet

from codec import layouts
from codec.constants import Kind, Next, NoticeType
from codec.layouts import credits_of, end_to_end_crc, link_crc, session_of
from codec.scapy_layers import LSU, OEFH, TMA, CreditUpdate, Event, Link, LinkInit, LlrControl, Notice

VECTORS: dict[str, list[dict[str, Any]]] = json.loads(Path(__file__).with_name("vectors.json").read_text())

# The vectors speak of fields of a whole frame; where a header's field has another name, it is here.
RENAMED = {
    "F": "f",
    "tma_flags": "flags",
    "credit_size_log2": "credit_size",
    "epoch": "own_epoch",
    "mask": "vc_mask",
    "counters": "credits",
}
LINK_FIELDS = {"kind", "flags", "seq", "ack", "session"}
OEFH_FIELDS = {"version", "vc", "ecn", "f", "dst", "src", "next", "hops", "entropy"}


def split(fields: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return the fields of the link header, of the OEFH and of what follows."""
    link: dict[str, Any] = {}
    oefh: dict[str, Any] = {}
    body: dict[str, Any] = {}
    for name, value in fields.items():
        renamed = RENAMED.get(name, name)
        if name in LINK_FIELDS:
            link[renamed] = value
        elif renamed in OEFH_FIELDS:
            oefh[renamed] = value
        else:
            body[renamed] = bytes.fromhex(value) if name == "data" else value
    return link, oefh, body


BODIES: dict[int, type[Packet]] = {
    Kind.LLR_ACK: LlrControl,
    Kind.LLR_NACK: LlrControl,
    Kind.LLR_INIT: LinkInit,
    Kind.LLR_INIT_ECHO: LinkInit,
    Kind.CF_UPDATE: CreditUpdate,
    Kind.CC_UPDATE: CreditUpdate,
}
TRANSACTIONS: dict[int, type[Packet]] = {Next.LSU: LSU, Next.TMA: TMA, Next.EVENT: Event}


@pytest.fixture(params=VECTORS["frames"], ids=lambda vector: vector["name"])
def vector(request: pytest.FixtureRequest) -> dict[str, Any]:
    return request.param


def test_scapy_builds(vector: dict[str, Any]) -> None:
    link, oefh, body = split(vector["fields"])
    packet = Link(**link)
    if link["kind"] == Kind.DATA:
        packet = packet / OEFH(**oefh) / TRANSACTIONS[oefh["next"]](**body)
    else:
        packet = packet / BODIES[link["kind"]](**body)
    assert bytes(packet).hex() == vector["hex"]


def test_scapy_reads(vector: dict[str, Any]) -> None:
    link, oefh, body = split(vector["fields"])
    packet = Link(bytes.fromhex(vector["hex"]))
    assert {name: packet.getfieldval(name) for name in link} == link
    if link["kind"] == Kind.DATA:
        assert {name: packet[OEFH].getfieldval(name) for name in oefh} == oefh
        top = packet[TRANSACTIONS[oefh["next"]]]
    else:
        top = packet[BODIES[link["kind"]]]
    assert {name: top.getfieldval(name) for name in body} == body
    assert packet.crc_ok()
    if isinstance(top, LSU | TMA):
        assert top.crc_ok()


def test_layouts_build_and_read(vector: dict[str, Any]) -> None:
    """The generic packer alone, without Scapy, gives the same bytes and fields."""
    link, oefh, body = split(vector["fields"])
    frame = bytes.fromhex(vector["hex"])
    data = body.pop("data", b"")
    if link["kind"] == Kind.DATA:
        layout = layouts.HEADER_OF_NEXT[Next(oefh["next"])]
        if layout is layouts.LSU:
            body["length"] -= 1
        transaction = layout.pack(**body) + data
        if layout in (layouts.LSU, layouts.TMA):
            transaction += end_to_end_crc(oefh["src"], oefh["dst"], transaction).to_bytes(4, "big")
        rest = layouts.OEFH.pack(**oefh) + transaction
        read = layout.unpack(frame[layouts.LINK.size + layouts.OEFH.size :])
    else:
        layout = layouts.BODY_OF_KIND[Kind(link["kind"])]
        rest = layout.pack(**body)
        read = layout.unpack(frame[layouts.LINK.size :])
    header = layouts.LINK.pack(**link)
    crc = link_crc(header + rest)
    assert (layouts.LINK.pack(**link, crc=crc) + rest).hex() == vector["hex"]
    flat = {name: list(value) if isinstance(value, tuple) else value for name, value in read.items()}
    assert {name: flat[name] for name in body} == body


def test_internal_frames() -> None:
    zeros = bytes(layouts.LINK.size)
    built = {
        "port 3 down": zeros + layouts.NOTICE.pack(type=NoticeType.PORT_STATUS, state=0, port=3),
        "tick": zeros + layouts.NOTICE.pack(type=NoticeType.TICK),
    }
    assert {v["name"]: v["hex"] for v in VECTORS["internal_frames"]} == {n: b.hex() for n, b in built.items()}
    assert bytes(Link(kind=0, crc=0) / Notice(type="PORT_STATUS", port=3)) == built["port 3 down"]


@pytest.mark.parametrize("case", VECTORS["sessions"], ids=str)
def test_sessions(case: dict[str, Any]) -> None:
    ours, peers = case["epochs"]
    assert session_of(ours, peers) == session_of(peers, ours) == case["session"]


def test_credits() -> None:
    for case in VECTORS["credits"]:
        got = credits_of(case["bytes_after_link_header"], case["credit_size"], case["packet_overhead"])
        assert got == case["credits"], case
