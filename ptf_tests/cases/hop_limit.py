"""Hop limit: each switch takes one, and a frame that has none left goes no further (E5)."""

from ptf_tests.base import REMOTE, SWITCH_ID, EthlinkTest
from ptf_tests.frames import forwarded, probe, store


class Decremented(EthlinkTest):
    """Limits 2 to 15 come out one less."""

    def runTest(self) -> None:
        for hops in range(2, 16):
            self.assertEqual(forwarded(store(1, 2, hops=hops))[16] & 0xF, hops - 1)
            self.expect_forwarded(1, store(1, 2, hops=hops), 2)
            self.expect_forwarded(5, store(REMOTE[0], 2, hops=hops), 2)


class Expired(EthlinkTest):
    """A limit of 1 expires here, one of 0 has expired before."""

    def runTest(self) -> None:
        for hops in (1, 0):
            self.expect_dropped(1, store(1, 2, hops=hops), "hop_expired")
            self.expect_dropped(6, store(REMOTE[0], 2, hops=hops), "hop_expired")


class ForThisSwitch(EthlinkTest):
    """A frame that has arrived needs no hops."""

    def runTest(self) -> None:
        for hops in (0, 1, 15):
            frame = probe(1, SWITCH_ID)
            frame["OEFH"].hops = hops
            self.send(1, frame)
            self.expect_packet_in(frame, ingress_port=1, reason=127)


class Loop(EthlinkTest):
    """A route that leads back where the frame came from is followed, one hop less: a loop ends by the hop limit."""

    def runTest(self) -> None:
        self.insert("forward", {"tenant": 1, "dst": 0x400}, "to_port", port=5)
        frame = bytes(store(REMOTE[0], 0x400, hops=3))
        for _ in range(2):
            self.expect_forwarded(5, frame, 5)
            frame = forwarded(frame)
        self.expect_dropped(5, frame, "hop_expired")
