"""The packet replication engine: multicast groups and clone sessions."""

from __future__ import annotations

from collections.abc import Iterable

from finsy.proto import p4r

from p4switch.dataplane import DataPlane
from p4switch.server.handler import DELETE, INSERT, DataPlaneUser, Sink, Undo
from p4switch.server.status import ALREADY_EXISTS, INVALID_ARGUMENT, NOT_FOUND, OUT_OF_RANGE, RequestError
from p4switch.server.values import decode_unsigned, encode_unsigned

_PORT_BITS = 9  # v1model's PortId_t
_MOST_GROUP = (1 << 16) - 1  # v1model's mcast_grp
_MOST_INSTANCE = (1 << 16) - 1  # v1model's egress_rid
_MOST_SESSION = (1 << 15) - 1  # BMv2 refuses sessions from 32,768 on
_NO_ID = 0  # the engine is no object of the P4Info: only roles with full access have it

Replicas = list[tuple[int, int]]  # (port, instance)


class ReplicationEntities(DataPlaneUser):
    """PacketReplicationEngineEntry. The messages are kept, so that a read gives back what was written."""

    def __init__(self, dataplane: DataPlane) -> None:
        super().__init__(dataplane)
        self._groups: dict[int, p4r.MulticastGroupEntry] = {}
        self._sessions: dict[int, p4r.CloneSessionEntry] = {}

    def p4_id(self, message: p4r.PacketReplicationEngineEntry) -> int:
        return _NO_ID

    def write(self, kind: int, message: p4r.PacketReplicationEngineEntry) -> Undo:
        chosen = message.WhichOneof("type")
        if chosen == "multicast_group_entry":
            return self._write_group(kind, message.multicast_group_entry)
        if chosen == "clone_session_entry":
            return self._write_session(kind, message.clone_session_entry)
        raise RequestError(
            INVALID_ARGUMENT, "packet replication engine entry: neither multicast_group_entry nor clone_session_entry"
        )

    def read(self, query: p4r.PacketReplicationEngineEntry, sink: Sink) -> None:
        chosen = query.WhichOneof("type")
        if chosen is None:
            raise RequestError(
                INVALID_ARGUMENT,
                "packet replication engine entry: neither multicast_group_entry nor clone_session_entry",
            )
        if chosen == "multicast_group_entry":
            wanted = query.multicast_group_entry.multicast_group_id
            _check_exists(wanted, self._groups, "multicast group")
            for number, group in self._groups.items():
                if wanted in (0, number) and sink.shows(_NO_ID):
                    sink.add().packet_replication_engine_entry.multicast_group_entry.CopyFrom(group)
        else:
            wanted = query.clone_session_entry.session_id
            _check_exists(wanted, self._sessions, "clone session")
            for number, session in self._sessions.items():
                if wanted in (0, number) and sink.shows(_NO_ID):
                    sink.add().packet_replication_engine_entry.clone_session_entry.CopyFrom(session)

    def _write_group(self, kind: int, message: p4r.MulticastGroupEntry) -> Undo:
        number = message.multicast_group_id
        what = f"multicast group {number}"
        _check_number(number, _MOST_GROUP, what)
        _check_presence(kind, number in self._groups, what)
        old = self._groups.get(number)
        if kind == DELETE:
            self._set_group(number, None)
        else:
            _decode_replicas(message.replicas, what)
            kept = p4r.MulticastGroupEntry()
            kept.CopyFrom(message)
            _canonicalize(kept.replicas)
            self._set_group(number, kept)
        return lambda: self._set_group(number, old)

    def _set_group(self, number: int, message: p4r.MulticastGroupEntry | None) -> None:
        if message is None:
            self.dataplane.delete_multicast_group(number)
            del self._groups[number]
        else:
            self.dataplane.set_multicast_group(number, _decode_replicas(message.replicas, f"multicast group {number}"))
            self._groups[number] = message

    def _write_session(self, kind: int, message: p4r.CloneSessionEntry) -> Undo:
        number = message.session_id
        what = f"clone session {number}"
        _check_number(number, _MOST_SESSION, what)
        _check_presence(kind, number in self._sessions, what)
        old = self._sessions.get(number)
        if kind == DELETE:
            self._set_session(number, None)
        else:
            _decode_replicas(message.replicas, what)
            if message.class_of_service:
                raise RequestError(
                    INVALID_ARGUMENT, f"{what}: class of service {message.class_of_service}; v1model has only 0"
                )
            if message.packet_length_bytes < 0:
                raise RequestError(INVALID_ARGUMENT, f"{what}: packet length {message.packet_length_bytes} is negative")
            kept = p4r.CloneSessionEntry()
            kept.CopyFrom(message)
            _canonicalize(kept.replicas)
            self._set_session(number, kept)
        return lambda: self._set_session(number, old)

    def _set_session(self, number: int, message: p4r.CloneSessionEntry | None) -> None:
        if message is None:
            self.dataplane.delete_clone_session(number)
            del self._sessions[number]
        else:
            replicas = _decode_replicas(message.replicas, f"clone session {number}")
            self.dataplane.set_clone_session(number, replicas, message.packet_length_bytes)
            self._sessions[number] = message


def _check_number(number: int, most: int, what: str) -> None:
    if not 0 < number <= most:
        code = OUT_OF_RANGE if number and most == _MOST_GROUP else INVALID_ARGUMENT  # as BMv2 has it
        raise RequestError(code, f"{what}: the number must be between 1 and {most}")


def _check_presence(kind: int, present: bool, what: str) -> None:
    if kind == INSERT and present:
        raise RequestError(ALREADY_EXISTS, f"{what} exists already; MODIFY it")
    if kind != INSERT and not present:
        raise RequestError(NOT_FOUND, f"{what} does not exist")


def _check_exists(wanted: int, known: Iterable[int], what: str) -> None:
    if wanted and wanted not in known:
        raise RequestError(NOT_FOUND, f"{what} {wanted} does not exist")


def _decode_replicas(messages: Iterable[p4r.Replica], what: str) -> Replicas:
    replicas: Replicas = []
    for message in messages:
        if message.WhichOneof("port_kind") == "port":
            port = decode_unsigned(message.port, _PORT_BITS, f"{what}: port of a replica")
        else:
            port = message.egress_port  # deprecated in 1.4; p4runtime-shell 0.0.6 still writes it
            if port >> _PORT_BITS:
                raise RequestError(
                    INVALID_ARGUMENT, f"{what}: port {port} of a replica is above {(1 << _PORT_BITS) - 1}"
                )
        if message.instance > _MOST_INSTANCE:
            raise RequestError(
                INVALID_ARGUMENT, f"{what}: instance {message.instance} of a replica is above {_MOST_INSTANCE}"
            )
        if message.backup_replicas:
            raise RequestError(INVALID_ARGUMENT, f"{what}: backup replicas are not supported by this switch")
        if (port, message.instance) in replicas:
            raise RequestError(INVALID_ARGUMENT, f"{what}: port {port}, instance {message.instance} is listed twice")
        replicas.append((port, message.instance))
    return replicas


def _canonicalize(replicas: Iterable[p4r.Replica]) -> None:
    for replica in replicas:
        if replica.WhichOneof("port_kind") == "port":
            replica.port = encode_unsigned(int.from_bytes(replica.port, "big"))
