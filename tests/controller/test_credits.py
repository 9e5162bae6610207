"""Credits as the controller reads them: from registers, from a probe's answer, through its files, as tables."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from rich.console import Console

from codec.constants import Kind, LinkState, Next, ProbeOp, Vc
from codec.fabric import SwitchNode, SwitchPort
from codec.frames import frame, oefh
from codec.layouts import LINK, OEFH, PROBE, PROBE_CREDITS
from codec.scapy_layers import Link
from controller.credits import (
    LANE_REGISTERS,
    LINK_COUNTERS,
    PortCredits,
    parse_answer,
    probe,
    split_lanes,
)
from controller.links import lanes
from controller.probing import NoAnswers, ProbeFiles
from controller.reader import PortCounters
from controller.retries import RETRY_REGISTERS
from controller.watch import tables

LIMITS = (128, 64, 0, 0, 0, 0, 0, 0)
ZEROS = (0,) * 8


def some(port: int = 3, **changes: object) -> PortCredits:
    values = dict.fromkeys(LANE_REGISTERS, ZEROS) | {
        "sender_credit_limit": LIMITS,
        "sender_credits_consumed": (5, 2, 0, 0, 0, 0, 0, 0),
        "sender_credits_freed": ((1 << 20) - 10, 2, 0, 0, 0, 0, 0, 0),
        "receiver_credits_consumed": (40, 7, 0, 0, 0, 0, 0, 0),
        "receiver_credits_freed": (8, 7, 0, 0, 0, 0, 0, 0),
    }
    fields = {
        "port": port,
        "state": LinkState.READY,
        "own_epoch": 1,
        "peer_epoch": 2,
        "session": 3,
        **values,
        **changes,
    }
    return PortCredits(**fields)  # type: ignore[arg-type]


def test_used_is_the_cyclic_difference() -> None:
    port = some()
    assert port.sender_credits_used[:3] == (15, 0, 0)
    assert port.receiver_credits_used[:3] == (32, 0, 0)


def test_lanes_split_as_the_controller_joins_them() -> None:
    values = (1, 2, 3, 4, 5, 6, 7, 0xFFFFF)
    assert split_lanes(lanes(values)) == values


@pytest.mark.parametrize(
    ("own_epoch", "session", "sender_session", "state"),
    [(0, 0, 0, LinkState.DOWN), (9, 0, 0, LinkState.INIT), (9, 7, 0, LinkState.UP), (9, 7, 7, LinkState.READY)],
)
def test_the_state_follows_from_the_registers(
    own_epoch: int, session: int, sender_session: int, state: LinkState
) -> None:
    registers = {name: lanes(LIMITS) for name in LANE_REGISTERS}
    registers |= {"own_epoch": own_epoch, "peer_epoch": 4, "session": session, "sender_session": sender_session}
    registers |= dict.fromkeys(RETRY_REGISTERS, 0)
    port = PortCredits.from_registers(5, registers)
    assert (port.port, port.state, port.peer_epoch, port.session) == (5, state, 4, session)
    assert port.held_frames == port.sender_credit_limit == LIMITS


def test_a_probe_asks_on_the_control_channel() -> None:
    parsed = Link(probe(5, 0xF01, 1))
    assert (parsed["OEFH"].vc, parsed["OEFH"].dst, parsed["OEFH"].src) == (Vc.CONTROL, 0xF01, 1)
    assert (parsed["Probe"].op, parsed["Probe"].port) == (ProbeOp.READ_CREDITS, 5)


def answer(op: int = ProbeOp.CREDITS, state: int = 3) -> bytes:
    port = some()
    values = {name: getattr(port, name) for name in LANE_REGISTERS}
    body = PROBE_CREDITS.pack(own_epoch=1, peer_epoch=2, session=3, **values)
    header = oefh(vc=7, dst=0xF01, src=1, next=int(Next.PROBE))
    return frame(Kind.DATA, header + PROBE.pack(op=op, state=state, port=3) + body)


def test_the_answer_to_a_probe_says_the_same_as_registers() -> None:
    assert parse_answer(answer()) == some()


@pytest.mark.parametrize("data", [b"", answer()[: LINK.size + OEFH.size + PROBE.size], answer(op=2), answer(state=4)])
def test_what_is_no_answer_is_none(data: bytes) -> None:
    assert parse_answer(data) is None


def test_credits_survive_json() -> None:
    port = some()
    assert PortCredits.from_json(json.loads(json.dumps(port.to_json()))) == port


def test_who_looks_asks_by_a_file_and_gets_what_is_fresh(tmp_path: Path) -> None:
    files = ProbeFiles(tmp_path)
    assert not files.wanted()
    files.publish({"s1": {3: some()}})
    assert files.read() == {"s1": {3: some()}}
    assert files.wanted()
    past = time.time() - 60
    os.utime(tmp_path / "probes.wanted", (past, past))
    os.utime(tmp_path / "probes.json", (past, past))
    assert not files.wanted()
    with pytest.raises(NoAnswers, match="answered nothing"):
        files.read(wait_s=0.1)
    (tmp_path / "probes.json").write_text('{"s1": 3}')
    with pytest.raises(NoAnswers, match="not what this version writes"):
        files.read()


def shown(view: dict[str, tuple[SwitchNode, dict[int, PortCredits], dict[int, PortCounters]]], width: int = 220) -> str:
    console = Console(width=width, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(tables(view, width))
    return console.export_text()


def test_the_table_has_a_row_per_channel_in_use() -> None:
    node = SwitchNode(0xF01, "s1", ports=(SwitchPort(3, "s1-eth3", "endpoint", "g3", "managed"),))
    counters = {3: PortCounters(link={"cbfc_num_cf_update_messages_tx": 1234, "link_ups": 2})}
    text = shown({"s1": (node, {3: some()}, counters)})
    rows = [line.split() for line in text.splitlines() if line.split()[:2] == ["s1", "3"]]
    assert rows[0] == ["s1", "3", "g3", "0", "128", "15", "5", "1048566", "0", "32", "40", "8", "0"]
    assert rows[1][3] == "1"
    assert rows[2][:5] == ["s1", "3", "g3", "ready", "1234"]


def test_the_table_fits_a_terminal_of_80_columns() -> None:
    node = SwitchNode(0xF01, "leaf1", ports=(SwitchPort(31, "leaf1-eth31", "endpoint", "g31", "managed"),))
    counters = {31: PortCounters(link=dict.fromkeys(LINK_COUNTERS, 99_999))}
    full = some(31, receiver_credits_consumed=((1 << 20) - 1,) * 8)
    text = shown({"leaf1": (node, {31: full}, counters)}, width=80)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_without_managed_links_it_says_how_to_get_them() -> None:
    text = shown({"s1": (SwitchNode(0xF01, "s1"), {}, {})})
    assert "make run LINKS=managed" in text
