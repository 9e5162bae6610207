"""Link-layer retry as the controller reads it: from registers, from probes' answers, and in the table."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest
from rich.console import Console

from codec.constants import Kind, ProbeOp
from codec.fabric import SwitchNode, SwitchPort
from codec.frames import frame, oefh
from codec.layouts import LINK, OEFH, PROBE, PROBE_RETRY
from controller.credits import PortCredits
from controller.reader import PortCounters
from controller.retries import RETRY_REGISTERS, PortRetry, ReceiveState, TransmitState, parse_answer, probe
from controller.watch import tables
from tests.controller.test_credits import some

RETRY = PortRetry(TransmitState.REPLAY, ReceiveState.NACK_SENT, 32, 2, 3, (1 << 20) - 5, 1, 4000, 77)


def registers(**changed: int) -> dict[str, int]:
    """Return the registers of a port for which `RETRY` holds, but for some."""
    values = {
        "link_format": 1 << 24 | 0x030A00, "llr_settings": 32 << 80 | 131072 << 48, "llr_next_seq": 3,
        "llr_unacknowledged_seq": (1 << 20) - 5, "llr_bytes_numbered": 1000, "llr_bytes_acknowledged": (1 << 32) - 3000,
        "llr_replaying": 1, "llr_replay_seq": 1, "llr_replays": 2, "llr_line_session": 9, "llr_flushed_session": 0,
        "llr_expected_seq": 77, "llr_receiver_state": 2,
    }  # fmt: skip
    assert set(values) == set(RETRY_REGISTERS)
    return {**values, **changed}


@pytest.mark.parametrize(
    ("session", "changed", "states"),
    [
        (9, {}, (TransmitState.REPLAY, ReceiveState.NACK_SENT)),
        (9, {"llr_replaying": 0}, (TransmitState.ADVANCE, ReceiveState.NACK_SENT)),
        (9, {"llr_line_session": 8}, (TransmitState.ADVANCE, ReceiveState.NACK_SENT)),
        (9, {"llr_next_seq": (1 << 20) - 5}, (TransmitState.ADVANCE, ReceiveState.NACK_SENT)),
        (9, {"llr_flushed_session": 9}, (TransmitState.FLUSH, ReceiveState.NACK_SENT)),
        (9, {"llr_receiver_state": 0, "llr_replaying": 0}, (TransmitState.ADVANCE, ReceiveState.SEND_ACKS)),
        (9, {"link_format": 0x030A00}, (TransmitState.OFF, ReceiveState.OFF)),
        (0, {}, (TransmitState.INIT, ReceiveState.OFF)),
    ],
)
def test_states_from_registers(session: int, changed: dict[str, int], states: tuple[int, int]) -> None:
    got = PortRetry.from_registers(1, session, registers(**changed))
    assert (got.tx_state, got.rx_state) == states


def test_registers_and_probes_tell_the_same() -> None:
    assert PortRetry.from_registers(1, 9, registers()) == RETRY
    assert RETRY.outstanding_frames == 8
    asked = probe(4, 0xF01, 1)
    assert PROBE.unpack(asked[LINK.size + OEFH.size :])["op"] == ProbeOp.READ_RETRY
    body = PROBE.pack(op=ProbeOp.RETRY, port=4) + PROBE_RETRY.pack(
        tx_state=3, rx_state=3, session=9, outstanding_frames_max=32, replays=2, next_seq=3,
        unacknowledged_seq=(1 << 20) - 5, replay_seq=1, outstanding_bytes=4000, expected_seq=77,
    )  # fmt: skip
    answer = frame(Kind.DATA, oefh(vc=7, dst=1, src=0xF01, next=4) + body)
    assert parse_answer(answer) == (4, RETRY)
    assert parse_answer(answer[:-1]) is None
    assert parse_answer(asked) is None
    strange = bytearray(answer)
    strange[LINK.size + OEFH.size + PROBE.size] = 9
    assert parse_answer(bytes(strange)) is None


def test_it_survives_json() -> None:
    port = replace(some(), retry=RETRY)
    assert PortCredits.from_json(json.loads(json.dumps(port.to_json()))) == port


@pytest.mark.parametrize("width", [80, 250])
def test_the_table_shows_states_and_counters(width: int) -> None:
    node = SwitchNode(0xF01, "s1", ports=(SwitchPort(3, "s1-eth3", "endpoint", "g3", "managed"),))
    counters = {3: PortCounters(link={"llr_tx_ok": 54321, "llr_tx_replay": 6})}
    console = Console(width=width, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(tables({"s1": (node, {3: replace(some(), retry=RETRY)}, counters)}, width))
    text = console.export_text()
    shown = [line.split() for line in text.split("link-layer retry")[1].splitlines() if line.split()[:2] == ["s1", "3"]]
    assert shown[0][3:9] == ["replay", "nack", "8/32", "3", "54321", "6"]
    assert max(map(len, text.splitlines())) <= width
    console.print(tables({"s1": (node, {3: some()}, counters)}, width))
    assert "link-layer retry" not in console.export_text()
