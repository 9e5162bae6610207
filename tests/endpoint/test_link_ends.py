"""A managed link that ends: its carrier goes and comes, and what waits is taken back."""

from __future__ import annotations

from codec.constants import Kind
from codec.frames import frame, parse_link
from tests.endpoint.test_credits import Pair, packet


def kinds(frames: object) -> list[int]:
    return [parse_link(memoryview(data)).kind for data in frames]  # type: ignore[attr-defined]


def test_without_carrier_the_link_is_down_and_says_nothing() -> None:
    pair = Pair()
    pair.up()
    link, sent = pair.links[0], pair.wires[0].frames
    sessions = link.bringup.session
    sent.clear()
    resets = link.resets
    link.carrier(True)
    assert link.is_up and link.resets == resets, "nothing new"
    link.carrier(False)
    link.carrier(False)
    assert not link.is_up
    assert link.resets == resets + 1
    assert link.bringup.peer_epoch == 0
    for _ in range(20):
        pair.now += 0.01
        link.poll(pair.now)
    assert not sent
    link.carrier(True)
    link.poll(pair.now)
    assert kinds(sent) == [Kind.LLR_INIT], "at once"
    pair.pump()
    pair.up()
    assert link.bringup.session == pair.links[1].bringup.session != sessions


def test_requests_are_taken_back_and_responses_stay() -> None:
    """Responses keep the credits of the requests that they answer; requests belong to who sends them elsewhere."""
    pair = Pair()
    pair.up()
    link, peer = pair.links
    peer.send(packet(1))
    request = pair.wires[1].frames.pop()
    assert link.receive(memoryview(request)) is not None
    link.carrier(False)
    link.send(packet(2))
    link.respond(packet(3, vc=1))
    assert link.held == 2
    link.withdraw()
    assert link.held == 1
    assert link.receivers[0].used == 1, "of the request that is not answered yet"
    link.carrier(True)
    pair.up()
    assert [bytes(got)[6:10] for got in pair.received[1]] == [(3).to_bytes(4, "big")]
    assert link.held == 0
    assert link.receivers[0].used == 0


def test_each_session_is_a_reset() -> None:
    pair = Pair()
    pair.up()
    resets = [link.resets for link in pair.links]
    pair.links[1] = pair.make(1)  # the peer starts anew
    pair.up()
    assert pair.links[0].resets > resets[0]
    before = pair.links[0].resets
    pair.deliver(0, frame(Kind.CF_UPDATE, bytes(30), session=1))  # of another session: ignored
    assert pair.links[0].resets == before
