"""Digests: DigestEntry (what to report and how), DigestList towards the primary, DigestListAck back.

Follows the pseudo-code of P4Runtime 1.4, "DigestEntry": messages gather in a buffer per digest until it is full or old
enough; what was sent and not yet acknowledged is not sent again within its time-out.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from finsy.proto import p4r

from p4switch.server.handler import DELETE, INSERT, Sink, Undo
from p4switch.server.schema import Digest, Schema
from p4switch.server.status import ALREADY_EXISTS, INVALID_ARGUMENT, NOT_FOUND, RequestError

Leaves = tuple[int, ...]
Send = Callable[[int, p4r.DigestList], None]  # (digest id, list)

_MOST_IN_LIST = 1024  # when max_list_size is 0, "no limit"; keeps a message well below gRPC's limits


@dataclass
class _Channel:
    """The state of one enabled digest. Times are time.monotonic() in seconds."""

    digest: Digest
    config: p4r.DigestEntry.Config
    buffer: dict[Leaves, None] = field(default_factory=dict)  # an ordered set
    first_at: float = 0.0
    unacknowledged: dict[int, tuple[float, frozenset[Leaves]]] = field(default_factory=dict)  # list id -> ...
    cached: set[Leaves] = field(default_factory=set)  # all of unacknowledged


class DigestEntities:
    """DigestEntry, and the buffers behind it. A thread of its own watches the time-outs while any digest is enabled."""

    def __init__(self, schema: Schema, send: Send) -> None:
        self._schema = schema
        self._send = send
        self._channels: dict[int, _Channel] = {}
        self._changed = threading.Condition()
        self._next_list_id = 1
        self._thread: threading.Thread | None = None
        self._closed = False

    def p4_id(self, message: p4r.DigestEntry) -> int:
        return message.digest_id

    def write(self, kind: int, message: p4r.DigestEntry) -> Undo:
        digest = self._schema.find("digest", self._schema.digests, message.digest_id)
        with self._changed:
            old = self._channels.get(digest.id)
            if kind == INSERT and old is not None:
                raise RequestError(ALREADY_EXISTS, f"digest '{digest.name}' is enabled already; MODIFY it")
            if kind != INSERT and old is None:
                raise RequestError(NOT_FOUND, f"digest '{digest.name}' is not enabled; INSERT it first")
            old_config = p4r.DigestEntry.Config()
            if old is not None:
                old_config.CopyFrom(old.config)
            if kind == DELETE:
                del self._channels[digest.id]
            else:
                for name in ("max_timeout_ns", "max_list_size", "ack_timeout_ns"):
                    if getattr(message.config, name) < 0:
                        raise RequestError(INVALID_ARGUMENT, f"digest '{digest.name}': {name} is negative")
                self._enable(digest, message.config)
            self._changed.notify()

        def undo() -> None:
            with self._changed:
                if old is None:
                    self._channels.pop(digest.id, None)
                else:
                    self._enable(digest, old_config)
                self._changed.notify()

        return undo

    def read(self, query: p4r.DigestEntry, sink: Sink) -> None:
        if query.digest_id:
            digest = self._schema.find("digest", self._schema.digests, query.digest_id)
            if digest.id not in self._channels:
                raise RequestError(NOT_FOUND, f"digest '{digest.name}' is not enabled")
        with self._changed:
            enabled = [(number, channel.config) for number, channel in self._channels.items()]
        for number, config in enabled:
            if query.digest_id in (0, number) and sink.shows(number):
                entry = sink.add().digest_entry
                entry.digest_id = number
                entry.config.CopyFrom(config)

    def receive(self, digest_id: int, leaves: Leaves) -> None:
        """Take in a message of the data plane; dropped when its digest is not enabled or it was reported just now."""
        with self._changed:
            channel = self._channels.get(digest_id)
            if channel is None or leaves in channel.cached or leaves in channel.buffer:
                return
            if not channel.buffer:
                channel.first_at = time.monotonic()
            channel.buffer[leaves] = None
            most = channel.config.max_list_size or _MOST_IN_LIST
            if len(channel.buffer) >= most or channel.config.max_timeout_ns == 0:
                self._flush(channel)
            else:
                self._changed.notify()

    def acknowledge(self, message: p4r.DigestListAck) -> None:
        """Allow what a list carried to be reported again; unknown and late list ids are ignored."""
        self._schema.find("digest", self._schema.digests, message.digest_id)
        with self._changed:
            channel = self._channels.get(message.digest_id)
            if channel is not None:
                self._forget(channel, message.list_id)

    def close(self) -> None:
        """Stop the thread; nothing is reported any more."""
        with self._changed:
            self._closed = True
            self._channels.clear()
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _enable(self, digest: Digest, config: p4r.DigestEntry.Config) -> None:
        kept = p4r.DigestEntry.Config()
        kept.CopyFrom(config)
        if digest.id in self._channels:
            self._channels[digest.id].config = kept
        else:
            self._channels[digest.id] = _Channel(digest, kept)
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="digests", daemon=True)
            self._thread.start()

    def _flush(self, channel: _Channel) -> None:
        message = p4r.DigestList(digest_id=channel.digest.id, list_id=self._next_list_id, timestamp=time.time_ns())
        message.data.extend(channel.digest.type.encode(iter(leaves)) for leaves in channel.buffer)
        self._next_list_id += 1
        if channel.config.ack_timeout_ns:
            sent = frozenset(channel.buffer)
            channel.unacknowledged[message.list_id] = (time.monotonic(), sent)
            channel.cached |= sent
        channel.buffer = {}
        self._send(channel.digest.id, message)

    @staticmethod
    def _forget(channel: _Channel, list_id: int) -> None:
        _, sent = channel.unacknowledged.pop(list_id, (0.0, frozenset()))
        channel.cached -= sent

    def _watch(self) -> None:
        with self._changed:
            while not self._closed:
                self._changed.wait(self._expire(time.monotonic()))

    def _expire(self, now: float) -> float | None:
        """Do what is due and return the seconds until something will be, None when nothing is waiting."""
        due: list[float] = []
        for channel in self._channels.values():
            if channel.buffer:
                at = channel.first_at + channel.config.max_timeout_ns / 1e9
                if at <= now:
                    self._flush(channel)
                else:
                    due.append(at)
            for list_id, (sent_at, _) in list(channel.unacknowledged.items()):
                at = sent_at + channel.config.ack_timeout_ns / 1e9
                if at <= now:
                    self._forget(channel, list_id)
                else:
                    due.append(at)
        return min(due) - now if due else None
