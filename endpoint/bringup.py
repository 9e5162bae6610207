"""Link bring-up: epochs, echoes, sessions (docs/protocol.md section 4), without input or output.

The machine is told what came and answers with what changed. It knows nothing of time or credits.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from codec.control import LinkInit
from codec.layouts import session_of


class LinkState(IntEnum):
    """State of a managed link."""

    DOWN = 0
    INIT = 1
    UP = 2


class Change(NamedTuple):
    """What an LLR_INIT or its echo did to the link; both may be true at once, the reset first."""

    reset: bool = False
    """A new epoch, the peer's or an own one: both directions begin anew."""
    up: bool = False
    """The link came up: what this frame says of the peer is what holds."""


def random_epoch() -> int:
    """Return 32 random bits that are not all 0."""
    return secrets.randbits(32) or 1


class Bringup:
    """The epochs of one link and the state that follows from them."""

    def __init__(self, draw: Callable[[], int] = random_epoch) -> None:
        self._draw = draw
        self.state = LinkState.INIT
        self.own_epoch = draw()
        self.peer_epoch = 0
        """0: not seen."""
        self.restarts = 0

    @property
    def session(self) -> int:
        """The session of the two epochs; what DATA and credit frames carry while the link is UP."""
        return session_of(self.own_epoch, self.peer_epoch)

    def restart(self) -> None:
        """Begin anew, with another epoch: after silence, a loss of the port, or wrong credits."""
        session = self.session
        epoch = self._draw()
        while epoch == self.own_epoch or session_of(epoch, self.peer_epoch) == session:
            epoch = self._draw()
        self.own_epoch = epoch
        self.state = LinkState.INIT
        self.restarts += 1

    def forget_peer(self) -> None:
        """Take whoever is at the other end for a new peer."""
        self.peer_epoch = 0
        self.state = LinkState.INIT

    def receive(self, init: LinkInit, echo: bool) -> Change:
        """Take an LLR_INIT, or an echo of one, that the peer sent; an LLR_INIT is to be answered after this call."""
        echoed = init.peer_epoch
        was_up = self.state is LinkState.UP
        if echoed not in (0, self.own_epoch):  # of an earlier epoch
            if was_up:
                self.restart()
                self.peer_epoch = init.own_epoch
                return Change(reset=True)
            if echo:
                return Change()
        reset = init.own_epoch != self.peer_epoch
        if reset:
            self.peer_epoch = init.own_epoch
            self.state = LinkState.INIT
        up = echoed == self.own_epoch and self.state is LinkState.INIT
        if up:
            self.state = LinkState.UP
        return Change(reset, up)
