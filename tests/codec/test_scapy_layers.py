"""The Scapy layers in the hands of a tester: defaults, explicit faults, captures."""

from __future__ import annotations

from pathlib import Path

import pytest
from scapy.packet import Packet, Raw
from scapy.utils import wrpcap

from codec.constants import Kind
from codec.scapy_layers import LSU, OEFH, TMA, CreditUpdate, Event, Link, LinkInit, LlrControl, Probe, read_capture


def store(**fields: object) -> Packet:
    return Link() / OEFH(dst=5, src=3) / LSU(opcode="STORE", data=b"12345678", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("layer", "kind", "next_"),
    [
        (LSU(), Kind.DATA, 1),
        (TMA(), Kind.DATA, 2),
        (Event(), Kind.DATA, 3),
        (Probe(), Kind.DATA, 4),
        (LlrControl(), Kind.LLR_ACK, None),
        (LinkInit(), Kind.LLR_INIT, None),
        (CreditUpdate(), Kind.CF_UPDATE, None),
    ],
)
def test_layers_find_each_other(layer: Packet, kind: int, next_: int | None) -> None:
    packet = Link(bytes(Link() / OEFH() / layer if next_ else Link() / layer))
    assert packet.kind == kind
    if next_:
        assert packet[OEFH].next == next_
    assert type(packet.lastlayer()) is type(layer)
    assert packet.crc_ok()


def test_second_kinds_dissect_alike() -> None:
    for kind, layer in ((3, LlrControl), (5, LinkInit), (7, CreditUpdate)):
        assert layer in Link(bytes(Link(kind=kind) / layer()))


def test_lengths_fill_in() -> None:
    assert Link(bytes(store()))[LSU].length == 8
    assert Link(bytes(Link() / OEFH() / LSU(opcode="LOAD")))[LSU].length == 8
    assert Link(bytes(Link() / OEFH() / LSU(opcode="LOAD", length=256)))[LSU].length == 256
    assert Link(bytes(Link() / OEFH() / LSU(opcode="ATOMIC_CAS", data=bytes(16))))[LSU].length == 8
    assert Link(bytes(Link() / OEFH() / TMA(data=bytes(100))))[TMA].length == 100


def test_faults_stay_as_given() -> None:
    bad = Link(bytes(Link(crc=1) / OEFH(dst=5, src=3) / LSU(opcode="STORE", data=b"1", crc=2, length=200)))
    assert (bad.crc, bad[LSU].crc, bad[LSU].length) == (1, 2, 200)
    assert not bad.crc_ok()
    assert not bad[LSU].crc_ok()


def test_changing_a_field_and_building_again_renews_the_crcs() -> None:
    packet = Link(bytes(store()))
    packet[OEFH].dst = 6
    packet.crc = packet[LSU].crc = None
    again = Link(bytes(packet))
    assert again.crc_ok() and again[LSU].crc_ok()
    assert again[OEFH].dst == 6


def test_a_cut_frame_dissects_as_far_as_it_goes() -> None:
    whole = bytes(store())
    for length in range(12, len(whole)):  # a whole link header and more
        packet = Link(whole[:length])
        assert bytes(packet) == whole[:length]
    assert Raw in Link(whole[:20])


def test_summary_says_what_happens() -> None:
    assert Link(bytes(store(request=7, address=64))).summary() == "Link / OEFH 0x3 > 0x5 vc 0 / LSU STORE #7 0x40"
    assert Link(bytes(Link() / LinkInit())).summary() == "Link LLR_INIT / LinkInit"


def test_capture_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "port1.pcap"
    sent = [store(request=number) for number in range(3)]
    wrpcap(str(path), [Raw(bytes(packet)) for packet in sent], linktype=1)
    read = read_capture(path)
    assert [bytes(packet) for packet in read] == [bytes(packet) for packet in sent]
    assert [packet[LSU].request for packet in read] == [0, 1, 2]
