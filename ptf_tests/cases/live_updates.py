"""Control changes under traffic: no frame is lost, doubled, or sent by a path that no state of the tables gives."""

import itertools
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial

from ptf_tests.base import BURST, GROUP, NOBODY, REMOTE, TENANT, UPLINKS, EthlinkTest
from ptf_tests.frames import forwarded, slot, store

FRAMES = 1024


class LiveUpdateTest(EthlinkTest):
    """What the tests of this file share."""

    def under_changes(self, change: Callable[[], None], dst: int, ports: tuple[int, ...], f: int = 0) -> Counter[int]:
        """Send frames from GPU 1 while `change` is called again and again; return how many each port got.

        Each frame has to arrive once, on one of `ports`.
        """
        done = threading.Event()
        failures: list[BaseException] = []
        changes = itertools.count()

        def changer() -> None:
            try:
                while not done.is_set():
                    change()
                    next(changes)
            except BaseException as error:  # raised again by the test's own thread
                failures.append(error)

        thread = threading.Thread(target=changer)
        thread.start()
        got: Counter[int] = Counter()
        try:
            for first in range(0, FRAMES, BURST):
                burst = [store(1, dst, n.to_bytes(8, "big"), f=f, entropy=n % 256) for n in range(first, first + BURST)]
                for frame in burst:
                    self.send(1, frame)
                missing = {forwarded(frame) for frame in burst}
                self.wait_until(partial(self._take, missing, ports, got))
                self.assertFalse(missing, f"{len(missing)} frames are missing")
        finally:
            done.set()
            thread.join()
        for failure in failures:
            raise failure
        self.expect_quiet()
        self.assertGreater(next(changes), 10, "the tables hardly changed meanwhile")
        return got

    def _take(self, missing: set[bytes], ports: tuple[int, ...], got: Counter[int]) -> bool:
        """Take what has arrived off the missing frames; return whether none is missing any more."""
        for port in ports:
            while (frame := self.receive(port, timeout_s=0)) is not None:
                self.assertIn(frame, missing, f"a frame on port {port} that was not sent, or came twice")
                missing.remove(frame)
                got[port] += 1
        return not missing


class RouteMoves(LiveUpdateTest):
    """A route that moves between two ports sends each frame by one of them."""

    def runTest(self) -> None:
        entry = self.switch.names.entry
        routes = itertools.cycle([entry("forward", {"tenant": TENANT, "dst": 2}, "to_port", port=p) for p in (7, 2)])
        got = self.under_changes(lambda: self.modify(next(routes)), dst=2, ports=(2, 7))
        self.assertEqual(set(got), {2, 7}, "the route moved only before or after the traffic")


class RouteGrowsIntoGroup(LiveUpdateTest):
    """A route that changes between a port and a group never mixes the two."""

    def runTest(self) -> None:
        entry = self.switch.names.entry
        match = {"tenant": TENANT, "dst": 2}
        forms = itertools.cycle(
            [
                entry("forward", match, "to_group", group_id=GROUP, home=NOBODY),
                entry("forward", match, "to_port", port=2),
            ]
        )
        self.under_changes(lambda: self.modify(next(forms)), dst=2, ports=(2, *UPLINKS), f=1)


class MemberMoves(LiveUpdateTest):
    """A slot that moves takes its own frames along and no others."""

    def runTest(self) -> None:
        first, second, *others = UPLINKS
        members = itertools.cycle([self.group_entry(GROUP, (first, port, *others)) for port in (3, second)])
        got = self.under_changes(lambda: self.modify(next(members)), REMOTE[0], (3, *UPLINKS), f=1)
        slots = Counter(slot(store(1, REMOTE[0], f=1, entropy=n % 256), len(UPLINKS)) for n in range(FRAMES))
        self.assertEqual(got[3] + got[UPLINKS[1]], slots[1])
        for number in (0, 2, 3):
            self.assertEqual(got[UPLINKS[number]], slots[number])


class OthersComeAndGo(LiveUpdateTest):
    """Hundreds of other entries that come and go do not touch a route."""

    def runTest(self) -> None:
        entry = self.switch.names.entry
        others = [entry("forward", {"tenant": TENANT, "dst": 0x200 + n}, "to_port", port=3) for n in range(400)]

        def change() -> None:
            self.switch.write("INSERT", others)
            self.switch.write("DELETE", others)

        self.under_changes(change, dst=2, ports=(2,))
