"""A check of link-layer retry inside a fabric's namespaces: links that are bad at both ends, and nobody above them
notices.

It is part of `tests.fabric.inside`, which runs it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from codec.fabric import SwitchNode
from codec.profile import LinkProfile
from topologies.options import Options
from topologies.progress import Progress
from topologies.ranks import Phase, RankResult
from topologies.session import FabricSession, LinkSetting

PROFILE = LinkProfile(llr=True, replay_count_max=255, silence_ms=5000)
"""Patient with processes that a busy machine stops for a while."""
COUNT = 600
TRAFFIC = ("-m", "endpoint", "random", "--count", str(COUNT), "--rto", "5", "--timeout", "60")
"""Nothing is sent again end to end: what the links lose they have to repair."""
PROBABILITY = (1 << 32) // 100
Shell = Callable[[SwitchNode, str], str]


def switch_fault(action: str, port: int, control: int) -> str:
    """Return what `make repl` is told for one frame in a hundred to suffer on its way out of a port."""
    return (
        f"te = TableEntry('link_fault')(action='{action}')\n"
        f"te.match['egress_port'] = '{port}'\n"
        f"te.match['control'] = '{control}'\n"
        f"te.action['probability'] = '{PROBABILITY}'\n"
        "te.action['frames'] = '0'\n"
        "te.action['run'] = '1'\n"
        "te.insert()\n"
    )


def counted(ranks: list[RankResult], name: str) -> int:
    """Return the sum of a counter over all GPUs."""
    return sum(rank.report["counters"].get(name, 0) for rank in ranks)


def check(ranks: list[RankResult]) -> None:
    """Check that every access succeeded, and that none was sent again or seen twice."""
    for rank in ranks:
        assert rank.status == 0, rank.log.read_text()[-2000:]
        report = rank.report
        assert (report["bytes_wrong"], report["transactions"], report["frames_retransmitted"]) == (0, COUNT, 0), report
    for name in ("duplicate_request", "late_response", "llr_flushes", "link_resets"):
        assert not counted(ranks, name), (name, [rank.report["counters"] for rank in ranks])


def impaired(run_dir: Path, target: str, shell: Shell) -> None:
    """Bad links: the endpoints' impairments in both directions, then the switch's link faults too."""
    options = Options(topo="planes,3,1", target=target, links="managed", run_dir=run_dir, timeout_s=80)
    with FabricSession(options, Progress(Console(highlight=False)), LinkSetting(PROFILE)) as session:
        bad = []
        for what in ("drop", "corrupt", "duplicate"):
            bad += ["--impair", f"{what}=0.01,direction=both"]
        ranks = session.run(Phase("bad at the endpoints", (*TRAFFIC, *bad)))
        check(ranks)
        for name in ("impaired_tx_drop", "impaired_rx_corrupt", "llr_tx_replay", "llr_rx_missing_seq"):
            assert counted(ranks, name) > 0, name
        s1 = session.fabric.switch("s1")
        for port in (1, 2, 3):
            shell(s1, switch_fault("drop_frames", port, 0) + switch_fault("corrupt_frames", port, 1))
        check(session.run(Phase("bad at both ends", (*TRAFFIC, *bad))))
        ports = session.counters()["s1"].values()
        for name in ("link_fault_drops", "link_fault_corruptions", "llr_tx_replay"):
            assert sum(port.link.get(name, 0) for port in ports) > 0, name
