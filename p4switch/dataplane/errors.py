"""What the switch refuses."""

from __future__ import annotations


class DataPlaneError(Exception):
    """Something the switch refused; the message says what and why."""


class InvalidArgument(DataPlaneError):
    """An argument makes no sense: an unknown id, an index out of range, a value that is too wide."""


class EntryExists(DataPlaneError):
    pass


class EntryMissing(DataPlaneError):
    pass


class TableFull(DataPlaneError):
    pass


class ReadOnly(DataPlaneError):
    """Const entries or a const default action."""


class SystemFailure(DataPlaneError):
    """The operating system refused: an interface, a socket, memory, a file."""


class WrongState(DataPlaneError):
    """Not now: no program is loaded, the switch runs already."""


class EndlessPacket(DataPlaneError):
    """An injected packet goes round for ever."""


BY_STATUS: dict[int, type[DataPlaneError]] = {
    -1: InvalidArgument,
    -2: EntryExists,
    -3: EntryMissing,
    -4: TableFull,
    -5: ReadOnly,
    -6: SystemFailure,
    -7: WrongState,
    -8: EndlessPacket,
}
