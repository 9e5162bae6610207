"""The entities of one loaded pipeline, by the names that p4.v1.Entity gives them; and the Read RPC over them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from finsy.proto import p4r

from p4switch.dataplane import DataPlane
from p4switch.server import status
from p4switch.server.arrays import CounterEntities, MeterEntities, RegisterEntities
from p4switch.server.digests import DigestEntities
from p4switch.server.direct import DirectCounterEntities, DirectMeterEntities
from p4switch.server.externs import ExternEntities
from p4switch.server.handler import DataPlaneUser, EntityHandler, Sink
from p4switch.server.idle import IdleWatcher
from p4switch.server.profile_entities import GroupEntities, MemberEntities
from p4switch.server.profiles import Ports, Profiles
from p4switch.server.replication import ReplicationEntities
from p4switch.server.roles import RoleConfig
from p4switch.server.schema import Schema
from p4switch.server.status import BatchError, RequestError
from p4switch.server.table_state import TableState
from p4switch.server.tables import TableEntities
from p4switch.server.value_sets import ValueSetEntities
from p4switch.server.watch import PortWatcher


class Notifier(Protocol):
    """Where notifications that arise from entities go."""

    def digest(self, digest_id: int, message: p4r.DigestList) -> None: ...

    def idle_timeout(self, table_id: int, message: p4r.IdleTimeoutNotification) -> None: ...


class Entities:
    """What can be written and read while a pipeline is loaded.

    notifier: None for a program that no packet meets. ports: lists the ports that clients mean, which are those of the
    running switch even if the program is loaded aside.
    """

    def __init__(
        self, schema: Schema, dataplane: DataPlane, lock: threading.RLock, notifier: Notifier | None, ports: Ports
    ) -> None:
        self.schema = schema
        self.dataplane = dataplane
        self._notifier = notifier
        for translation in schema.types.translations.values():
            translation.port_of = lambda name: next((port.port for port in ports() if port.iface == name), None)
        profiles = Profiles(schema, dataplane, ports)
        self._state = state = TableState(schema, dataplane, profiles)
        self.tables = TableEntities(state)
        self.digests = DigestEntities(schema, self._send_digest)
        timed = any(table.idle_timeout for table in schema.tables.values())
        self._idle = IdleWatcher(state, lock, self._send_idle_timeout) if timed else None
        selects = any(profile.selector for profile in schema.profiles.values())
        self._watcher = PortWatcher(profiles, lock) if selects else None
        counters, meters = CounterEntities(schema, dataplane), MeterEntities(schema, dataplane)
        registers, value_sets = RegisterEntities(schema, dataplane), ValueSetEntities(schema, dataplane)
        replication = ReplicationEntities(dataplane)
        self._users: tuple[DataPlaneUser, ...] = (profiles, state, counters, meters, registers, value_sets, replication)
        self._handlers: dict[str, EntityHandler] = {
            "table_entry": self.tables,
            "direct_counter_entry": DirectCounterEntities(state),
            "direct_meter_entry": DirectMeterEntities(state),
            "counter_entry": counters,
            "meter_entry": meters,
            "register_entry": registers,
            "packet_replication_engine_entry": replication,
            "value_set_entry": value_sets,
            "digest_entry": self.digests,
            "action_profile_member": MemberEntities(profiles),
            "action_profile_group": GroupEntities(profiles),
            "extern_entry": ExternEntities(),
        }

    def move(self, dataplane: DataPlane, notifier: Notifier) -> None:
        """Go on with another data plane, which has adopted the program and the state of the present one."""
        self.dataplane = dataplane
        self._notifier = notifier
        for user in self._users:
            user.dataplane = dataplane

    def _send_digest(self, digest_id: int, message: p4r.DigestList) -> None:
        if self._notifier is not None:
            self._notifier.digest(digest_id, message)

    def _send_idle_timeout(self, table_id: int, message: p4r.IdleTimeoutNotification) -> None:
        if self._notifier is not None:
            self._notifier.idle_timeout(table_id, message)

    def handler(self, kind: str) -> EntityHandler:
        """Return what handles entities of a kind."""
        return self._handlers[kind]

    def read(
        self, request: p4r.ReadRequest, role: RoleConfig | None
    ) -> tuple[Iterator[p4r.ReadResponse], BatchError | None]:
        """Read everything that the request asks for, as it is now; an error is to be told after the responses.

        The responses are made as they are asked for, for which nothing has to be locked.
        """
        sink = Sink(role)
        errors = []
        for query in request.entities:
            try:
                kind = query.WhichOneof("entity")
                if kind is None:
                    raise RequestError(
                        status.INVALID_ARGUMENT,
                        "the query has no entity, or one of an unknown kind; kinds have no wildcard",
                    )
                handler, message = self.handler(kind), getattr(query, kind)
                p4_id = handler.p4_id(message)
                of_role = role is None or not p4_id or role.may_write(p4_id)
                handler.read(message, sink if of_role else Sink(role))  # a wrong query is an error all the same
                errors.append(p4r.Error(canonical_code=status.OK))
            except RequestError as error:
                errors.append(error.to_p4_error())
        failed = any(error.canonical_code != status.OK for error in errors)
        return sink.responses(), BatchError("queries", errors) if failed else None

    @contextmanager
    def taking_over(self) -> Iterator[None]:
        """Let the state of another program be written inside, with what a client may not set."""
        self._state.takes_over = True
        try:
            yield
        finally:
            self._state.takes_over = False

    def close(self) -> None:
        """Stop what runs in the background."""
        self.digests.close()
        for watcher in (self._idle, self._watcher):
            if watcher is not None:
                watcher.close()
