"""Faults in the switch's link-layer retry, and the figures of the conformance cases that have to show each of them.

All faults are in one program, of which a register says which one it has: so it is compiled once, and one switch can
have each fault in turn. Once `prepare` has compiled it, `python -m tests.conformance.mutations DIR PART PARTS` tries a
part of the faults; the records of their cases, in DIR/PART/records.jsonl, have the fault's name.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ptf_tests.conformance.run import CASES, ConformanceBench, Options
from ptf_tests.conformance.settings import JOURNAL, QUICK
from ptf_tests.run import compile_program
from topologies.namespace import run_isolated
from topologies.session import Artefacts

HERE: Final = Path(__file__).resolve().parent
REPOSITORY: Final = HERE.parents[1]
REGISTER: Final = "mutation"
"""Of the mutated program: the number of the fault that it has, from 1; 0: none."""
CHOSEN: Final = "ETHLINK_MUTATIONS"
"""Environment: which part of the mutations to try, and of how many parts."""
RECORDS: Final = "records.jsonl"


@dataclass(frozen=True)
class Mutation:
    """A fault, and where it has to show."""

    name: str
    test: str
    """The test that has to fail, as in `ptf_tests.conformance.run`."""
    figures: frozenset[str]
    """The figures of its records that have to fail."""
    may: frozenset[str]
    """Those that fail or not, as it happens; no others do."""
    changes: tuple[tuple[str, str, str], ...]
    """Each a file below p4src, whole statements that stand there once, in any indentation, and what is to be there."""


def _mutation(name: str, test: str, figures: str, *changes: tuple[str, str, str]) -> Mutation:
    """Return a mutation; figures that may fail have a question mark, and files are of p4src/retry if of no folder."""
    shown = [one.strip() for one in figures.split(";")]
    places = tuple((f"{file if '/' in file else f'retry/{file}'}.p4", right, wrong) for file, right, wrong in changes)
    must = frozenset(one for one in shown if not one.endswith("?"))
    return Mutation(name, test, must, frozenset(one[:-1] for one in shown if one.endswith("?")), places)


_KEEPS: Final = "meta.replay = 0; meta.unsent = 0; meta.to_line = 1;"
_NACKS: Final = "llr_receiver_state.write(port, NACK_SENT); meta.reply = MAKE_LLR_NACK;"
_ASKS: Final = f"if (state != NACK_SENT || replay_begins) {{ {_NACKS} meta.clone_seq = expected; }}"
_SETTINGS: Final = "llr_settings.write(port, frames ++ meta.retry_settings[79:0]);"
_FRAMES_TOO: Final = (
    "llr_settings_t other = 0; llr_settings.read(other, port ^ 1); llr_settings.write(port ^ 1, frames ++ other[79:0]);"
)
"""Between ports 2 and 3."""
_FALLS_BEHIND: Final = "if (behind[19:19] == 1) { pointer = oldest; moved = true; }"

MUTATIONS: Final = (
    _mutation(
        "no acknowledgement after 16 frames", "retry.GoodFrames", "llr_tx_ack_ctl_os, port 1",
        ("retry_receiver", "meta.reply = MAKE_LLR_ACK; llr_ack_asked.write(port, expected);", ""),
    ),
    _mutation(
        "sent frames count twice", "retry.GoodFrames", "llr_tx_ok, port 2",
        ("retry_sender", "llr_tx_ok.count(port);", "llr_tx_ok.count(port); llr_tx_ok.count(port);"),
    ),
    _mutation(
        "a NACK is not heeded", "retry.OneFrameLost",
        "llr_tx_replay, port 2; llr_rx_replay of the tester; first frame of the replay; frames_lost",
        ("acknowledgements", "llr_nacks.write(port, nacks + 1);", ""),
    ),
    _mutation(
        "a replayed frame is not marked", "retry.OneFrameLost",
        "llr_rx_replay of the tester; first frame of the replay; llr_tx_replayed, port 2",
        ("retry_sender", "hdr.link.flags = FLAG_LLR | FLAG_REPLAY;", ""),
    ),
    _mutation(
        "each replay counts as two", "retry_flush.NoAcknowledgements",
        "llr_tx_replay, port 2; llr_replay_timeouts, port 2; llr_tx_replayed, port 2; llr_rx_replay of the tester; "
        "whole replays, of just these frames, in order",
        ("delay_line", "llr_replays.write(port, replays + 1);", "llr_replays.write(port, replays + 2);"),
    ),
    _mutation(
        "an ACK that says nothing new is progress", "retry_flush.FrozenAcknowledgements",
        "llr_tx_replay, port 2; llr_replay_timeouts, port 2; llr_tx_replayed, port 2; llr_rx_replay of the tester; "
        "whole replays, of just these frames, in order; llr_flushes, port 2; tx_state, port 2",
        ("acknowledgements", "llr_rx_ack_ctl_os.count(port);",
        "llr_rx_ack_ctl_os.count(port); llr_replays.write(port, 0);"),
    ),
    _mutation(
        "every frame after a gap is asked for", "retry.OneFrameBad",
        "llr_rx_missing_seq, port 1; llr_tx_nack_ctl_os, port 1; llr_rx_nack_ctl_os of the tester; "
        "llr_rx_replay, port 1?; llr_rx_duplicate_seq, port 1?; llr_tx_replay of the tester?",
        ("retry_receiver", _ASKS, _ASKS.replace("llr_receiver_state.write(port, NACK_SENT);", "")),
    ),
    _mutation(
        "a poisoned frame is asked for", "retry.OneFramePoisoned",
        "llr_tx_nack_ctl_os, port 1; llr_rx_replay, port 1; llr_rx_ok, port 1; llr_tx_replay of the tester",
        ("retry_receiver", "llr_rx_expected_seq_poisoned.count(port);",
        "llr_rx_expected_seq_poisoned.count(port); meta.reply = MAKE_LLR_NACK; meta.clone_seq = expected;"),
    ),
    _mutation(
        "the window is one frame too large", "retry_flush.FewOutstanding",
        "outstanding frames, at most; llr_tx_ok, port 2; llr_tx_replayed, port 2; frames_received; "
        "llr_flushed, port 1; whole replays, of just these frames, in order",
        ("send_window", "llr_next_seq.read(next_seq, port);",
        "llr_next_seq.read(next_seq, port); if (next_seq != oldest) { next_seq = next_seq - 1; }"),
    ),
    _mutation(
        "half the window", "retry_flow.LongWay",
        "rate to the receiver, of all with a number; rate to the receiver, of data; outstanding frames",
        ("retry_start", _SETTINGS, _SETTINGS.replace("frames ++", "(frames >> 1) ++")),
    ),
    _mutation(
        "the largest frames are given up", "retry_flow.EverySize",
        "llr_tx_ok, port 2; llr_rx_ok of the tester; frames dropped; frames_lost",
        ("send_window", "answer = WINDOW_OPEN;",
        "if (frame_bytes > 4000) { answer = WINDOW_DISCARDS; } else { answer = WINDOW_OPEN; }"),
    ),
    _mutation(
        "best effort is numbered", "retry_flow.MixedWithoutErrors", "frames without a number",
        ("credits/admission", "meta.best_effort = 1;", "meta.numbered = 1;"),
    ),
    _mutation(
        "what is missing is never asked for", "retry_flow.MixedWithErrors",
        "llr_tx_nack_ctl_os, port 1; frames lost, with retry?",
        ("replies", "meta.clone_make = meta.reply;",
        "meta.clone_make = meta.reply == MAKE_LLR_NACK ? MAKE_LLR_ACK : meta.reply;"),
    ),
    _mutation(
        "0 is left out when numbers wrap", "retry_rules.Wrap",
        "llr_rx_expected_seq_good, port 1; llr_rx_expected_seq_good, port 2; llr_rx_duplicate_seq, port 1; "
        "llr_rx_duplicate_seq, port 2; frames_lost; llr_tx_ok, port 1; llr_tx_ok, port 2; next_seq, port 1; "
        "next_seq, port 2",
        ("retry_receiver", "expected = expected + 1;", "expected = (expected == 0xFFFFF ? 20w1 : expected + 1);"),
    ),
    _mutation(
        "a replayed frame is not kept", "retry_rules.KeptUntilAcknowledged",
        "second replay: the rest, in order; llr_tx_replay, port 2; llr_tx_replayed, port 2",
        ("retry_sender", _KEEPS,
        "if (meta.replay == 1 && meta.unsent == 0) { meta.to_line = 0; } else { meta.to_line = 1; } meta.replay = 0;"
        " meta.unsent = 0;"),
    ),
    _mutation(
        "frames after a gap are acknowledged", "retry_rules.NoAckAfterNack", "LLR_ACKs in the gap",
        ("retry_receiver", _ASKS, f"{_ASKS} else {{ meta.reply = MAKE_LLR_ACK; }}"),
        ("link/control_frames", "llr_receiver_state.read(state, port);", ""),
    ),
    _mutation(
        "keepalives do not ask for a missing frame", "retry_rules.NoAckAfterNack",
        "NACKs in the gap: the first, then by keepalives; LLR_ACKs after the gap; rx_state, port 1; frames_lost",
        ("retry_watch", _NACKS, ""),
    ),
    _mutation(
        "a duplicate is delivered", "retry_rules.Duplicates",
        "llr_rx_duplicate_seq, port 1; frames dropped; frames_repeated",
        ("retry_receiver", "meta.verdict = REASON_LLR_RX_DUPLICATE_SEQ;", ""),
    ),
    _mutation(
        "the replay timer is early", "retry_rules.ReplayTimer",
        "shortest interval, with what the one before was too long",
        ("delay_line", _FALLS_BEHIND, f"waited = waited + 50000; {_FALLS_BEHIND}"),
    ),
    _mutation(
        "the replay timer is late", "retry_rules.ReplayTimer",
        "longest interval, less what the switch then waited for a processor",
        ("delay_line", _FALLS_BEHIND,
        f"if (waited > 100000) {{ waited = waited - 100000; }} else {{ waited = 0; }} {_FALLS_BEHIND}"),
    ),
    _mutation(
        "losses are left to the timer", "retry_flow.TwoPercentLost",
        "rate of the source; rate to the receiver; frames_lost?",
        ("acknowledgements", "llr_nacks.write(port, nacks + 1);", ""),
    ),
    _mutation(
        "bytes of a profile are not looked at", "retry_rules.InvalidProfiles",
        "link up; bad_retry_profile, port 2; tx_state, port 2; rx_state, port 2",
        ("retry_profiles",
        "if (frames == 0 || frames > OUTSTANDING_FRAMES_MOST || bytes == 0 || bytes > OUTSTANDING_BYTES_MOST) {"
        " meta.verdict = REASON_BAD_RETRY_PROFILE; }",
        "if (frames == 0 || frames > OUTSTANDING_FRAMES_MOST) { meta.verdict = REASON_BAD_RETRY_PROFILE; }"),
    ),
    _mutation(
        "two ports have the same settings", "retry_rules.PortsApart", "outstanding_frames_max, port 3; rate of port 3?",
        ("retry_start", _SETTINGS, _SETTINGS + _FRAMES_TOO),
    ),
    # The last one, as it leaves frames that wait for the link.
    _mutation(
        "a link that has given up stays so", "retry_flush.ComesBack",
        "link_ups, port 2; llr_tx_init_ctl_os, sent; another session; tx_state, port 2; frames_lost",
        ("retry_watch", "if (re_init_of(settings)) { meta.redraw = 1; }", ""),
    ),
)  # fmt: skip


def chosen() -> list[tuple[int, Mutation]]:
    """Return the mutations that this process is to try, with their numbers."""
    part, parts = map(int, os.environ[CHOSEN].split())
    return list(enumerate(MUTATIONS, 1))[part::parts]


def mutated_program(folder: Path) -> Path:
    """Write the program with all faults below `folder` and return its file.

    Raises ValueError for a mutation whose statements do not stand once in its file.
    """
    source = folder / "p4src"
    shutil.copytree(REPOSITORY / "p4src", source)
    places: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    for number, one in enumerate(MUTATIONS, 1):
        for file, right, wrong in one.changes:
            places[file, right].append((number, wrong))
    for (file, right), there in places.items():
        text = (source / file).read_text()
        begin, end = _find(text, right, file)
        choice = f"{{ {text[begin:end]} }}"
        for number, wrong in there:
            choice = f"if (has_fault == {number}) {{ {wrong} }} else {choice}"
        choice = f"{{ bit<8> has_fault = 0; {REGISTER}.read(has_fault, 0); {choice} }}"
        (source / file).write_text(text[:begin] + choice + text[end:])
    registers = source / "registers.p4"
    text = registers.read_text()
    at = text.rindex("#endif")
    registers.write_text(f"{text[:at]}register<bit<8>>(1) {REGISTER};\n\n{text[at:]}")
    return source / "ethlink.p4"


def _find(text: str, statements: str, file: str) -> tuple[int, int]:
    """Return where statements stand in a text, which may have other white space between words."""
    found = [match.span() for match in re.finditer(r"\s+".join(map(re.escape, statements.split())), text)]
    if len(found) != 1:
        raise ValueError(f"p4src/{file} has {len(found)} times, not once: {statements}")
    return found[0]


def prepare(folder: Path) -> None:
    """Compile the program with all faults into `folder`."""
    options = _options(folder)
    options.run_dir.mkdir()
    mutated_program(folder)
    compile_program(options.packet_tests(CASES))


def _options(folder: Path) -> Options:
    return Options("p4switch", program=folder / "p4src" / "ethlink.p4", output=folder)


def try_part(folder: Path, part: int, parts: int) -> int:
    """Try every so-many-th mutation on a switch of its own; return the exit status: 0 if all were tried."""
    options = _options(folder)
    compiled = options.run_dir
    artefacts = Artefacts(compiled / "ethlink.p4info.txtpb", compiled / "ethlink.p4bin")
    options = replace(options, output=folder / str(part))
    options.run_dir.mkdir(parents=True)
    os.environ |= {JOURNAL: str(options.output / RECORDS), QUICK: "1", CHOSEN: f"{part} {parts}"}

    def body() -> int:
        with ConformanceBench(options, artefacts) as bench:
            result = bench.ptf(HERE / "mutated", ["all"])
            if result.ran == len(chosen()) and bench.running():
                return 0
            print(result.report, file=sys.stderr)
            return 2

    return run_isolated(body)


if __name__ == "__main__":
    sys.exit(try_part(Path(sys.argv[1]).absolute(), int(sys.argv[2]), int(sys.argv[3])))
