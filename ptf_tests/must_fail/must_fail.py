"""Tests that must fail, each by one of the ways in which a packet test can notice a fault."""

from ptf_tests.base import EthlinkTest
from ptf_tests.frames import forwarded, store


class WrongPort(EthlinkTest):
    """A frame is expected on a port that it does not leave by."""

    def runTest(self) -> None:
        self.send(1, store(1, 2))
        self._check(self.receive(3, timeout_s=0.2), forwarded(store(1, 2)), "port 3")


class OneByteLonger(EthlinkTest):
    """A frame is expected with one zero byte more than it has."""

    def runTest(self) -> None:
        self.send(1, store(1, 2))
        self.expect(2, forwarded(store(1, 2)) + b"\0")


class NotQuiet(EthlinkTest):
    """A forwarded frame is on its way where nothing should leave."""

    def runTest(self) -> None:
        self.send(1, store(1, 2))
        self.expect_quiet()


class WrongReason(EthlinkTest):
    """A frame is dropped, but for another reason than expected."""

    def runTest(self) -> None:
        before = self.drops([1])
        self.send(1, store(3, 2))
        self.expect_quiet()
        self.assertEqual(self.new_drops(before), {("bad_crc", 1): 1})
