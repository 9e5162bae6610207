"""Cases that must fail, each by one of the ways in which a record can: a counter, a rate, no record at all."""

from ptf_tests.conformance.records import close, exact
from ptf_tests.conformance.settings import FULL_RATE
from ptf_tests.conformance.tester import ConformanceTest, cost, patient

PROFILE = patient(credit_limit=40)


class OneCreditTooMany(ConformanceTest):
    """A counter is expected one higher than it is."""

    case = "must fail 1"

    def runTest(self) -> None:
        (sink,) = self.link_ends(2, profile=PROFILE)
        sink.drain(0)
        flow = self.flow(1, 2, 512, 0)
        self.send_openly(1, flow, 1)
        self.run_until(lambda: flow.outstanding == 0)
        used = self.credits_at(2).sender_credits_used[0]
        self.record(512, {}, [exact("sender_credits_used", cost(512, PROFILE) + 1, used)])
        self.conclude()


class TooSlow(ConformanceTest):
    """A receiver that drains at 90% is expected to take the full rate."""

    case = "must fail 2"

    def runTest(self) -> None:
        source, sink = self.link_ends(1, 2, profile=PROFILE)
        sink.drain(0.9 * FULL_RATE)
        flow = self.flow(1, 2, 512, 0)
        self.offer(source, flow, FULL_RATE)
        self.run_for(1.2)
        (rate,) = self.rates(lambda: [flow.received], 0.5)
        self.record(512, {}, [close("rate to the receiver", FULL_RATE, rate, "frames/s")])
        self.conclude()


class NothingMeasured(ConformanceTest):
    """A record without a figure proves nothing."""

    case = "must fail 3"

    def runTest(self) -> None:
        self.record(512, {}, [])
        self.conclude()
