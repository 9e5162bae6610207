"""Measure what link-layer retry costs: where it is off, and on a link between two switches where it is on.

Off: the same frames through managed ports of ethlink.p4, and of the same program without the retry controls in its
pipeline; both without retry on the link. On: two switches back to back, a sender before the first one, a counter behind
the second; the link between them with credits only, and with retry and windows of several sizes. The highest rate that
arrives in full is looked for, and at a fixed rate processor time, rounds in the line and the window's occupancy are
taken; then the link loses frames. On BMv2 the same, where it is installed.

Everything happens in a network namespace of its own, also when run alone: `python -m bench.llr`.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import finsy as fy

from bench.credits import Lab
from bench.report import Measurement
from bench.switches import (
    HERE,
    OUTPUT,
    PROGRAM,
    Target,
    cable,
    compile_tool,
    cpu_s,
    in_namespace,
    installed_targets,
    main,
    process_of,
    received,
    write_frame,
)
from codec.fabric import Fabric, GpuNode, GpuPort, SwitchNode, SwitchPort
from codec.profile import LinkProfile
from controller.entities import to_p4
from controller.plan import Plan
from controller.retries import PortRetry, TransmitState, parse_answer, probe
from ptf_tests.links import Profile
from ptf_tests.p4runtime import P4RuntimeClient
from topologies.nodes import FabricSwitch

RETRY_CONTROLS: Final = (
    "acknowledgements", "retry_receiver", "retry_watch", "retry_profiles", "retry_start", "numbering", "replies",
    "retry_probes", "delay_line", "retry_sender",
)  # fmt: skip
"""What is taken out of the pipeline, by the names of its instances in ethlink.p4."""
SIZES: Final = {64: "64 B", 1500: "1,500 B"}
ROUNDS: Final = 5
WINDOWS: Final = (32, 512)
FIXED_RATE: Final = {"p4switch": 5_000, "bmv2": 1_000}
"""Frames per second at which costs are taken: what the target carries with ease."""
FIRST_RATE: Final = 1_000.0
STEP: Final = 1.4
ARRIVES: Final = 0.999
"""Share of the frames that has to arrive for a rate to be one that the link carries."""
SEARCH_S: Final = 0.7
WINDOW_S: Final = 2.0
SAMPLES: Final = 200
SAMPLE_S: Final = 0.005
LOSSES: Final = (1e-3, 1e-2)
SETTLE_S: Final = 0.5
UP_S: Final = 15.0
LINK_PORTS: Final = (2, 1)
"""The ports of the two switches at which the link between them ends."""


def measure() -> Iterator[Measurement]:
    """Yield the figures. Raises RuntimeError when they cannot be taken."""
    yield from in_namespace("llr", timeout_s=900)


# ---------------------------------------------------------------------------------------------------- where it is off


def without_retry(folder: Path) -> Path:
    """Copy the switch program without the retry controls in its pipeline; return its path.

    Raises RuntimeError when one of them is not where it was looked for.
    """
    shutil.copytree(PROGRAM.parent, folder, dirs_exist_ok=True)
    program = folder / "without_retry.p4"
    kept, found = [], set()
    for line in (folder / PROGRAM.name).read_text().splitlines():
        applied = line.strip().partition(".apply(")[0]
        if ".apply(" in line and applied in RETRY_CONTROLS:
            found.add(applied)
        else:
            kept.append(line)
    if missing := set(RETRY_CONTROLS) - found:
        raise RuntimeError(f"{PROGRAM.name} does not apply {', '.join(sorted(missing))}")
    program.write_text("\n".join(kept) + "\n")
    return program


def _cost_of_off(whole: Target, bare: Target, load: Path) -> Iterator[Measurement]:
    own = Profile(lossless_vcs=1, credit_limit=400, update_threshold=100, silence=0)
    wide = Profile(lossless_vcs=1, credit_limit=(1 << 19) - 1, silence=0)
    labs = Lab(whole, load), Lab(bare, load)
    for size, shown in SIZES.items():
        pairs = []
        for turn in range(ROUNDS):
            first, second = labs if turn % 2 == 0 else labs[::-1]  # neither always has the warmer machine
            costs = {lab: lab.rate_and_cost(size, own, wide)[1] for lab in (first, second)}
            pairs.append((costs[labs[0]], costs[labs[1]]))
        ratio = statistics.median(one / other for one, other in pairs)
        spread = ", ".join(f"{one / other:.2f}" for one, other in pairs)
        what = f"{whole.name}, {shown}, processor time per frame, retry off : program without it"
        yield Measurement(what, round(ratio, 3), "x", note=f"rounds {spread}")


# ----------------------------------------------------------------------------------------------------- where it is on


def chain(link: LinkProfile) -> Fabric:
    """Describe two GPUs at open ports of a switch each, and the managed link between the switches."""
    gpus = tuple(GpuNode(n, f"g{n}", ports=(GpuPort(0, f"far{n}", f"s{n}", n),)) for n in (1, 2))
    ends = [
        SwitchPort(port, f"s{n}-eth{port}", "fabric", f"s{3 - n}", "managed", LINK_PORTS[2 - n], "link")
        for n, port in enumerate(LINK_PORTS, 1)
    ]
    switches = tuple(
        SwitchNode(
            0xF00 + n, f"s{n}", device_id=n,
            ports=(SwitchPort(n, f"s{n}-eth{n}", "endpoint", f"g{n}"), ends[n - 1]),
        )
        for n in (1, 2)
    )  # fmt: skip
    return Fabric("chain", gpus, switches, profiles={"default": LinkProfile(), "link": link})


def install(client: P4RuntimeClient, plan: Plan) -> None:
    """Write what the controller would install on a switch."""
    schema = fy.P4Schema(client.names.p4info)
    for kind, items in (
        ("INSERT", plan.sessions),
        ("INSERT", [to_p4(item) for item in plan.entries]),
        ("MODIFY", plan.meters),
        ("INSERT", plan.groups),
    ):
        client.write(kind, [item.encode(schema) for item in items])


@dataclass
class End:
    """One of the two switches."""

    switch: FabricSwitch
    client: P4RuntimeClient
    node: SwitchNode
    port: int

    def retry(self) -> PortRetry:
        """Ask for the retry of the link's port."""
        self.client.packet_out(probe(self.port, self.node.id, 1), 0)
        got = self.client.packet_in()
        answer = parse_answer(got.payload) if got is not None else None
        if answer is None:
            raise RuntimeError(f"{self.switch.name} does not answer a probe")
        return answer[1]

    def count(self, counter: str) -> int:
        """Read a counter of the link's port."""
        return self.client.counts([(counter, self.port)])[counter, self.port].packets

    def lose(self, probability: float) -> None:
        """Lose so many of the frames that leave on the link, data and control."""
        faults = [
            self.client.names.entry(
                "link_fault", {"egress_port": self.port, "control": control}, "drop_frames",
                probability=int(probability * 2**32), frames=0, run=1,
            )
            for control in (0, 1)
        ]  # fmt: skip
        self.client.write("INSERT", faults)


@dataclass
class Chain:
    """Two switches back to back whose link is up."""

    load: Path
    ends: tuple[End, End]

    def arrived(self, size: int, rate: int, seconds: float) -> tuple[int, int]:
        """Offer frames at a rate; return how many were sent, and how many arrived once all was quiet."""
        before = received("far2")
        with self.offering(size, rate, seconds) as process:
            assert process.stdout is not None
            sent = int(process.stdout.read())
        count, quiet = -1, time.monotonic()
        while time.monotonic() - quiet < SETTLE_S:
            if (now := received("far2") - before) != count:
                count, quiet = now, time.monotonic()
            time.sleep(0.02)
        return sent, count

    @contextmanager
    def offering(self, size: int, rate: int, seconds: float) -> Iterator[subprocess.Popen[bytes]]:
        """Offer frames at a rate for a while."""
        command = [str(self.load), "far1", str(seconds), "0", "0", str(rate)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin is not None
            process.stdin.write(write_frame(size))
            process.stdin.close()
            yield process

    def highest_rate(self, size: int) -> int:
        """Return the highest rate found that arrives, in frames per second as they were sent; 0: not even the first.

        It goes up step by step, and ends with the first that does not arrive, as what is held then weighs on the next.
        """
        best, rate = 0, FIRST_RATE
        while True:
            sent, count = self.arrived(size, int(rate), SEARCH_S)
            if count < ARRIVES * sent:
                return best
            best = max(best, int(sent / SEARCH_S))
            if best < 0.9 * rate:  # the sender's own limit
                return best
            rate *= STEP


@contextmanager
def _chain(target: Target, load: Path, link: LinkProfile) -> Iterator[Chain]:
    fabric = chain(link)
    with ExitStack() as stack:
        ends = []
        for node, port in zip(fabric.switches, LINK_PORTS, strict=True):
            ports = {one.port: one.iface for one in node.ports}
            switch, client = stack.enter_context(target.running(ports, node.device_id, senses=True))
            install(client, Plan.of(fabric, node))
            ends.append(End(switch, client, node, port))
        whole = Chain(load, (ends[0], ends[1]))
        deadline = time.monotonic() + UP_S
        while whole.arrived(64, 1_000, 0.02)[1] == 0:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{target.name}: the link did not come up")
        wanted = TransmitState.ADVANCE if link.llr else TransmitState.OFF
        for end in ends:
            if (state := end.retry().tx_state) != wanted:
                raise RuntimeError(f"{target.name}: retry is {state.name} at {end.switch.name}, not {wanted.name}")
        yield whole


def _link(window: int = 0) -> LinkProfile:
    """Return the profile of the link between the switches: with credits, and with a window also with retry."""
    if not window:
        return LinkProfile(credit_limit=200)
    return LinkProfile(credit_limit=200, llr=True, outstanding_frames_max=window, outstanding_bytes_max=window * 4096)


def _rates(target: Target, load: Path) -> Iterator[Measurement]:
    """Measure the highest rates with retry, and without."""
    for size, shown in SIZES.items():
        plain = 0
        for window in (0, *WINDOWS):
            with _chain(target, load, _link(window)) as link:
                rate = link.highest_rate(size)
            how = f"retry, window {window}" if window else "credits only"
            yield Measurement(f"{target.name}, {shown}, {how}: highest rate in full", rate, "frames/s")
            if not window:
                plain = rate
            elif plain:
                yield Measurement(f"{target.name}, {shown}, {how} : credits only", round(rate / plain, 2), "x")


def _costs(target: Target, load: Path) -> Iterator[Measurement]:
    """Measure processor time, rounds and occupancy at a fixed rate."""
    rate = FIXED_RATE[target.target]
    at = f"at {rate:,} frames/s of 64 B"
    for window in (0, 32):
        with _chain(target, load, _link(window)) as link:
            pids = [process_of(end.switch) for end in link.ends]
            how = f"retry, window {window}" if window else "credits only"
            rounds = link.ends[0].count("llr_line_rounds")
            before, started = [cpu_s(pid) for pid in pids], time.monotonic()
            sent, count = link.arrived(64, rate, WINDOW_S)
            elapsed = time.monotonic() - started - SETTLE_S  # the last part of it was idle
            spent = [cpu_s(pid) - start for pid, start in zip(pids, before, strict=True)]
            rounds = link.ends[0].count("llr_line_rounds") - rounds
            note = f"{at}; {count:,} of {sent:,} arrived"
            for what, cpu in zip(("sending", "receiving"), spent, strict=True):
                share = round(100 * cpu / elapsed, 1)
                yield Measurement(f"{target.name}, {how}, processor of the {what} switch", share, "%", note=note)
            if window:
                yield Measurement(f"{target.name}, rounds in the line per frame", round(rounds / sent, 1), "", note=at)
                yield from _occupancy(target, link, window)


def _occupancy(target: Target, link: Chain, window: int) -> Iterator[Measurement]:
    taken = []
    with link.offering(64, FIXED_RATE[target.target], SAMPLES * SAMPLE_S + 1.5):
        time.sleep(SETTLE_S)
        for _ in range(SAMPLES):
            taken.append(link.ends[0].retry().outstanding_frames)
            time.sleep(SAMPLE_S)
    note = f"of {window}, {SAMPLES} samples, greatest {max(taken)}"
    yield Measurement(
        f"{target.name}, frames without acknowledgement", round(statistics.mean(taken), 1), "frames", note=note
    )


def _lossy(target: Target, load: Path) -> Iterator[Measurement]:
    """Measure what arrives of a fixed rate over a link that loses frames, both ways."""
    rate = FIXED_RATE[target.target]
    for loss in LOSSES:
        for window in (0, 32):
            with _chain(target, load, _link(window)) as link:
                for end in link.ends:
                    end.lose(loss)
                before = [end.count("llr_tx_replay") for end in link.ends]
                drops = [end.count("link_fault_drops") for end in link.ends]
                sent, count = link.arrived(64, rate, WINDOW_S)
                lost = sum(end.count("link_fault_drops") for end in link.ends) - sum(drops)
                replays = sum(end.count("llr_tx_replay") for end in link.ends) - sum(before)
            how = f"retry, window {window}" if window else "credits only"
            note = f"of {sent:,} at {rate:,}/s; the link lost {lost:,} frames, data and control"
            yield Measurement(f"{target.name}, loss {loss:g}, {how}: missing", sent - count, "frames", note=note)
            if window and lost:
                yield Measurement(f"{target.name}, loss {loss:g}, replays per loss", round(replays / lost, 2), "")


def _inside() -> Iterator[Measurement]:
    for n, port in ((1, 1), (2, 2), (507, 507)):
        cable(f"s1-eth{port}", f"far{n}")
    targets = installed_targets()
    with tempfile.TemporaryDirectory() as directory:
        load = compile_tool(HERE / "load.c", Path(directory) / "load")
        bare = without_retry(OUTPUT / "p4src")
        for target in targets:
            yield from _cost_of_off(target, Target(target.target, target.name, bare), load)
        for end in ("s1-eth1", "s1-eth2"):
            subprocess.run(["ip", "link", "del", end], check=True)
        cable("far1", "s1-eth1")
        cable("s1-eth2", "s2-eth1")
        cable("s2-eth2", "far2")
        for target in targets:
            yield from _rates(target, load)
            yield from _costs(target, load)
            yield from _lossy(target, load)


if __name__ == "__main__":
    sys.exit(main("llr", _inside))
