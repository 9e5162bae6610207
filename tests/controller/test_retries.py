"""Link-layer retry as the controller reads it: from registers, from probes' answers, and in the table."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from codec.constants import Kind, ProbeOp
from codec.fabric import SwitchNode, SwitchPort
from codec.frames import frame, oefh
from codec.layouts import LINK, OEFH, PROBE, PROBE_RETRY
from codec.profile import LinkProfile
from controller.credits import LINK_COUNTERS, PortCredits
from controller.entries import entry
from controller.reader import PortCounters
from controller.retries import (
    RETRY_REGISTERS,
    PortRetry,
    ReceiveState,
    RetryProfile,
    TransmitState,
    parse_answer,
    probe,
)
from controller.retry_view import OWN_COUNTERS, SAI_COUNTERS, retry_tables
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


# ------------------------------------------------------------------------------------------------------- all of it


SAI = (
    "outstanding_frames_max", "outstanding_bytes_max", "replay_timer_max", "replay_count_max",
    "pcs_lost_timeout", "data_age_timeout", "init_frame_action", "flush_frame_action", "re_init_on_flush",
    "ctlos_target_spacing", "llr_tx_init_ctl_os", "llr_tx_init_echo_ctl_os", "llr_tx_ack_ctl_os",
    "llr_tx_nack_ctl_os", "llr_rx_init_ctl_os", "llr_rx_init_echo_ctl_os", "llr_rx_ack_ctl_os",
    "llr_rx_nack_ctl_os", "llr_tx_discard", "llr_tx_ok", "llr_tx_poisoned", "llr_tx_replay", "llr_rx_ok",
    "llr_rx_poisoned", "llr_rx_bad", "llr_rx_expected_seq_good", "llr_rx_expected_seq_poisoned",
    "llr_rx_expected_seq_bad", "llr_rx_missing_seq", "llr_rx_duplicate_seq", "llr_rx_replay",
    "llr_rx_ack_nack_seq_error",
)  # fmt: skip
"""Attributes and counters of SAI's objects for link-layer retry."""


def panel(ports: int, width: int, told: bool = True) -> list[list[str]]:
    """Return the words of each line of all that is shown of the retry of so many ports of a switch."""
    node = SwitchNode(0xF01, "leaf1", ports=tuple(
        SwitchPort(n, f"leaf1-eth{n}", "endpoint", f"g{n}", "managed") for n in range(1, ports + 1)
    ))  # fmt: skip
    counters = {
        n: PortCounters(link=dict.fromkeys(LINK_COUNTERS, 10 + n), drops={"llr_rx_duplicate_seq": n})
        for n in range(1, ports + 1)
    }
    credits = {n: replace(some(n), retry=RETRY) for n in range(1, ports + 1)} if told else {}
    profile = RetryProfile(64, 131072, 5000, 100, "block", True, 0)
    console = Console(width=width, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(retry_tables({"leaf1": (node, credits, counters)}, {"leaf1": {1: profile}}, width))
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    return [line.split() for line in text.splitlines()]


def test_all_of_it_has_a_row_per_figure_and_a_column_per_port() -> None:
    lines = panel(2, 80)
    rows = {line[0]: line[1:] for line in lines if (len(line) > 2 and "_" in line[0]) or line[:1] == ["replays"]}
    assert set(SAI) <= set(rows)
    assert lines[1:3] == [["switch", "port", "leaf1", "1", "leaf1", "2"], ["peer", "g1", "g2"]]
    assert rows["tx_state"] == ["replay", "replay"]
    assert rows["rx_state"] == ["nack_sent", "nack_sent"]
    assert rows["outstanding_frames"] == ["8", "8"]
    assert rows["replay_timer_max"] == ["5000", "us", "-"]
    assert (rows["outstanding_bytes_max"], rows["replay_count_max"]) == (["131072", "-"], ["100", "-"])
    assert (rows["flush_frame_action"], rows["re_init_on_flush"]) == (["block", "-"], ["true", "-"])
    assert (rows["init_frame_action"], rows["pcs_lost_timeout"]) == (["block", "-"], ["-", "-"])
    assert rows["llr_rx_expected_seq_poisoned"] == ["11", "12"]
    assert rows["llr_rx_duplicate_seq"] == ["1", "2"]
    assert rows["llr_flushed"] == ["0", "0"]
    assert rows["llr_tx_poisoned"] == ["-", "-"]


@pytest.mark.parametrize(("width", "tables_of_ports"), [(80, [3, 3, 3, 3]), (200, [12])])
def test_ports_that_have_no_room_beside_each_other_get_another_table(width: int, tables_of_ports: list[int]) -> None:
    rows = [line for line in panel(12, width) if line[:1] == ["next_seq"]]
    assert [len(row) - 1 for row in rows] == tables_of_ports


def test_profiles_and_counters_show_while_states_are_not_told() -> None:
    rows = {line[0]: line[1:] for line in panel(1, 80, told=False) if line}
    assert (rows["tx_state"], rows["outstanding_frames_max"], rows["llr_tx_ok"]) == (["-"], ["64"], ["11"])


def test_every_counter_of_link_layer_retry_is_shown() -> None:
    page = (Path(__file__).parents[2] / "docs" / "pipeline.md").read_text()
    counters = re.findall(r"^\| `(llr_\w+|links_degraded|link_losses_\w+)` \| port \|", page, re.MULTILINE)
    drops = re.findall(r"^\| \d+ \| `(llr_\w+|bad_retry_profile)` \|", page, re.MULTILINE)
    assert {*counters, *drops} == {*SAI_COUNTERS, *OWN_COUNTERS} - {"llr_tx_poisoned"}  # a switch never poisons


def test_a_profile_is_what_the_table_has() -> None:
    profile = LinkProfile(llr=True, flush_action="best_effort", re_init_on_flush=False)
    item = entry(
        "llr_profile", {"port": 7}, "set_retry", outstanding_frames_max=profile.outstanding_frames_max,
        outstanding_bytes_max=profile.outstanding_bytes_max, replay_timer=profile.replay_timer_us,
        replay_count_max=profile.replay_count_max, flush_action=2, re_init_on_flush=0, degraded_replays=9,
    )  # fmt: skip
    assert RetryProfile.from_entry(item) == (7, RetryProfile(32, 131_072, 20_000, 100, "best_effort", False, 9))
