"""A bare P4Runtime client: the generated stubs and nothing that would correct or check what a test wants to send."""

from __future__ import annotations

import queue
import threading
from typing import Any

import grpc
from finsy.proto import U128, p4i, p4r, p4r_grpc, rpc_status

TIMEOUT_S = 5.0


class WriteFailed(Exception):
    """A Write whose status is UNKNOWN; errors has one p4.v1.Error per update."""

    def __init__(self, errors: list[p4r.Error]) -> None:
        super().__init__("; ".join(f"{error.canonical_code}: {error.message}" for error in errors))
        self.errors = errors


class Client:
    """One channel to a server, one stream once arbitrate() was called."""

    def __init__(self, port: int, device_id: int = 1, p4info: p4i.P4Info | None = None) -> None:
        self.device_id = device_id
        self.p4info = p4info or p4i.P4Info()
        self.election_id = 0
        self.role = ""
        self.channel = grpc.insecure_channel(
            f"127.0.0.1:{port}",
            [("grpc.max_receive_message_length", -1), ("grpc.max_metadata_size", 16 << 20)],
        )
        self.stub = p4r_grpc.P4RuntimeStub(self.channel)
        self.received: queue.Queue[p4r.StreamMessageResponse] = queue.Queue()
        self.stream_error: grpc.RpcError | None = None
        self.stream_ended = threading.Event()
        self._to_send: queue.Queue[p4r.StreamMessageRequest | None] = queue.Queue()
        self._stream: Any = None

    # ------------------------------------------------------------------------------------------------ stream

    def open_stream(self) -> None:
        self._stream = self.stub.StreamChannel(iter(self._to_send.get, None))
        threading.Thread(target=self._receive, daemon=True).start()

    def send(self, message: p4r.StreamMessageRequest) -> None:
        if self._stream is None:
            self.open_stream()
        self._to_send.put(message)

    def bid(self, election_id: int | None, role: str = "", config: Any = None) -> None:
        message = p4r.StreamMessageRequest()
        message.arbitration.device_id = self.device_id
        if election_id is not None:
            message.arbitration.election_id.CopyFrom(U128.encode(election_id))
            self.election_id = election_id
        if role:
            self.role = role
            message.arbitration.role.name = role
        if config is not None:
            message.arbitration.role.config.Pack(config)
        self.send(message)

    def next(self, kind: str, timeout_s: float = TIMEOUT_S) -> Any:
        """Return the next stream message, which must be of a kind: arbitration, packet, digest, error, ..."""
        message = self.received.get(timeout=timeout_s)
        assert message.WhichOneof("update") == kind, message
        return getattr(message, kind)

    def become_primary(self, election_id: int = 1) -> Client:
        self.bid(election_id)
        assert self.next("arbitration").status.code == 0
        return self

    def stream_status(self) -> tuple[grpc.StatusCode, str]:
        """Wait for the server to end the stream and return what it ended with."""
        assert self.stream_ended.wait(TIMEOUT_S)
        assert self.stream_error is not None
        return self.stream_error.code(), self.stream_error.details() or ""

    def _receive(self) -> None:
        try:
            for message in self._stream:
                self.received.put(message)
        except grpc.RpcError as error:
            self.stream_error = error
        self.stream_ended.set()

    def half_close(self) -> None:
        self._to_send.put(None)

    def close(self) -> None:
        if self._stream is not None:
            self._stream.cancel()
        self._to_send.put(None)
        self.channel.close()

    # -------------------------------------------------------------------------------------------------- RPCs

    def write_request(self, *updates: p4r.Update, atomicity: Any = 0) -> p4r.WriteRequest:
        request = p4r.WriteRequest(device_id=self.device_id, role=self.role, updates=updates, atomicity=atomicity)
        request.election_id.CopyFrom(U128.encode(self.election_id))
        return request

    def write(self, *updates: p4r.Update, atomicity: Any = 0) -> None:
        try:
            self.stub.Write(self.write_request(*updates, atomicity=atomicity), timeout=30)
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.UNKNOWN:
                raise
            raise WriteFailed(details(error)) from error

    def insert(self, **entity: Any) -> None:
        self.write(p4r.Update(type=p4r.Update.INSERT, entity=p4r.Entity(**entity)))

    def modify(self, **entity: Any) -> None:
        self.write(p4r.Update(type=p4r.Update.MODIFY, entity=p4r.Entity(**entity)))

    def delete(self, **entity: Any) -> None:
        self.write(p4r.Update(type=p4r.Update.DELETE, entity=p4r.Entity(**entity)))

    def read_responses(self, *queries: p4r.Entity, role: str = "") -> Any:
        request = p4r.ReadRequest(device_id=self.device_id, entities=queries, role=role)
        return self.stub.Read(request, timeout=30)

    def read(self, **query: Any) -> list[Any]:
        """Read one kind of entity and return the messages inside."""
        (kind,) = query
        found = [e for r in self.read_responses(p4r.Entity(**query)) for e in r.entities]
        assert all(entity.WhichOneof("entity") == kind for entity in found)
        return [getattr(entity, kind) for entity in found]

    def push(
        self, action: Any, p4info: p4i.P4Info | None, device_config: bytes = b"", cookie: int | None = None
    ) -> None:
        request = p4r.SetForwardingPipelineConfigRequest(device_id=self.device_id, role=self.role, action=action)
        request.election_id.CopyFrom(U128.encode(self.election_id))
        if p4info is not None:
            request.config.p4info.CopyFrom(p4info)
            request.config.p4_device_config = device_config
            if cookie is not None:
                request.config.cookie.cookie = cookie
        self.stub.SetForwardingPipelineConfig(request, timeout=60)

    def get_config(self, response_type: Any = 0) -> p4r.ForwardingPipelineConfig | None:
        request = p4r.GetForwardingPipelineConfigRequest(device_id=self.device_id, response_type=response_type)
        response = self.stub.GetForwardingPipelineConfig(request, timeout=TIMEOUT_S)
        return response.config if response.HasField("config") else None

    # ------------------------------------------------------------------------------------------------- names

    def id_of(self, name: str) -> int:
        """Find an object by the end of its name."""
        fields = ("tables", "actions", "counters", "meters", "registers", "digests", "direct_counters", "direct_meters")
        found = [o.preamble for f in fields for o in getattr(self.p4info, f)]
        (number,) = [p.id for p in found if p.name == name or p.name.endswith("." + name)]
        return number

    def action(self, name: str, *args: int) -> p4r.TableAction:
        message = p4r.TableAction()
        message.action.action_id = self.id_of(name)
        for number, value in enumerate(args, 1):
            message.action.params.add(param_id=number, value=octets(value))
        return message

    def entry(self, table: str, *matches: p4r.FieldMatch, **fields: Any) -> p4r.TableEntry:
        return p4r.TableEntry(table_id=self.id_of(table), match=matches, **fields)


def octets(value: int) -> bytes:
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def exact(field: int, value: int) -> p4r.FieldMatch:
    return p4r.FieldMatch(field_id=field, exact=p4r.FieldMatch.Exact(value=octets(value)))


def lpm(field: int, value: int, prefix: int) -> p4r.FieldMatch:
    return p4r.FieldMatch(field_id=field, lpm=p4r.FieldMatch.LPM(value=octets(value), prefix_len=prefix))


def ternary(field: int, value: int, mask: int) -> p4r.FieldMatch:
    return p4r.FieldMatch(field_id=field, ternary=p4r.FieldMatch.Ternary(value=octets(value), mask=octets(mask)))


def between(field: int, low: int, high: int) -> p4r.FieldMatch:
    return p4r.FieldMatch(field_id=field, range=p4r.FieldMatch.Range(low=octets(low), high=octets(high)))


def optional(field: int, value: int) -> p4r.FieldMatch:
    return p4r.FieldMatch(field_id=field, optional=p4r.FieldMatch.Optional(value=octets(value)))


def details(error: grpc.RpcError) -> list[p4r.Error]:
    """Unpack the errors of a failed batch."""
    metadata: Any = error.trailing_metadata()
    for key, value in metadata:
        if key == "grpc-status-details-bin":
            errors = []
            for each in rpc_status.Status.FromString(value).details:
                unpacked = p4r.Error()
                assert each.Unpack(unpacked)
                errors.append(unpacked)
            return errors
    raise AssertionError(f"no details with {error}")
