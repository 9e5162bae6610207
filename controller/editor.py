"""Edit a running switch as `make repl` does, from a program: its primary client for a moment, beside the controller.

The controller steps back while an editor is entered, and leaves its edits alone afterwards (`controller.repl`).
"""

from __future__ import annotations

import queue
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Final, Self

import grpc
from finsy.proto import p4r, rpc_code

from codec.fabric import SwitchNode
from controller.entities import to_p4
from controller.entries import Entry
from controller.reader import TIMEOUT_S, ReadError, SwitchReader

_NS_PER_S: Final = 1_000_000_000


def next_election_id() -> tuple[int, int]:
    """Return an election id above all earlier ones: high 64 bits, low 64 bits.

    The controller takes over the id of whoever was primary last, so that one with the same id would be refused.
    """
    return divmod(time.time_ns(), _NS_PER_S)


class SwitchEditor(SwitchReader):
    """A switch's primary client for as long as it is entered. Raises ReadError when the switch refuses something."""

    def __init__(self, node: SwitchNode) -> None:
        super().__init__(node)
        high, low = next_election_id()
        self._election = p4r.Uint128(high=high, low=low)
        self._requests: queue.SimpleQueue[p4r.StreamMessageRequest | None] = queue.SimpleQueue()
        self._stream: Any = None

    def __enter__(self) -> Self:
        self._stream = self._stub.StreamChannel(iter(self._requests.get, None))
        request = p4r.StreamMessageRequest()
        request.arbitration.device_id = self.node.device_id
        request.arbitration.election_id.CopyFrom(self._election)
        self._requests.put(request)
        try:
            for message in self._stream:
                if message.HasField("arbitration"):
                    if message.arbitration.status.code != rpc_code.OK:
                        raise ReadError(f"switch {self.node.name}: another client is in charge, with a higher id")
                    return self
            raise ReadError(f"switch {self.node.name} ({self.node.grpc}): the stream has ended")
        except grpc.RpcError as error:
            self._leave()
            raise self._error(error) from None
        except ReadError:
            self._leave()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._leave()
        super().__exit__(kind, value, traceback)

    def insert(self, entries: Iterable[Entry]) -> None:
        """Insert entries, all in one request."""
        self._write(p4r.Update.INSERT, entries)

    def modify(self, entries: Iterable[Entry]) -> None:
        """Change entries that are there."""
        self._write(p4r.Update.MODIFY, entries)

    def delete(self, entries: Iterable[Entry]) -> None:
        """Delete entries; only what they match counts."""
        self._write(p4r.Update.DELETE, entries)

    def _write(self, kind: Any, entries: Iterable[Entry]) -> None:
        request = p4r.WriteRequest(device_id=self.node.device_id, election_id=self._election)
        for item in entries:
            request.updates.add(type=kind, entity=to_p4(item).encode(self.schema))
        if not request.updates:
            return
        try:
            self._stub.Write(request, timeout=TIMEOUT_S)
        except grpc.RpcError as error:
            raise self._error(error) from None

    def _leave(self) -> None:
        self._requests.put(None)
        self._stream.cancel()
