"""What the cases of link-layer retry (LLR) stand on: link ends that retry, counters and states under SAI's names."""

from __future__ import annotations

from typing import Any, Final, cast

from controller.retries import ReceiveState, TransmitState
from ptf_tests.conformance.link_end import LinkEnd
from ptf_tests.conformance.records import Figure, exact, state
from ptf_tests.conformance.retry_end import RetryEnd, RetrySettings
from ptf_tests.conformance.settings import PATIENT_TICKS
from ptf_tests.conformance.tester import ConformanceTest
from ptf_tests.links import Profile
from ptf_tests.retry import SEQS, RetryTest

RETRY_COUNTERS: Final = (
    "llr_tx_init_ctl_os", "llr_rx_init_ctl_os", "llr_tx_init_echo_ctl_os", "llr_rx_init_echo_ctl_os",
    "llr_tx_ack_ctl_os", "llr_rx_ack_ctl_os", "llr_tx_nack_ctl_os", "llr_rx_nack_ctl_os",
    "llr_tx_ok", "llr_tx_replay", "llr_tx_discard",
    "llr_rx_ok", "llr_rx_poisoned", "llr_rx_bad", "llr_rx_expected_seq_good", "llr_rx_expected_seq_poisoned",
    "llr_rx_expected_seq_bad", "llr_rx_missing_seq", "llr_rx_duplicate_seq", "llr_rx_replay",
    "llr_rx_ack_nack_seq_error",
    "llr_tx_replayed", "llr_replay_timeouts", "llr_flushes", "llr_flushed", "llr_copies_lost", "llr_out_of_sequence",
    "link_ups", "cbfc_num_cc_update_messages_tx",
)  # fmt: skip
"""SAI's counters of a port, then the switch's own that a case needs."""
WINDOW: Final = 128
CREDITS: Final = 400

Counts = dict[str, int]


def retrying(**settings: Any) -> Profile:
    """Return a profile that offers retry, whose credits no case runs short of."""
    return Profile(**{
        "silence": PATIENT_TICKS, "capabilities": 3, "outstanding_frames_max": WINDOW, "credit_limit": CREDITS,
        "update_threshold": CREDITS // 4, **settings,
    })  # fmt: skip


class RetryCase(ConformanceTest, RetryTest):
    """A case of link-layer retry. The switch's replay timer is far away, unless a case sets it."""

    tester_settings = RetrySettings()

    def new_end(self, port: int, profile: Profile, now: float) -> LinkEnd:
        """Return the tester's end of the link on a port, which retries where the profile offers it."""
        end = RetryEnd(profile, self._transmitter(port), self._arrived, now, self.tester_settings)
        end.update_at = CREDITS // 4  # so that acknowledgements have to be frames of their own
        return end

    def retry_ends(
        self, *ports: int, profile: Profile | None = None, tester: Profile | None = None, **settings: Any
    ) -> list[RetryEnd]:
        """Bring up links that retry, with the switch's settings of `ptf_tests.retry.Retry`; the tester's own profile is
        the switch's, if none is given."""
        profile = profile or retrying()
        settings.setdefault("outstanding_frames_max", profile.outstanding_frames_max)
        self.retry_links(*ports, profile=profile, up=False, **settings)
        ends = [cast("RetryEnd", end) for end in self.link_ends(*ports, profile=profile, tester=tester)]
        for port, end in zip(ports, ends, strict=True):
            if not end.retries:
                self.fail(f"{self.case}: the link of port {port} does not retry")
        return ends

    def fresh_ends(self, *ports: int, **settings: Any) -> list[RetryEnd]:
        """Return links as `retry_ends` brings them up; if they are up already, they come up anew as they were."""
        if ports[0] in self.ends:
            return [cast("RetryEnd", end) for end in self.link_ends(*ports, profile=self.profiles[ports[0]])]
        return self.retry_ends(*ports, **settings)

    def about(self, port: int, **more: Any) -> dict[str, Any]:
        """Return a configuration for a record: the switch's profile of a port by SAI's names."""
        retry, profile = self.retries[port], self.profiles[port]
        return {
            "outstanding_frames_max": retry.outstanding_frames_max,
            "outstanding_bytes_max": retry.outstanding_bytes_max,
            "replay_timer_max": f"{retry.replay_timer} us",
            "replay_count_max": retry.replay_count_max,
            "flush_frame_action": ("discard", "block", "best_effort")[retry.flush_action],
            "re_init_on_flush": bool(retry.re_init_on_flush),
            "credit_limit": profile.credit_limit,
            **more,
        }

    def counts(self, port: int) -> Counts:
        """Read the counters of a port."""
        read = self.switch.counts([(name, port) for name in RETRY_COUNTERS])
        return {name: count.packets for (name, _), count in read.items()}

    def grown(self, port: int, before: Counts) -> Counts:
        """Return by how much the counters of a port have grown."""
        return {name: value - before[name] for name, value in self.counts(port).items()}

    def grow(self, port: int, before: Counts, **expected: int) -> Counts:
        """Wait a while until counters have grown by so much; return what all have grown by, whatever that is."""

        def reached() -> bool:
            now = self.grown(port, before)
            return all(now[name] >= value for name, value in expected.items())

        self.run_until(reached, 2.0)
        return self.grown(port, before)

    def figures(self, port: int, before: Counts, **expected: int) -> list[Figure]:
        """Return exact figures of counters of a port, once they have grown by so much or a while has passed."""
        now = self.grow(port, before, **expected)
        return [exact(f"{name}, port {port}", value, now[name], _unit(name)) for name, value in expected.items()]

    def outstanding(self, port: int) -> int:
        """Return how many frames a port has sent that are not acknowledged, as the switch says."""
        told = self.retry_state(port)
        return (told["next_seq"] - told["unacknowledged_seq"]) % SEQS

    def states(self, port: int, tx: TransmitState | None = None, rx: ReceiveState | None = None) -> list[Figure]:
        """Return the figures of a port's states, which are to be these."""
        read = self.retry_state(port)
        wanted = (("tx_state", tx, TransmitState), ("rx_state", rx, ReceiveState))
        return [
            state(f"{name}, port {port}", expected.name.lower(), kind(read[name]).name.lower())
            for name, expected, kind in wanted
            if expected is not None
        ]


def _unit(name: str) -> str:
    return "messages" if name.endswith("_ctl_os") else "times" if name in _EVENTS else "frames"


_EVENTS: Final = {
    "llr_tx_replay", "llr_rx_replay", "llr_replay_timeouts", "llr_flushes", "llr_copies_lost", "llr_rx_missing_seq",
    "link_ups",
}  # fmt: skip
