"""Virtual channels: every value is carried, and VC 7 admits control traffic only (E3)."""

from codec.constants import Vc
from ptf_tests.base import EthlinkTest
from ptf_tests.frames import forwarded, probe, store, write


class EveryVc(EthlinkTest):
    """Memory traffic passes on VCs 0 to 6 and keeps its VC."""

    def runTest(self) -> None:
        for vc in range(Vc.CONTROL):
            for frame in (store(1, 2, vc=vc), write(1, 2, 100, vc=vc)):
                self.assertEqual(forwarded(frame)[12] >> 3 & 7, vc)
                self.expect_forwarded(1, frame, 2)


class ControlVc(EthlinkTest):
    """VC 7, which is never held for credits, is closed to memory traffic."""

    def runTest(self) -> None:
        self.expect_dropped(1, store(1, 2, vc=Vc.CONTROL), "reserved_vc")
        self.expect_dropped(1, write(1, 2, 64, vc=Vc.CONTROL), "reserved_vc")


class ProbeOnAnyVc(EthlinkTest):
    """A PROBE may travel on any VC."""

    def runTest(self) -> None:
        for vc in range(8):
            frame = probe(1, 2)
            frame["OEFH"].vc = vc
            self.expect_forwarded(1, frame, 2)
