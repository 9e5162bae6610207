"""Multi-path: entropy spreads evenly, one value one path, F = 0 ignores it (E4)."""

from collections import Counter

from scapy.packet import Packet

from ptf_tests.base import GROUP, GROUP_MOST, NOBODY, OTHER_TENANT, REMOTE, TENANT, UPLINKS, EthlinkTest
from ptf_tests.frames import slot, store

CHI_SQUARE_99 = {1: 6.63, 2: 9.21, 3: 11.34}
"""99th percentile of the chi-square distribution by degrees of freedom."""


class MultipathTest(EthlinkTest):
    """What the tests of this file share."""

    def use_uplinks(self, count: int) -> None:
        """Make the group one of the first `count` uplinks."""
        self.modify(self.group_entry(GROUP, UPLINKS[:count]))

    def paths(self, frames: list[Packet], size: int = len(UPLINKS)) -> list[int]:
        """Send frames from GPU 1; check each on the port that it has to take; return the ports."""
        ports = [UPLINKS[slot(frame, size)] for frame in frames]
        self.expect_all_forwarded(1, zip(frames, ports, strict=True))
        self.expect_quiet()
        return ports

    def assert_even(self, ports: list[int], size: int) -> None:
        """Check the use of each port by chi-square at 1%."""
        used = Counter(ports)
        mean = len(ports) / size
        chi_square = sum((used[port] - mean) ** 2 / mean for port in UPLINKS[:size])
        self.assertLess(chi_square, CHI_SQUARE_99[size - 1], f"uneven: {dict(used)}")


class EntropySpreads(MultipathTest):
    """All 256 entropy values of one pair spread evenly over 2, 3 and 4 paths."""

    def runTest(self) -> None:
        for size in (2, 3, 4):
            self.use_uplinks(size)
            frames = [store(1, REMOTE[0], f=1, entropy=entropy) for entropy in range(256)]
            self.assert_even(self.paths(frames, size), size)


class EntropySpreadsEveryDestination(MultipathTest):
    """A few entropy values spread over many destinations as well."""

    def runTest(self) -> None:
        frames = [store(1, gpu, f=1, entropy=entropy) for gpu in REMOTE for entropy in range(0, 256, 16)]
        self.assert_even(self.paths(frames), len(UPLINKS))


class SameValueSamePath(MultipathTest):
    """Frames of one entropy value take one path, whatever else differs, and stay in order on it."""

    def runTest(self) -> None:
        for entropy in (0, 1, 127, 255):
            frames = [store(1, REMOTE[3], bytes([n]) * 8, f=1, entropy=entropy, vc=n % 7, ecn=n % 4) for n in range(20)]
            self.assertEqual(len(set(self.paths(frames))), 1)


class InOrderIgnoresEntropy(MultipathTest):
    """With F = 0 a pair has one path, whatever its entropy says."""

    def runTest(self) -> None:
        frames = [store(1, REMOTE[5], f=0, entropy=entropy) for entropy in range(256)]
        self.assertEqual(len(set(self.paths(frames))), 1)


class PairsSpread(MultipathTest):
    """With F = 0 the pairs spread evenly over the paths."""

    def runTest(self) -> None:
        gpus = range(0x100, 0x140)
        entry = self.switch.names.entry
        self.install(
            entry("forward", {"tenant": TENANT, "dst": gpu}, "to_group", group_id=GROUP, home=NOBODY) for gpu in gpus
        )
        self.assert_even(self.paths([store(1, gpu) for gpu in gpus]), len(UPLINKS))


class GroupOfOne(MultipathTest):
    """A group of one path is a path."""

    def runTest(self) -> None:
        self.use_uplinks(1)
        frames = [store(1, REMOTE[0], f=1, entropy=entropy) for entropy in range(32)]
        self.assertEqual(set(self.paths(frames, size=1)), {UPLINKS[0]})


class EmptySlot(MultipathTest):
    """A frame whose slot has no member is dropped and counted; the others are not touched."""

    def runTest(self) -> None:
        self.modify(self.group_entry(GROUP, (*UPLINKS[:2], 0, UPLINKS[3])))
        for entropy in range(16):
            frame = store(1, REMOTE[0], f=1, entropy=entropy)
            if slot(frame, len(UPLINKS)) == 2:
                self.expect_dropped(1, frame, "no_member")
            else:
                self.expect_forwarded(1, frame, UPLINKS[slot(frame, len(UPLINKS))])


class NoGroup(MultipathTest):
    """A group of size 0, one that is larger than a group can be, and one that does not exist have no path, and do no
    harm."""

    def runTest(self) -> None:
        for size in (0, GROUP_MOST + 1, 255):
            self.modify(self.group_entry(GROUP, UPLINKS, size))
            self.expect_dropped(1, store(1, REMOTE[0], f=1, entropy=9), "no_member")
        self.delete("path_group", {"group": GROUP})
        self.expect_dropped(1, store(1, REMOTE[0], f=1, entropy=9), "no_member")


class LargestGroup(MultipathTest):
    """A group has up to 16 paths, and each slot is where it belongs."""

    def runTest(self) -> None:
        ports = (5, 6, 7, 8, 2, 3, 4, 5, 6, 7, 8, 2, 3, 4, 5, 6)
        self.modify(self.group_entry(GROUP, ports))
        frames = [store(1, REMOTE[0], f=1, entropy=entropy) for entropy in range(256)]
        self.expect_all_forwarded(1, [(frame, ports[slot(frame, GROUP_MOST)]) for frame in frames])
        self.expect_quiet()


class MemberChangedLive(MultipathTest):
    """Pointing a slot at another port moves that slot's frames, and only those."""

    def runTest(self) -> None:
        self.modify(self.group_entry(GROUP, (UPLINKS[0], 3, *UPLINKS[2:])))
        for entropy in range(16):
            frame = store(1, REMOTE[0], f=1, entropy=entropy)
            chosen = slot(frame, len(UPLINKS))
            self.expect_forwarded(1, frame, 3 if chosen == 1 else UPLINKS[chosen])


class GroupsAreApart(MultipathTest):
    """Two groups with the same slots lead to their own ports."""

    def runTest(self) -> None:
        self.install([self.group_entry(9, [8])])
        self.insert("forward", {"tenant": OTHER_TENANT, "dst": 300}, "to_group", group_id=9, home=NOBODY)
        self.expect_forwarded(4, store(4, 300, f=1, entropy=77), 8)
        frame = store(1, REMOTE[0], f=1, entropy=77)
        self.expect_forwarded(1, frame, UPLINKS[slot(frame, len(UPLINKS))])
