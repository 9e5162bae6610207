"""What Wireshark shows of EthLink frames, held equal to the codec: every field, CRCs, findings, links."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path
from typing import Any, Final

from codec import layouts
from codec.constants import MAX_FRAME, Kind, LsuOpcode, LsuStatus, Next, ProbeOp, TmaFlag, TmaOpcode, Vc
from codec.frames import frame, oefh, open_frame
from codec.layouts import LAYOUTS, Layout, Value, end_to_end_crc
from codec.scapy_layers import LSU, OEFH, TMA, CreditUpdate, Event, Link, LinkInit, LlrControl, Notice, Probe
from tests.wireshark.conftest import Shown, Tshark

VECTORS: Final = json.loads((Path(__file__).parents[1] / "codec" / "vectors.json").read_text())
KEY: Final = 1
EPOCHS: Final = (0x01234567, 0x89ABCDEF)


def lsu(opcode: LsuOpcode, src: int, dst: int, request: int, data: bytes = b"", **fields: Any) -> bytes:
    """Return an LSU frame of an open port."""
    vc = Vc.REQUEST if opcode < 8 else Vc.RESPONSE
    header = OEFH(src=src, dst=dst, vc=vc, **fields.pop("oefh", {}))
    return bytes(Link() / header / LSU(opcode=opcode, request=request, key=KEY, data=data, incarnation=1, **fields))


def tma(opcode: TmaOpcode, src: int, dst: int, message: int, data: bytes = b"", **fields: Any) -> bytes:
    """Return a TMA frame of an open port."""
    header = OEFH(src=src, dst=dst, vc=0 if opcode < 3 else 1, next=Next.TMA)
    return bytes(Link() / header / TMA(opcode=opcode, message=message, key=KEY, data=data, incarnation=1, **fields))


def with_link_crc(damaged: bytes) -> bytes:
    """Return a frame whose link CRC is made right."""
    return damaged[:8] + layouts.link_crc(damaged).to_bytes(4, "big") + damaged[12:]


def flipped(whole: bytes, at: int, bit: int = 0x10) -> bytes:
    """Return a frame with one bit of byte `at` turned."""
    return whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :]


# ------------------------------------------------------------------------------------------------------ every field


def some_values(layout: Layout, random_source: random.Random) -> dict[str, Value]:
    """Return random values for every field of a layout."""
    values: dict[str, Value] = {}
    for f in layout.fields:
        width = f.bits // f.parts
        low, high = (-(1 << width - 1), (1 << width - 1) - 1) if f.signed else (0, (1 << width) - 1)
        part = [random_source.choice((low, high, random_source.randint(low, high))) for _ in range(f.parts)]
        values[f.name] = part[0] if f.parts == 1 else tuple(part)
    return values


def headers_to(layout: Layout) -> list[tuple[Layout, dict[str, int]]]:
    """Return the headers of a frame that has `layout`, outermost first, with the values that lead to the next."""
    for kind, body in layouts.BODY_OF_KIND.items():
        link = (layouts.LINK, {"kind": int(kind)})
        if body is layout and layout is not layouts.OEFH:
            return [link, (layout, {})]
    data = (layouts.LINK, {"kind": int(Kind.DATA)})
    for following, header in layouts.HEADER_OF_NEXT.items():
        forwarding = (layouts.OEFH, {"next": int(following), "version": 0})
        if header is layout:
            return [data, forwarding, (layout, {"op": 1} if layout is layouts.PROBE else {})]
    for op, body in layouts.BODY_OF_PROBE.items():
        if body is layout:
            forwarding = (layouts.OEFH, {"next": int(Next.PROBE), "version": 0})
            return [data, forwarding, (layouts.PROBE, {"op": int(op)}), (layout, {})]
    return headers_to(layouts.LSU)  # the link header and the OEFH


def filled(layout: Layout, random_source: random.Random) -> tuple[bytes, dict[str, int]]:
    """Return a frame with random values everywhere, and what each field of its headers is to show."""
    if layout is layouts.NOTICE:
        values = {**some_values(layout, random_source), "type": random_source.choice((1, 2))}
        return bytes(12) + layout.pack(**values), shown_values(layout, values)
    rest = b""
    expected: dict[str, int] = {}
    for header, fixed in headers_to(layout):
        values = {**some_values(header, random_source), **fixed}
        if header is layouts.LINK:
            values["flags"] = int(random_source.choice((0, 2, 4, 8, 14)))
            link = values
            continue
        if header is layouts.TMA:
            values["length"] = random_source.choice((0, 1, 4096))
        packed = header.pack(**values)
        if header is layouts.LSU:
            count = int(str(values["length"])) + 1
            opcode = values["opcode"]
            packed += bytes(count * (2 if opcode == LsuOpcode.ATOMIC_CAS else opcode in (2, 3, 4, 9, 11)))
        if header is layouts.TMA:
            packed += bytes(int(str(values["length"])))
        if header in (layouts.LSU, layouts.TMA):
            packed += end_to_end_crc(expected["ethlink.oefh.src"], expected["ethlink.oefh.dst"], packed).to_bytes(
                4, "big"
            )
        expected |= shown_values(header, values)
        rest += packed
    link["crc"] = 0
    whole = with_link_crc(layouts.LINK.pack(**link) + rest)
    link["crc"] = int.from_bytes(whole[8:12], "big")
    return whole, expected | shown_values(layouts.LINK, link)


def shown_values(layout: Layout, values: dict[str, Value]) -> dict[str, int]:
    """Return values by the names of Wireshark's fields, one per VC where there are eight."""
    shown: dict[str, int] = {}
    for name, value in values.items():
        field = f"ethlink.{layout.name.removesuffix('_t')}.{name}"
        parts = {field: value} if isinstance(value, int) else {f"{field}.vc{vc}": part for vc, part in enumerate(value)}
        shown |= parts
    return shown


def test_every_field_of_every_header_shows_what_the_codec_packed(tshark: Tshark) -> None:
    random_source = random.Random(1)
    cases = [(layout, *filled(layout, random_source)) for layout in LAYOUTS for _ in range(40)]
    pages = tshark.dissect(*[whole for _, whole, _ in cases])
    for page, (layout, whole, expected) in zip(pages, cases, strict=True):
        assert any(name.startswith(f"ethlink.{layout.name.removesuffix('_t')}.") for name in expected)
        assert {name: page.number(name) for name in expected} == expected, whole.hex()
        assert "bad_crc" not in page.findings(), whole.hex()
        assert not {"truncated", "overlong"} & set(page.findings()), whole.hex()


def test_vectors_show_no_fault(tshark: Tshark) -> None:
    frames = [bytes.fromhex(vector["hex"]) for vector in VECTORS["frames"]]
    for page, vector in zip(tshark.dissect(*frames), VECTORS["frames"], strict=True):
        assert page.protocol == "EthLink"
        assert page.number("ethlink.link.crc.status") == 1, vector["name"]
        assert set(page.findings()) <= {"nak", "replay", "congestion", "event", "llr_nack"}, vector["name"]
        data = vector["fields"].get("data")
        if vector["fields"].get("next") in (Next.LSU, Next.TMA):
            assert page.number("ethlink.end_to_end_crc.status") == 1
            assert page.fields.get("ethlink.data", [""]) == [":".join(data[i : i + 2] for i in range(0, len(data), 2))]


# ------------------------------------------------------------------------------------------------------ in the list


def managed(kind: Kind, body: bytes, **link: int) -> bytes:
    """Return a frame of a managed link in session 0x1234."""
    return frame(kind, body, session=0x1234, **link)


def test_a_frame_reads_as_a_sentence(tshark: Tshark) -> None:
    forwarding: dict[str, Any] = {"vc": 7, "src": 0xF01, "dst": 1}
    credits = bytes(Link(kind=Kind.DATA) / OEFH(next=Next.PROBE, **forwarding) / Probe(op=3, state=3, port=2))
    credits += layouts.PROBE_CREDITS.pack(session=0xBEEF, held_frames=(4, 0, 0, 0, 0, 0, 0, 0))
    retry = bytes(Link(kind=Kind.DATA) / OEFH(next=Next.PROBE, **forwarding) / Probe(op=7, state=3, port=2))
    retry += layouts.PROBE_RETRY.pack(
        session=0xBEEF, tx_state=2, rx_state=1, next_seq=12, unacknowledged_seq=9, expected_seq=7
    )
    init = LinkInit(capabilities=3, own_epoch=EPOCHS[0], lossless_vcs=3, credit_limit=[64] * 8)
    echo = LinkInit(own_epoch=EPOCHS[0], peer_epoch=EPOCHS[1], lossless_vcs=1, credit_limit=[2048] + [0] * 7)
    lines = {
        "STORE 256 B g1 -> g2 req 17 key 1 @0x40": lsu(LsuOpcode.STORE, 1, 2, 17, bytes(256), address=0x40),
        "ACK g2 -> g1 req 17 key 1 @0x40": lsu(LsuOpcode.ACK, 2, 1, 17, address=0x40),
        "LOAD 8 B g1 -> g2 req 18 key 1 @0x0": lsu(LsuOpcode.LOAD, 1, 2, 18),
        "LOAD_DATA 8 B g2 -> g1 req 18 key 1 @0x0": lsu(LsuOpcode.LOAD_DATA, 2, 1, 18, bytes(8)),
        "NAK BAD_KEY g2 -> g1 req 19 key 1 @0xFFFFFFFFFFFFFFFF": lsu(
            LsuOpcode.NAK, 2, 1, 19, status=LsuStatus.BAD_KEY | 8, address=(1 << 64) - 1
        ),
        "WRITE 100 B g1 -> g2 msg 5, bytes 2,048-2,147 of 2,148 key 1 @0x1000 LAST, NOTIFY": tma(
            TmaOpcode.WRITE, 1, 2, 5, bytes(100), offset=2048, total=2148, address=0x1000,
            flags=TmaFlag.LAST | TmaFlag.NOTIFY,
        ),
        "READ g1 -> g2 msg 6, block 2 of 65,536 B key 1 @0x0": tma(TmaOpcode.READ, 1, 2, 6, offset=4096, total=65536),
        "READ g1 -> g2 msg 6, block 0 of 65,536 B and 1-3, 8 key 1 @0x0": tma(
            TmaOpcode.READ, 1, 2, 6, b"\xe1", total=65536
        ),
        "NAK OUT_OF_RANGE g2 -> g1 msg 6 at 4,096 key 1 @0x0": tma(
            TmaOpcode.NAK, 2, 1, 6, b"\x01", offset=4096, total=65536
        ),
        "ACK g2 -> g1 msg 5 placed below 2,048 of 8,192 B key 1 @0x0": tma(
            TmaOpcode.ACK, 2, 1, 5, b"\xa0", offset=2048, total=8192
        ),
        "ACK g2 -> g1 msg 5 all 8,192 B placed key 1 @0x0": tma(TmaOpcode.ACK, 2, 1, 5, offset=8192, total=8192),
        "LINK_DOWN g3 plane 1 seq 7 (s1 -> g1)": bytes(
            Link() / OEFH(next=Next.EVENT, **forwarding) / Event(type=1, subject=3, plane=1, sequence=7)
        ),
        "LINK_UP s2 plane 0 seq 8 (s1 -> g1)": bytes(
            Link() / OEFH(next=Next.EVENT, **forwarding) / Event(type=2, subject=0xF02, sequence=8)
        ),
        "PROBE READ_CREDITS g1 -> s1 port 2": bytes(
            Link() / OEFH(next=Next.PROBE, vc=7, src=1, dst=0xF01) / Probe(op=ProbeOp.READ_CREDITS, port=2)
        ),
        "PROBE CREDITS s1 -> g1 port 2: ready, session 0xBEEF, held VC0 4": with_link_crc(credits),
        "PROBE RETRY s1 -> g1 port 2: ready, session 0xBEEF, sender ADVANCE 9-12, receiver SEND_ACKS expects 7": (
            with_link_crc(retry)
        ),
        "PROBE op 77 g1 -> s1 port 0": bytes(Link() / OEFH(next=Next.PROBE, src=1, dst=0xF01) / Probe(op=77)),
        "LLR_INIT epoch 0x1234567 LLR, CBFC, limit VC0 64, VC1 64": bytes(Link(kind=Kind.LLR_INIT) / init),
        "LLR_INIT_ECHO epoch 0x1234567 peer 0x89ABCDEF, limit VC0 2,048": bytes(Link(kind=Kind.LLR_INIT_ECHO) / echo),
        "CF_UPDATE freed VC0 12, VC7 1,048,575": managed(
            Kind.CF_UPDATE, bytes(CreditUpdate(credits=[12, 0, 0, 0, 0, 0, 0, 1048575]))
        ),
        "CC_UPDATE consumed VC1 9": managed(
            Kind.CC_UPDATE, bytes(CreditUpdate(vc_mask=2, credits=[7, 9, 0, 0, 0, 0, 0, 0]))
        ),
        "CF_UPDATE freed all 0": managed(Kind.CF_UPDATE, bytes(CreditUpdate(credits=[0] * 8))),
        "LLR_ACK [ack 15]": managed(Kind.LLR_ACK, bytes(LlrControl()), ack=15),
        "LLR_NACK [ack 1048575]": managed(Kind.LLR_NACK, bytes(LlrControl()), ack=0xFFFFF),
        "LOAD 8 B g1 -> g2 req 20 key 1 @0x0 [seq 12 ack 9 replay]": managed(
            Kind.DATA, lsu(LsuOpcode.LOAD, 1, 2, 20)[12:], flags=6, seq=12, ack=9
        ),
        "LOAD 8 B g1 -> g2 req 21 key 1 @0x0 [poisoned]": managed(
            Kind.DATA, lsu(LsuOpcode.LOAD, 1, 2, 21)[12:], flags=8
        ),
        "Port 3 is down": bytes(Link(kind=0, crc=0) / Notice(type="PORT_STATUS", port=3)),
        "Port 503 is up": bytes(Link(kind=0, crc=0) / Notice(type="PORT_STATUS", port=503, state=1)),
        "Tick": bytes(Link(kind=0, crc=0) / Notice(type="TICK")),
    }  # fmt: skip
    pages = tshark.dissect(*lines.values())
    assert [page.info for page in pages] == list(lines)
    assert {page.protocol for page in pages} == {"EthLink"}
    assert (pages[0].source, pages[0].destination) == ("g1", "g2")
    assert (pages[11].source, pages[11].destination) == ("s1", "g1")
    assert pages[9].fields["ethlink.tma.placed"] == ["a0"]
    assert pages[7].fields["ethlink.tma.asked"] == ["e1"]


def test_masks_flags_and_sizes_are_put_in_words(tshark: Tshark) -> None:
    init = LinkInit(capabilities=3, own_epoch=EPOCHS[0], peer_epoch=EPOCHS[1], lossless_vcs=0x83, credit_size=10)
    whole = bytes(Link(kind=Kind.LLR_INIT) / init)
    page = tshark.dissect(whole)[0]
    assert page.number("ethlink.link_init.session") == layouts.session_of(*EPOCHS)
    assert (page["ethlink.link_init.capabilities.llr"], page["ethlink.link_init.capabilities.cbfc"]) == ("1", "1")
    text = tshark.run(tshark.capture([whole]), "-V")
    for line in ("Lossless vcs: 131 (VC 0, 1, 7)", "Credit size: 10 (1,024 bytes)", "Capabilities: 0x03 (LLR, CBFC)"):
        assert line in text
    page = tshark.dissect(managed(Kind.DATA, lsu(LsuOpcode.LOAD, 1, 2, 1)[12:], flags=2, seq=5, ack=4))[0]
    assert [page[f"ethlink.link.flags.{flag}"] for flag in ("llr", "replay", "poison")] == ["1", "0", "0"]
    assert (page.number("ethlink.link.seq"), page.number("ethlink.link.ack")) == (5, 4)
    text = tshark.run(tshark.capture([tma(TmaOpcode.ACK, 2, 1, 5, b"\xbc\x01", offset=2048, total=1 << 20)]), "-V")
    assert "[Blocks placed: 2, 4-7, 17]" in text


# ------------------------------------------------------------------------------------------------------------- CRCs


def test_a_bad_link_crc_shows_what_it_should_be(tshark: Tshark) -> None:
    good = lsu(LsuOpcode.STORE, 1, 2, 1, b"12345678")
    frames = [flipped(good, at) for at in (1, 9, 14, 20, len(good) - 1)]
    first, *pages = tshark.dissect(good, *frames)
    assert first.number("ethlink.link.crc.status") == 1
    for page, damaged in zip(pages, frames, strict=True):
        assert page.number("ethlink.link.crc") == int.from_bytes(damaged[8:12], "big")
        assert page.number("ethlink.link.crc.expected") == layouts.link_crc(damaged)
        assert page.number("ethlink.link.crc.status") == 0
        assert f"should be 0x{layouts.link_crc(damaged):08X}" in page.texts()[0]
        assert page.info.endswith("[bad CRC]")


def test_a_bad_end_to_end_crc_is_told_from_a_bad_link_crc(tshark: Tshark) -> None:
    for good, at in (
        (lsu(LsuOpcode.STORE, 1, 2, 1, b"12345678"), 40),
        (tma(TmaOpcode.WRITE, 1, 2, 1, bytes(9), total=9), 50),
    ):
        damaged = with_link_crc(flipped(good, at))
        page = tshark.dissect(damaged)[0]
        assert page.number("ethlink.link.crc.status") == 1
        assert page.number("ethlink.end_to_end_crc.status") == 0
        assert page.number("ethlink.end_to_end_crc.expected") == end_to_end_crc(1, 2, damaged[18:-4])
        assert page.findings() == ["bad_crc"]
        assert page.info.endswith("[bad end-to-end CRC]")


def test_the_end_to_end_crc_covers_source_and_destination(tshark: Tshark) -> None:
    page = tshark.dissect(with_link_crc(flipped(lsu(LsuOpcode.LOAD, 1, 2, 1), 15)))[0]
    assert page.info == "LOAD 8 B g17 -> g2 req 1 key 1 @0x0 [bad end-to-end CRC]"


def test_a_capture_that_cut_frames_leaves_crcs_unchecked(tshark: Tshark) -> None:
    frames = [lsu(LsuOpcode.STORE, 1, 2, n, bytes(256)) for n in (1, 2)]
    for page in tshark.shown(tshark.capture(frames, cut=64)):
        assert page.info.startswith("STORE 256 B g1 -> g2 req ")
        assert page.number("ethlink.link.crc.status") == 2
        assert "ethlink.end_to_end_crc" not in page.fields
        assert page.findings() == []


# --------------------------------------------------------------------------------------- requests and their responses


def test_requests_and_responses_find_each_other(tshark: Tshark) -> None:
    frames = [
        lsu(LsuOpcode.STORE, 1, 2, 7, bytes(8)),  # 1
        lsu(LsuOpcode.LOAD, 2, 1, 7),  # 2: the same number, the other way
        lsu(LsuOpcode.LOAD, 1, 3, 7),  # 3: the same number, another target
        lsu(LsuOpcode.LOAD, 1, 2, 7, oefh={"hops": 7}),  # 4: not the STORE, but of its number
        lsu(LsuOpcode.LOAD_DATA, 1, 2, 7, bytes(8)),  # 5 answers 2
        lsu(LsuOpcode.ACK, 2, 1, 7),  # 6 answers 1
        lsu(LsuOpcode.LOAD_DATA, 3, 1, 8, bytes(8)),  # 7 answers nothing
    ]
    pages = tshark.shown(tshark.capture(frames, seconds=0.25))
    assert pages[0]["ethlink.response_in"] == "6"
    assert (pages[5]["ethlink.response_to"], pages[5]["ethlink.time"]) == ("1", "1.250000000")
    assert pages[1]["ethlink.response_in"] == "5"
    assert (pages[4]["ethlink.response_to"], pages[4]["ethlink.time"]) == ("2", "0.750000000")
    assert "ethlink.response_in" not in pages[2].fields
    assert "ethlink.response_to" not in pages[6].fields


def test_what_is_sent_again_belongs_to_the_first(tshark: Tshark) -> None:
    store, ack = lsu(LsuOpcode.STORE, 1, 2, 7, bytes(8)), lsu(LsuOpcode.ACK, 2, 1, 7)
    pages = tshark.shown(tshark.capture([store, store, ack, ack], seconds=0.25))
    assert pages[1]["ethlink.repeats"] == "1"
    assert pages[1].findings() == ["repeats"]
    assert [page["ethlink.response_in"] for page in pages[:2]] == ["3", "3"]
    assert [page["ethlink.time"] for page in pages[2:]] == ["0.500000000", "0.750000000"]
    assert pages[3]["ethlink.repeats"] == "3"
    restarted = [with_incarnation(whole) for whole in (store, ack)]
    pages = tshark.dissect(store, ack, *restarted)
    assert pages[3]["ethlink.response_to"] == "3"
    assert "repeats" not in pages[2].findings()


def test_replays_of_the_link_are_linked_to_what_they_repeat(tshark: Tshark) -> None:
    def numbered(request: int, seq: int, flags: int = 2, session: int = 0x1234) -> bytes:
        return frame(Kind.DATA, lsu(LsuOpcode.LOAD, 1, 2, request)[12:], flags=flags, seq=seq, session=session)

    other_way = managed(Kind.DATA, lsu(LsuOpcode.LOAD_DATA, 2, 1, 4, bytes(8))[12:], flags=2, seq=6)
    pages = tshark.dissect(
        numbered(3, 5), numbered(4, 6), other_way, managed(Kind.LLR_NACK, bytes(LlrControl()), ack=4),
        numbered(3, 5, flags=6), numbered(4, 6, flags=6), numbered(4, 6, flags=6), numbered(9, 9, flags=6),
        numbered(3, 5, flags=6, session=0x4321),
    )  # fmt: skip
    of, by = "ethlink.link.replay_of", "ethlink.link.replayed_in"
    assert [page.fields.get(of) for page in pages] == [None] * 4 + [["1"], ["2"], ["2"], None, None]
    assert [page.fields.get(by) for page in pages] == [["5"], ["6"]] + [None] * 7
    assert [("replay" in page.findings(), "llr_nack" in page.findings()) for page in pages] == [
        (False, False), (False, False), (False, False), (False, True), *[(True, False)] * 5,
    ]  # fmt: skip
    assert pages[3].info == "LLR_NACK [ack 4]"
    assert "The receiver asks for what follows 4" in pages[3].texts()
    assert all(page.info.endswith("ack 0 replay]") for page in pages[4:])


def with_incarnation(whole: bytes) -> bytes:
    """Return an LSU frame of the source's next start."""
    packet = Link(whole)
    packet[LSU].incarnation += 1
    packet[LSU].crc = packet.crc = None
    return bytes(packet)


def test_messages_bring_ups_and_probes_are_linked(tshark: Tshark) -> None:
    probe: dict[str, Any] = {"src": 1, "dst": 0xF01}
    answer: dict[str, Any] = {"src": 0xF01, "dst": 1}
    credits = bytes(Link() / OEFH(next=Next.PROBE, **answer) / Probe(op=3, port=4)) + layouts.PROBE_CREDITS.pack()
    frames = [
        tma(TmaOpcode.WRITE, 1, 2, 9, bytes(2048), total=4096),  # 1
        tma(TmaOpcode.WRITE, 1, 2, 9, bytes(2048), offset=2048, total=4096),  # 2
        tma(TmaOpcode.ACK, 2, 1, 9, offset=2048, total=4096),  # 3
        tma(TmaOpcode.WRITE, 1, 2, 9, bytes(2048), offset=2048, total=4096),  # 4
        tma(TmaOpcode.ACK, 2, 1, 9, offset=4096, total=4096),  # 5
        bytes(Link(kind=Kind.LLR_INIT) / LinkInit(own_epoch=5)),  # 6
        bytes(Link(kind=Kind.LLR_INIT_ECHO) / LinkInit(own_epoch=6, peer_epoch=5)),  # 7
        bytes(Link() / OEFH(next=Next.PROBE, **probe) / Probe(op=2, port=4)),  # 8
        with_link_crc(credits),  # 9
        bytes(Link() / OEFH(next=Next.PROBE, **probe) / Probe(op=2, port=4)),  # 10
        with_link_crc(credits),  # 11
    ]
    retry = bytes(Link() / OEFH(next=Next.PROBE, **answer) / Probe(op=7, port=4)) + layouts.PROBE_RETRY.pack()
    frames += [
        bytes(Link() / OEFH(next=Next.PROBE, **probe) / Probe(op=6, port=4)),  # 12
        with_link_crc(credits),  # 13: not its answer
        with_link_crc(retry),  # 14
    ]
    pages = tshark.dissect(*frames)
    assert (pages[11]["ethlink.response_in"], pages[13]["ethlink.response_to"]) == ("14", "12")
    assert "ethlink.response_to" not in pages[12].fields
    assert (pages[0]["ethlink.response_in"], pages[0]["ethlink.complete_in"]) == ("3", "5")
    assert "ethlink.repeats" not in pages[1].fields
    assert pages[3]["ethlink.repeats"] == "2"
    assert [page["ethlink.response_to"] for page in (pages[2], pages[4])] == ["1", "1"]
    assert (pages[5]["ethlink.response_in"], pages[6]["ethlink.response_to"]) == ("7", "6")
    assert (pages[7]["ethlink.response_in"], pages[8]["ethlink.response_to"]) == ("9", "8")
    assert (pages[9]["ethlink.response_in"], pages[10]["ethlink.response_to"]) == ("11", "10")


def test_blocks_are_linked_to_the_read_that_asked_for_them(tshark: Tshark) -> None:
    def data(block: int) -> bytes:
        return tma(TmaOpcode.READ_DATA, 2, 1, 9, bytes(2048), offset=2048 * block, total=16384)

    frames = [
        tma(TmaOpcode.READ, 1, 2, 9, b"\xc0", total=16384),  # 1 asks for blocks 0, 1, 2
        data(1),  # 2
        tma(TmaOpcode.READ, 1, 2, 9, b"\x40", offset=0, total=16384),  # 3 asks again for 0 and 2
        data(0),  # 4
        data(2),  # 5
        data(5),  # 6: nobody asked
        tma(TmaOpcode.READ, 1, 2, 9, offset=6144, total=16384),  # 7
        tma(TmaOpcode.NAK, 2, 1, 9, b"\x05", offset=6144, total=16384),  # 8
        tma(TmaOpcode.WRITE, 1, 2, 10, bytes(8), total=8),  # 9
        tma(TmaOpcode.NAK, 2, 1, 10, b"\x05", total=8),  # 10
    ]
    pages = tshark.dissect(*frames)
    asked = [page.fields.get("ethlink.response_to", ["-"])[0] for page in pages]
    assert asked == ["-", "1", "-", "3", "3", "-", "-", "7", "-", "9"]
    answered = [page.fields.get("ethlink.response_in", ["-"])[0] for page in pages]
    assert answered == ["2", "-", "4", "-", "-", "-", "8", "-", "10", "-"]
    assert pages[8]["ethlink.complete_in"] == "10"
    assert "nak" in pages[7].findings()
    assert pages[7].number("ethlink.tma.reason") == LsuStatus.BAD_KEY


# -------------------------------------------------------------------------------------------------- malformed frames

STORE: Final = lsu(LsuOpcode.STORE, 1, 2, 1, bytes(8))
WRITE: Final = tma(TmaOpcode.WRITE, 1, 2, 1, bytes(100), total=100)
UPDATE: Final = managed(Kind.CF_UPDATE, bytes(CreditUpdate()))
EVENT: Final = bytes(Link() / OEFH(next=Next.EVENT, vc=7, src=0xF01, dst=1) / Event(subject=3))


def data(next: int, rest: bytes, **forwarding: int) -> bytes:
    """Return a DATA frame with any OEFH and rest."""
    return open_frame(
        oefh(vc=forwarding.pop("vc", 0), dst=forwarding.pop("dst", 2), src=1, next=next, **forwarding) + rest
    )


MALFORMED: Final = {
    "cut in the LSU header": (with_link_crc(STORE[:30]), "truncated", "ends in Load/store (LSU): 12 of 18 bytes"),
    "cut in the OEFH": (with_link_crc(STORE[:15]), "truncated", "ends in Forwarding header (OEFH): 3 of 6 bytes"),
    "cut in the data": (with_link_crc(STORE[:-6]), "truncated", "6 bytes of data and CRC, should be 12"),
    "cut in the TMA data": (with_link_crc(WRITE[:-90]), "truncated", "14 bytes of data and CRC, should be 104"),
    "cut in the credits": (with_link_crc(UPDATE[:-1]), "truncated", "The frame ends in CF_UPDATE: 29 of 30 bytes"),
    "cut in the event": (with_link_crc(EVENT[:-1]), "truncated", "The frame ends in Event: 13 of 14 bytes"),
    "longer than it says": (with_link_crc(STORE + b"\0\0\0"), "overlong", "3 bytes after the end"),
    "longer control frame": (with_link_crc(UPDATE + b"\0"), "overlong", "1 bytes after the end"),
    "odd byte 0": (with_link_crc(flipped(STORE, 0, 0x01)), "odd_byte_0", "The lowest bit of byte 0 is set"),
    "high byte 12": (with_link_crc(flipped(STORE, 12, 0x80)), "high_byte_12", "Byte 12 is above 0x7F"),
    "unknown kind": (with_link_crc(flipped(STORE, 0, 0x90)), "unknown", "Unknown kind 8"),
    "unknown version": (with_link_crc(flipped(STORE, 12, 0x40)), "unknown", "Unknown version 1"),
    "unknown next": (data(9, bytes(30)), "unknown", "Unknown next 9"),
    "unknown LSU opcode": (with_link_crc(flipped(STORE, 18, 0x40)), "unknown", "Unknown opcode 6"),
    "unknown TMA opcode": (with_link_crc(flipped(WRITE, 18, 0x80)), "unknown", "Unknown opcode 9"),
    "unknown event": (with_link_crc(flipped(EVENT, 18, 0x40)), "unknown", "Unknown event 65"),
    "unknown version of LLR_INIT": (
        bytes(Link(kind=Kind.LLR_INIT) / LinkInit(version=9, own_epoch=1)), "unknown", "Unknown version 9",
    ),
    "no epoch": (bytes(Link(kind=Kind.LLR_INIT) / LinkInit()), "bad_value", "An epoch is never 0"),
    "atomic of 16 bytes": (lsu(LsuOpcode.ATOMIC_ADD, 1, 2, 1, bytes(16)), "bad_value", "An atomic is of 8 bytes"),
    "for nobody": (lsu(LsuOpcode.LOAD, 1, 0xFFF, 1), "bad_value", "Nobody has this id"),
    "data in VC 7": (data(1, STORE[18:], vc=7), "bad_value", "VC 7 is for EVENT and PROBE"),
    "beyond its message": (tma(TmaOpcode.WRITE, 1, 2, 1, bytes(9), total=8), "bad_value", "up to 9 of a message of 8"),
    "event of a GPU": (
        bytes(Link() / OEFH(next=Next.EVENT, src=3, dst=1) / Event(subject=3)), "forged_event", "g3, which is no",
    ),
    "refused": (lsu(LsuOpcode.NAK, 2, 1, 1, status=LsuStatus.MISALIGNED), "nak", "Refused: NAK MISALIGNED"),
    "congested": (lsu(LsuOpcode.LOAD, 1, 2, 1, oefh={"ecn": 3}), "congestion", "Congestion experienced"),
}  # fmt: skip


def test_malformed_frames_are_flagged(tshark: Tshark) -> None:
    pages = tshark.dissect(*[whole for whole, _, _ in MALFORMED.values()])
    for page, (name, (_, finding, text)) in zip(pages, MALFORMED.items(), strict=True):
        assert page.protocol == "EthLink", name
        assert finding in page.findings(), name
        assert any(text in said for said in page.texts()), (name, page.texts())


def test_no_bytes_make_the_dissector_fail(tshark: Tshark) -> None:
    """Frames cut anywhere, damaged, and at random, all taken for EthLink: no error in Lua, every frame shown."""
    random_source = random.Random(4)
    sound = [bytes.fromhex(vector["hex"]) for vector in VECTORS["frames"] + VECTORS["internal_frames"]]
    sound += [filled(layout, random_source)[0][:600] for layout in LAYOUTS]
    frames = [whole[:cut] for whole in sound for cut in range(1, min(len(whole), 90))]
    for whole in sound * 20:
        damaged = bytearray(whole)
        for _ in range(random_source.randint(1, 4)):
            damaged[random_source.randrange(len(damaged))] = random_source.randrange(256)
        frames += [bytes(damaged), with_link_crc(bytes(damaged))] if len(damaged) >= 12 else []
    frames += [random_source.randbytes(random_source.randint(1, 100)) for _ in range(300)]
    frames.append(random_source.randbytes(MAX_FRAME + 100))
    text = tshark.run(tshark.capture(frames), "-o", "ethlink.recognise:All", "-V")
    assert text.count("\nEthLink") == len(frames)


# -------------------------------------------------------------------------------------------------- what is EthLink

ARP: Final = bytes.fromhex("ffffffffffff525400123456 0806 0001080006040001 525400123456 0a000001 000000000000 0a000002")
IP: Final = bytes.fromhex("52540012345a 525400123456 0800 4500001c000040004011 26cf 0a0000010a000002 0035003500080000")


def protocols(pages: list[Shown]) -> list[str]:
    return [page.protocol for page in pages]


def test_ethernet_stays_ethernet(tshark: Tshark) -> None:
    sound = lsu(LsuOpcode.LOAD, 1, 2, 1)
    pages = tshark.dissect(ARP, IP, sound, ARP)
    assert protocols(pages) == ["ARP", pages[1].protocol, "EthLink", "ARP"]
    assert pages[1]["ip.src"] == "10.0.0.1"
    assert pages[0]["eth.src"] == "52:54:00:12:34:56"
    assert "eth.src" not in pages[2].fields


def test_a_frame_with_a_bad_crc_needs_ethlink_before_it(tshark: Tshark) -> None:
    sound, damaged = lsu(LsuOpcode.LOAD, 1, 2, 1), flipped(lsu(LsuOpcode.LOAD, 1, 2, 1), 30)
    alone = tshark.dissect(damaged, damaged)
    assert [page.protocol == "EthLink" for page in alone] == [False, False]
    assert protocols(tshark.dissect(sound, damaged)) == ["EthLink", "EthLink"]
    proved = ("-o", "ethlink.recognise:Only those whose CRC is right")
    assert [page.protocol == "EthLink" for page in tshark.dissect(sound, damaged, options=proved)] == [True, False]
    assert protocols(tshark.dissect(damaged, options=("-o", "ethlink.recognise:All"))) == ["EthLink"]
    none = tshark.dissect(sound, options=("-o", "ethlink.recognise:None"))
    assert protocols(none) != ["EthLink"]
    assert none[0]["eth.dst"] == "10:00:00:00:00:00"


def test_display_filters(tshark: Tshark) -> None:
    """The filters of docs/wireshark.md that tell one frame from another."""
    capture = tshark.capture([STORE, EVENT, UPDATE, flipped(STORE, 30)])

    def numbers(display: str) -> list[str]:
        return tshark.run(capture, "-Y", display, "-T", "fields", "-e", "frame.number").split()

    assert numbers('ethlink.lsu.opcode == "STORE"') == ["1", "4"]
    assert numbers("ethlink.event.subject == 3") == ["2"]
    assert numbers("ethlink.link.crc.status == 0") == ["4"]
    assert numbers("ethlink.expert.bad_crc") == ["4"]
    assert numbers("ethlink.credit_update.credits.vc0 >= 0") == ["3"]


def test_pcapng_and_other_link_types(tshark: Tshark, tmp_path: Path) -> None:
    """A capture whose link type is not Ethernet is left alone."""
    raw = tmp_path / "raw.pcap"
    raw.write_bytes(
        struct.pack("<IHHIIIIIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101, 0, 0, len(STORE), len(STORE)) + STORE
    )
    assert protocols(tshark.shown(raw)) != ["EthLink"]
