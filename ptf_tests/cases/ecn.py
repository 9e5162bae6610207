"""Congestion notification: every value is kept, and covered by the renewed CRC (E6)."""

from codec.constants import Ecn
from ptf_tests.base import REMOTE, EthlinkTest
from ptf_tests.frames import forwarded, store, write


class EveryValueKept(EthlinkTest):
    """Without congestion a switch changes no ECN value, on any VC."""

    def runTest(self) -> None:
        for ecn in Ecn:
            for vc in range(7):
                self.assertEqual(forwarded(store(1, 2, ecn=ecn, vc=vc))[12] >> 1 & 3, ecn)
                self.expect_forwarded(1, store(1, 2, ecn=ecn, vc=vc), 2)
            self.expect_forwarded(5, write(REMOTE[0], 2, 1024, ecn=ecn), 2)
