"""Bring-up of managed links: epochs, echoes, sessions, silence (docs/protocol.md, section 4)."""

from codec.constants import Kind, LinkFlag
from codec.scapy_layers import Link
from ptf_tests.base import MODE_MANAGED, UPLINKS
from ptf_tests.frames import control_frames, data_frames, store
from ptf_tests.links import NONE, ManagedTest, Profile, in_session, one_lane, session_of


class FromTheSwitch(ManagedTest):
    """A managed port sends LLR_INIT at every keepalive with one epoch until it is echoed, then CF_UPDATE at once."""

    def runTest(self) -> None:
        (peer,) = self.manage(2)
        self.keepalive()
        first = peer.expect_init(peer_epoch=0)
        self.keepalive()
        self.assertEqual(peer.expect_init(peer_epoch=0), first)
        peer.send(peer.init(Kind.LLR_INIT_ECHO))
        peer.expect_freed(NONE)
        self.keepalive()
        peer.expect_freed(NONE)
        self.expect_silence_on([1, 2, 3])


class FromThePeer(ManagedTest):
    """The peer's LLR_INIT is answered with an echo; the one that echoes the switch's epoch brings the link up."""

    def runTest(self) -> None:
        (peer,) = self.manage(2)
        ups = self.count("link_ups", 2)
        peer.send(peer.init())
        peer.expect_init(Kind.LLR_INIT_ECHO, peer_epoch=peer.epoch)
        self.expect_count("link_ups", 2, ups)
        peer.send(peer.init())
        peer.expect_init(Kind.LLR_INIT_ECHO, peer_epoch=peer.epoch)
        peer.expect_freed(NONE)
        self.expect_count("link_ups", 2, ups + 1)
        self.expect_silence_on([2])


class KeepaliveInBetween(ManagedTest):
    """In INIT the keepalive's LLR_INIT echoes the peer's epoch as soon as it is known."""

    def runTest(self) -> None:
        (peer,) = self.manage(2)
        peer.send(peer.init())
        echo = peer.expect_init(Kind.LLR_INIT_ECHO, peer_epoch=peer.epoch)
        self.keepalive()
        init = peer.expect_init(peer_epoch=peer.epoch)
        self.assertEqual(bytes(init), bytes(echo))


class EveryInitIsAnswered(ManagedTest):
    """LLR_INIT is answered in UP too, and a known epoch with a zero echo changes nothing; an echo is not answered."""

    def runTest(self) -> None:
        (peer,) = self.links(2)
        epoch = peer.switch_epoch
        for echoed in (0, epoch):
            peer.send(peer.init(peer_epoch=echoed))
            peer.expect_init(Kind.LLR_INIT_ECHO, peer_epoch=peer.epoch)
            self.assertEqual(peer.switch_epoch, epoch)
        peer.send(peer.init(Kind.LLR_INIT_ECHO))
        self.expect_silence_on([2])
        self.keepalive()
        peer.expect_freed(NONE)  # still up, in the same session


class WrongEchoesInInit(ManagedTest):
    """In INIT a wrong echo is ignored: the epoch stays, and the right one still brings the link up."""

    def runTest(self) -> None:
        (peer,) = self.manage(2)
        self.keepalive()
        epoch = peer.expect_init().own_epoch
        peer.send(peer.init(Kind.LLR_INIT_ECHO, peer_epoch=epoch ^ 1))
        self.keepalive()
        self.assertEqual(peer.expect_init(peer_epoch=peer.epoch).own_epoch, epoch)
        peer.send(peer.init(peer_epoch=epoch ^ 0x80000000))
        self.assertEqual(peer.expect_init(Kind.LLR_INIT_ECHO).own_epoch, epoch)
        peer.send(peer.init(Kind.LLR_INIT_ECHO))
        peer.expect_freed(NONE)


class WrongEchoInUp(ManagedTest):
    """In UP a wrong echo that is not 0 draws a new epoch: the peer means another session. So for both kinds."""

    def runTest(self) -> None:
        (peer,) = self.links(2)
        for kind, answer in ((Kind.LLR_INIT, Kind.LLR_INIT_ECHO), (Kind.LLR_INIT_ECHO, Kind.LLR_INIT)):
            epoch, session = peer.switch_epoch, peer.session
            peer.send(peer.init(kind, peer_epoch=epoch ^ 4))
            self.assertNotEqual(peer.expect_init(answer, peer_epoch=peer.epoch).own_epoch, epoch)
            self.assertNotEqual(peer.session, session)
            peer.send(peer.init(Kind.LLR_INIT_ECHO))
            peer.expect_freed(NONE)


class PeerRestarts(ManagedTest):
    """A new epoch of the peer ends the session at once, and starts another with the switch's epoch unchanged."""

    def runTest(self) -> None:
        (peer,) = self.links(2)
        old_session, switch_epoch = peer.session, peer.switch_epoch
        peer.epoch ^= 0x5555
        peer.send(peer.init(peer_epoch=0))
        echo = peer.expect_init(Kind.LLR_INIT_ECHO, peer_epoch=peer.epoch)
        self.assertEqual(echo.own_epoch, switch_epoch)
        self.expect_dropped_here(2, in_session(store(2, 1), old_session), "link_not_up")
        peer.send(peer.init(Kind.LLR_INIT_ECHO))
        peer.expect_freed(NONE)
        self.expect_dropped_here(2, in_session(store(2, 1), old_session), "wrong_session")
        peer.send_data(store(2, 1))
        self.expect_forwarded_to(1, store(2, 1))


class PeerRestartsWithTheRightEcho(ManagedTest):
    """A new epoch that already echoes the switch's brings the link up again in one step."""

    def runTest(self) -> None:
        (peer,) = self.links(2)
        peer.epoch ^= 0x5555
        peer.send(peer.init())
        peer.expect_init(Kind.LLR_INIT_ECHO, peer_epoch=peer.epoch)
        peer.expect_freed(NONE)


class SessionOfEpochs(ManagedTest):
    """The session is the XOR of the epochs' halves, and 1 where that is 0."""

    def runTest(self) -> None:
        (peer,) = self.manage(2)
        self.keepalive()
        epoch = peer.expect_init().own_epoch
        peer.epoch = epoch ^ 0x12341234
        self.assertEqual(session_of(epoch, peer.epoch), 1)
        peer.send(peer.init(Kind.LLR_INIT_ECHO))
        peer.expect_freed(NONE)
        peer.epoch = epoch ^ 0x12340000
        peer.send(peer.init(Kind.LLR_INIT_ECHO))
        peer.expect_freed(NONE)
        self.assertEqual(peer.session, 0x1234)


class SessionOnEveryFrame(ManagedTest):
    """In UP every frame carries the session; another one is dropped and counted, whatever the kind."""

    def runTest(self) -> None:
        (peer,) = self.links(2)
        wrong = peer.session ^ 1
        for name, frame in {**control_frames(), **data_frames()}.items():
            init = name.startswith("LLR_INIT")
            self.expect_dropped_here(2, in_session(frame, peer.session if init else wrong), "wrong_session")
        self.expect_dropped_here(2, store(2, 1), "wrong_session")
        peer.send_data(store(2, 1))
        self.expect_forwarded_to(1, store(2, 1))
        self.send(1, store(1, 2))
        peer.expect_data(store(1, 2))


class NothingButBringUpBeforeUp(ManagedTest):
    """Before UP only LLR_INIT and its echo are taken; best-effort frames for the port are dropped."""

    def runTest(self) -> None:
        (peer,) = self.manage(2)
        for frame in (*data_frames().values(), *control_frames().values()):
            if (frame[0] >> 4) not in (Kind.LLR_INIT, Kind.LLR_INIT_ECHO):
                self.expect_dropped_here(2, frame, "link_not_up")
        self.expect_dropped_here(1, store(1, 2), "link_not_up")
        peer.send(peer.init(Kind.LLR_INIT, lossless_vcs=0))
        peer.expect_init(Kind.LLR_INIT_ECHO)
        self.expect_dropped_here(1, store(1, 2), "link_not_up")


class NoDataBeforeTheFirstUpdate(ManagedTest):
    """Up, the switch still sends no data until the session's first CF_UPDATE; lossless frames wait for it."""

    def runTest(self) -> None:
        (peer,) = self.manage(2, profile=Profile(lossless_vcs=1))
        peer.switch_epoch = 0
        peer.send(peer.init())
        peer.expect_init(Kind.LLR_INIT_ECHO)
        peer.send(peer.init())
        peer.expect_init(Kind.LLR_INIT_ECHO)
        peer.expect_freed(NONE)
        self.send(1, store(1, 2, vc=0))
        self.expect_dropped_here(1, store(1, 2, vc=1), "link_not_up")
        self.expect_silence_on([2])
        peer.free(NONE)
        peer.expect_data(store(1, 2, vc=0))
        self.send(1, store(1, 2, vc=1))
        peer.expect_data(store(1, 2, vc=1))
        peer.free(one_lane(0, 1))


class Silence(ManagedTest):
    """A peer that says nothing for the profile's time is gone: new epoch, LLR_INIT. Any frame of the session, or an
    LLR_INIT, is a sign of life; a frame of another session is none."""

    def runTest(self) -> None:
        (peer,) = self.links(2, profile=Profile(silence=30))
        signs = (
            lambda: peer.free(NONE),
            lambda: peer.send_data(store(2, 1)),
            lambda: peer.send(peer.init(Kind.LLR_INIT_ECHO)),
        )
        silences = self.count("silences", 2)
        for sign in signs:
            for _ in range(2):
                self.keepalive()
                peer.expect_freed()
            received = self.count("port_rx", 2)
            sign()
            self.expect_count("port_rx", 2, received + 1)
        self.expect_count("silences", 2, silences)
        epoch = peer.switch_epoch
        self.send(2, in_session(store(2, 1), peer.session ^ 1))
        while self.count("silences", 2) == silences:
            self.keepalive()
            kind = peer.next().kind
        self.assertEqual(kind, Kind.LLR_INIT)
        self.keepalive()
        self.assertNotEqual(peer.expect_init(peer_epoch=peer.epoch).own_epoch, epoch)


class SilenceTakesItsTime(ManagedTest):
    """The link is up for the whole of the profile's silence, and ends at the first keepalive after it."""

    def runTest(self) -> None:
        (peer,) = self.links(2, profile=Profile(silence=100))
        for _ in range(10):
            self.keepalive()
            peer.expect_freed(NONE)
        self.keepalive()
        frame = peer.next()
        self.assertIn(frame.kind, (Kind.CF_UPDATE, Kind.LLR_INIT))  # the tick's phase is not known to the test
        self.keepalive()
        peer.expect_init(peer_epoch=peer.epoch)


class SilenceOff(ManagedTest):
    """A silence of 0 in the profile: never."""

    def runTest(self) -> None:
        (peer,) = self.links(2, profile=Profile(silence=0))
        for _ in range(30):
            self.keepalive()
            peer.expect_freed(NONE)


class CarrierLost(ManagedTest):
    """A port without carrier sends nothing and takes nothing; when the carrier is back it starts with a new epoch."""

    def runTest(self) -> None:
        (peer,) = self.links(2)
        epoch = peer.switch_epoch
        self.carrier(2, up=False)
        self.keepalive()
        self.expect_silence_on([2])
        self.expect_dropped_here(1, store(1, 2), "dead_port")
        self.expect_dropped_here(2, in_session(store(2, 1), peer.session), "link_not_up")
        self.carrier(2, up=True)
        self.keepalive()
        self.assertNotEqual(peer.expect_init(peer_epoch=0).own_epoch, epoch)


class BadInit(ManagedTest):
    """An LLR_INIT that no link can work with is dropped, counted, not answered, and changes nothing."""

    def runTest(self) -> None:
        (peer,) = self.links(2)
        bad = (
            {"version": 2}, {"version": 0}, {"own_epoch": 0}, {"credit_size": 16},
            {"credit_limit": [1 << 19] + [0] * 7}, {"credits_in_use": [0] * 7 + [1 << 20]},
        )  # fmt: skip
        for kind in (Kind.LLR_INIT, Kind.LLR_INIT_ECHO):
            for fields in bad:
                self.expect_dropped_here(2, peer.init(kind, **fields), "bad_init")
        self.expect_dropped_here(2, peer.init()[:-1], "bad_crc")
        self.keepalive()
        peer.expect_freed(NONE)


class WithoutProfile(ManagedTest):
    """A managed port without a link profile stays down and answers nothing."""

    def runTest(self) -> None:
        (peer,) = self.manage(2)
        self.delete("link_profile", {"port": 2})
        self.keepalive()
        self.expect_dropped_here(2, peer.init(), "link_not_up")
        self.expect_silence_on([2])


class TrailingBytes(ManagedTest):
    """What follows the body of a control frame is ignored, and does not come back in the answer."""

    def runTest(self) -> None:
        (peer,) = self.manage(2)
        peer.send(in_session(peer.init() + bytes(100), 0))
        peer.expect_init(Kind.LLR_INIT_ECHO, peer_epoch=peer.epoch)


class PoisonAndUnknownControl(ManagedTest):
    """On a link without LLR its control frames are unexpected; poisoned data is dropped under its own name."""

    def runTest(self) -> None:
        (peer,) = self.links(2)
        for name in ("LLR_ACK", "LLR_NACK"):
            frame = in_session(control_frames()[name], peer.session)
            self.expect_dropped_here(2, frame, "unexpected_control")
        poisoned = Link(flags=LinkFlag.POISON) / store(2, 1).payload
        self.expect_dropped_here(2, in_session(poisoned, peer.session), "poisoned")


class LinksAreIndependent(ManagedTest):
    """One port's bring-up leaves the others' sessions alone; a fabric port is brought up alike."""

    def runTest(self) -> None:
        first, second, uplink = self.links(2, 3, UPLINKS[0])
        first.epoch ^= 1
        first.bring_up()
        self.keepalive()
        for peer in (first, second, uplink):
            peer.expect_freed(NONE)


class KeepaliveOnlyFromInside(ManagedTest):
    """The event port takes ticks and port states; a keepalive notice on it does nothing."""

    def runTest(self) -> None:
        self.manage(2)
        frame = bytes(12) + bytes([3, 0, 0, 2])
        self.send(507, frame)
        self.send(507, bytes(12) + bytes([1, 1, 0xFF, 0xFF]))
        self.expect_silence_on([2])


class OpenLinkOfAManagedPort(ManagedTest):
    """A managed mode in one table only is no managed link: nothing is sent on it."""

    def runTest(self) -> None:
        entry = self.switch.names.entry
        self.modify(entry("egress_config", {"egress_port": 3}, "set_link", mode=MODE_MANAGED))
        self.expect_dropped_here(1, store(1, 3), "link_not_up")
