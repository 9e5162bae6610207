"""The one device of a server: its pipeline, its clients, and what passes between data plane and controllers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

from finsy.proto import U128, p4r

from p4switch.dataplane import DataPlane
from p4switch.server import pipeline as pipelines
from p4switch.server import status
from p4switch.server.arbitration import Arbiter, Session, role_name
from p4switch.server.dataplane_errors import translated
from p4switch.server.entities import Entities
from p4switch.server.options import ServerOptions
from p4switch.server.packet_io import decode_packet_in, encode_packet_out
from p4switch.server.pipeline import Action, Pipeline
from p4switch.server.programs import Programs
from p4switch.server.roles import RoleConfig
from p4switch.server.status import INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED, BatchError, RequestError
from p4switch.server.write import write

LOG = logging.getLogger(__name__)

_WITH_CONFIG = (Action.VERIFY, Action.VERIFY_AND_SAVE, Action.VERIFY_AND_COMMIT, Action.RECONCILE_AND_COMMIT)

Clients = tuple[tuple[Session, RoleConfig], ...]


class Device:
    """Carries out requests, one modifying request at a time.

    The lock covers Writes, reads, pipeline changes and arbitration: a new primary is named only when no Write of the
    old one is running, as 1.4 demands. The data plane never waits for it.
    """

    def __init__(self, dataplane: DataPlane, options: ServerOptions, initial: Pipeline | None = None) -> None:
        self._dataplane = dataplane
        self._lock = threading.RLock()
        self._arbiter = Arbiter(options.device_id)
        self._primaries: Clients = ()
        self._programs = Programs(dataplane, self._lock, self)
        dataplane.on_packet_in = self._packet_in
        dataplane.on_digest = self._digest
        if initial is not None:
            self._programs.realize(initial)

    def close(self) -> None:
        """Stop what runs in the background. Streams have been ended before."""
        self._dataplane.on_packet_in = None
        self._dataplane.on_digest = None
        with self._lock:
            self._programs.close()

    # ---------------------------------------------------------------------------------------------- requests

    def write(self, request: p4r.WriteRequest) -> None:
        """Carry out a Write; RequestError if it is not allowed at all, BatchError if updates failed."""
        with self._lock:
            config = self._authorize(request)
            write(self._require_entities(), request, config)

    def read(self, request: p4r.ReadRequest) -> tuple[Iterator[p4r.ReadResponse], BatchError | None]:
        """Carry out a Read; responses are made as they are asked for. The error, if any, is to be told after them."""
        with self._lock:
            self._arbiter.check_device(request.device_id)
            config = None
            if request.role:
                role = self._arbiter.find_role(request.role)
                if role is None:
                    raise RequestError(NOT_FOUND, f"no client has arbitrated for role '{request.role}'")
                config = role.config
            return self._require_entities().read(request, config)

    def set_pipeline(self, request: p4r.SetForwardingPipelineConfigRequest) -> None:
        """Carry out an action of SetForwardingPipelineConfig. Others are served while it compiles."""
        with self._lock:
            self._authorize_pipeline(request)
        if request.action == Action.COMMIT:
            if request.config.ByteSize():  # finsy always sends one, be it empty
                raise RequestError(INVALID_ARGUMENT, "COMMIT realises the saved config; it takes none with it")
            verified = None
        elif request.action in _WITH_CONFIG:
            verified = pipelines.verify(request, self._dataplane.options.trace)  # compiles: not under the lock
        else:
            names = [name for name, value in Action.Action.items() if value]
            raise RequestError(INVALID_ARGUMENT, f"action {request.action} is none of {status.list_choices(names)}")
        with self._lock:
            self._authorize_pipeline(request)  # another client may have become primary while this one compiled
            if request.action == Action.VERIFY:
                return
            if verified is None:
                self._programs.commit()
            elif request.action == Action.VERIFY_AND_SAVE:
                self._programs.save(verified)
            elif request.action == Action.VERIFY_AND_COMMIT:
                self._programs.realize(verified)
            else:
                self._programs.reconcile(verified)

    def get_pipeline(self, request: p4r.GetForwardingPipelineConfigRequest) -> p4r.GetForwardingPipelineConfigResponse:
        """Describe the running pipeline."""
        with self._lock:
            self._arbiter.check_device(request.device_id)
            running = self._programs.running
            return pipelines.describe(running.pipeline if running else None, request.response_type)

    def arbitrate(self, session: Session, message: p4r.MasterArbitrationUpdate) -> None:
        """Take in a bid; RequestError when the stream has to end."""
        with self._lock:
            try:
                self._arbiter.update(session, message)
            finally:
                self._primaries = tuple(self._arbiter.primaries())

    def leave(self, session: Session) -> None:
        """Forget a session; may be called more than once."""
        with self._lock:
            self._arbiter.leave(session)
            self._primaries = tuple(self._arbiter.primaries())

    def packet_out(self, session: Session, message: p4r.PacketOut) -> None:
        """Inject a packet on the CPU port; RequestError when this client may not, or the message is wrong."""
        self._require_primary(session, "packet-out")
        running = self._programs.running
        if running is None:
            raise _no_pipeline()
        with translated("packet-out"):
            self._dataplane.packet_out(encode_packet_out(running.pipeline.schema, message))

    def digest_ack(self, session: Session, message: p4r.DigestListAck) -> None:
        """Take in an acknowledgement; RequestError when this client may not send it or the digest does not exist."""
        self._require_primary(session, "digest acknowledgement")
        with self._lock:
            running = self._programs.running
            if running is None:
                raise _no_pipeline()
            running.entities.digests.acknowledge(message)

    # ------------------------------------------------------------------------------------- from the data plane

    def _packet_in(self, frame: bytes) -> None:
        running = self._programs.running
        if running is None:
            return
        packet = decode_packet_in(running.pipeline.schema, frame)
        response = p4r.StreamMessageResponse(packet=packet)
        for session, role in self._primaries:
            if role.wants_packet_in(packet):
                session.offer(response)

    def _digest(self, digest_id: int, messages: list[tuple[int, ...]]) -> None:
        running = self._programs.running
        if running is not None:
            for message in messages:
                running.entities.digests.receive(digest_id, tuple(message))

    def digest(self, digest_id: int, message: p4r.DigestList) -> None:
        """Send a digest list to the primaries that may have it."""
        self._notify(digest_id, p4r.StreamMessageResponse(digest=message))

    def idle_timeout(self, table_id: int, message: p4r.IdleTimeoutNotification) -> None:
        """Send news of idle entries to the primaries that may have them."""
        self._notify(table_id, p4r.StreamMessageResponse(idle_timeout_notification=message))

    def _notify(self, p4_id: int, response: p4r.StreamMessageResponse) -> None:
        for session, role in self._primaries:
            if role.may_write(p4_id):
                session.offer(response)

    # --------------------------------------------------------------------------------------------- internals

    def _authorize(self, request: p4r.WriteRequest | p4r.SetForwardingPipelineConfigRequest) -> RoleConfig:
        self._arbiter.check_device(request.device_id)
        election_id = U128.decode(request.election_id) if request.HasField("election_id") else None
        return self._arbiter.check_primary(role_name(request.role, request.role_id), election_id).config

    def _authorize_pipeline(self, request: p4r.SetForwardingPipelineConfigRequest) -> None:
        if not self._authorize(request).may_push_pipeline:
            raise RequestError(PERMISSION_DENIED, f"role '{request.role}' may not set the forwarding pipeline config")

    def _require_entities(self) -> Entities:
        addressed = self._programs.addressed
        if addressed is None:
            raise _no_pipeline()
        return addressed.entities

    def _require_primary(self, session: Session, what: str) -> None:
        if not any(primary is session for primary, _ in self._primaries):
            raise RequestError(PERMISSION_DENIED, f"{what} refused: this client is not the primary")


def _no_pipeline() -> RequestError:
    return RequestError(
        status.FAILED_PRECONDITION,
        "no forwarding pipeline config is set on this device; push one with SetForwardingPipelineConfig",
    )
