"""Random messages: whatever a client sends, it gets an answer, never an internal error, and the switch goes on.

$P4SWITCH_FUZZ multiplies the rounds.
"""

from __future__ import annotations

import random
from typing import Any

import grpc
import pytest
from finsy.proto import p4r
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from p4switch.build import BuildResult
from p4switch.dataplane import DataPlane
from p4switch.server import P4RuntimeServer, status
from tests.p4switch.fuzz import TIMES
from tests.p4switch.server.client import Client, WriteFailed, exact, lpm
from tests.p4switch.server.test_entities import counter, group, meter, session
from tests.p4switch.server.test_tables import GOOD

ROUNDS = 1500 * TIMES
_NUMBERS = (0, 1, 2, 3, 5, 7, 9, 255, 510, 511, 512, 65535, 65536, (1 << 31) - 1)


class Fuzzer:
    """Makes random messages that look plausible often enough to get past the first check."""

    def __init__(self, client: Client, seed: int) -> None:
        self.random = random.Random(seed)
        info = client.p4info
        kinds = (
            "actions",
            "counters",
            "direct_counters",
            "meters",
            "direct_meters",
            "registers",
            "digests",
            "value_sets",
        )
        self.ids = [each.preamble.id for kind in kinds for each in getattr(info, kind)]
        self.tables = [table.preamble.id for table in info.tables]
        self.good = [p4r.Entity(table_entry=build(client)) for build in GOOD.values()]
        self.good += [
            p4r.Entity(counter_entry=counter(client, 3, 1, 2)),
            p4r.Entity(meter_entry=meter(client, 1, 1, 2, 3, 4)),
            p4r.Entity(packet_replication_engine_entry=group(3, (1, 1), (2, 2))),
            p4r.Entity(packet_replication_engine_entry=session(3, (1, 1))),
            p4r.Entity(digest_entry=p4r.DigestEntry(digest_id=client.id_of("learn_t"))),
        ]

    def fill(self, message: Message, depth: int = 0) -> Any:
        chosen = {one.name: self.random.choice(one.fields) for one in message.DESCRIPTOR.oneofs}
        for field in message.DESCRIPTOR.fields:
            of = field.containing_oneof
            if depth > 6 or (of is not None and field is not chosen[of.name]) or self.random.random() < 0.3:
                continue
            if field.message_type is not None and field.message_type.full_name == "google.protobuf.Any":
                continue
            if field.is_repeated:
                for _ in range(self.random.choice((0, 1, 1, 2, 3))):
                    if field.message_type is not None:
                        self.fill(getattr(message, field.name).add(), depth + 1)
                    else:
                        getattr(message, field.name).append(self.value(field))
            elif field.message_type is not None:
                child = getattr(message, field.name)
                child.SetInParent()
                self.fill(child, depth + 1)
            else:
                setattr(message, field.name, self.value(field))
        return message

    def value(self, field: FieldDescriptor) -> Any:
        pick = self.random
        if field.name.endswith("_id") and field.type == FieldDescriptor.TYPE_UINT32 and pick.random() < 0.7:
            if field.name == "table_id":
                return pick.choice(self.tables)
            return pick.choice(self.ids if pick.random() < 0.5 else (1, 2, 3))
        if field.type == FieldDescriptor.TYPE_BYTES:
            return pick.randbytes(pick.choice((0, 1, 1, 2, 2, 6, 6, 7, 30)))
        if field.type == FieldDescriptor.TYPE_STRING:
            return pick.choice(("", "a", "ä" * 5))
        if field.type == FieldDescriptor.TYPE_BOOL:
            return pick.random() < 0.3
        if field.type == FieldDescriptor.TYPE_ENUM:
            return pick.choice((0, 1, 2, 3, 17))
        number = pick.choice(_NUMBERS)
        signed = field.type in (FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_INT64)
        return -number - 1 if signed and pick.random() < 0.2 else number

    def mutate(self, message: Message) -> None:
        """Change one field somewhere in a message."""
        present = [field for field, _ in message.ListFields()]
        field = self.random.choice(present or message.DESCRIPTOR.fields)
        if field.message_type is None:
            if not field.is_repeated:
                setattr(message, field.name, self.value(field))
        elif not field.is_repeated:
            self.mutate(getattr(message, field.name))
        elif getattr(message, field.name):
            self.mutate(self.random.choice(getattr(message, field.name)))

    def update(self) -> p4r.Update:
        update = p4r.Update(type=self.random.choice((1, 1, 1, 2, 2, 3, 3, 0, 9)))  # type: ignore[arg-type]
        if self.random.random() < 0.4:
            self.fill(update.entity)
            return update
        update.entity.CopyFrom(self.random.choice(self.good))
        if self.random.random() < 0.6:
            self.mutate(update.entity)
        return update


def check(error: grpc.RpcError) -> None:
    assert error.code() not in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNAVAILABLE), error
    assert error.details()


@pytest.mark.parametrize("seed", range(3))
def test_writes_and_reads(client: Client, seed: int) -> None:
    fuzzer = Fuzzer(client, seed)
    codes: dict[int, int] = {}
    for _ in range(ROUNDS):
        updates = [fuzzer.update() for _ in range(fuzzer.random.choice((1, 1, 2, 5)))]
        try:
            client.write(*updates, atomicity=fuzzer.random.choice((0, 0, 0, 1, 1, 2, 5)))
            codes[0] = codes.get(0, 0) + 1
        except WriteFailed as failed:
            assert len(failed.errors) == len(updates)
            for error in failed.errors:
                codes[error.canonical_code] = codes.get(error.canonical_code, 0) + 1
                assert error.message or error.canonical_code == status.OK
        except grpc.RpcError as error:
            check(error)
        query = fuzzer.update().entity if fuzzer.random.random() < 0.5 else fuzzer.fill(p4r.Entity())
        try:
            list(client.read_responses(query))
        except grpc.RpcError as error:
            check(error)
    assert status.INTERNAL not in codes and status.UNKNOWN not in codes
    assert codes[0] > 100 and codes[status.INVALID_ARGUMENT] > 100  # the fuzzer reached both sides of the checks
    everything = [
        p4r.Entity(table_entry=p4r.TableEntry()),
        p4r.Entity(counter_entry=p4r.CounterEntry()),
        p4r.Entity(register_entry=p4r.RegisterEntry()),
        p4r.Entity(meter_entry=p4r.MeterEntry()),
    ]
    assert sum(len(response.entities) for response in client.read_responses(*everything)) > 30


def test_stream_messages(client: Client, dataplane: DataPlane) -> None:
    fuzzer = Fuzzer(client, 5)
    for _ in range(ROUNDS):
        message = fuzzer.fill(p4r.StreamMessageRequest())
        if message.WhichOneof("update") == "arbitration":
            continue  # would rightly end the stream
        client.send(message)
    client.insert(table_entry=client.entry("exact_table", exact(1, 0x0A), action=client.action("counted_forward", 1)))
    client.insert(table_entry=client.entry("lpm_table", lpm(1, 0x0B, 48), action=client.action("to_cpu", 1)))
    dataplane.packet_out(bytes.fromhex("00000000000a00000000000b1234") + b"the end", 1)
    while True:
        message = client.received.get(timeout=10)
        if message.WhichOneof("update") == "packet" and message.packet.payload.endswith(b"the end"):
            break
        assert message.error.canonical_code != status.INTERNAL


def test_bytes_that_are_no_messages(client: Client, server: P4RuntimeServer) -> None:
    """Mutated serialized requests, which clients of other languages might send by mistake."""
    generator = random.Random(2)
    fuzzer = Fuzzer(client, 6)
    write = client.write_request(*[fuzzer.update() for _ in range(3)]).SerializeToString()
    read = p4r.ReadRequest(device_id=1, entities=fuzzer.good).SerializeToString()
    answered = refused = 0
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        write_call = channel.unary_unary("/p4.v1.P4Runtime/Write", None, None)
        read_call = channel.unary_stream("/p4.v1.P4Runtime/Read", None, None)
        for _ in range(ROUNDS // 3):
            data = bytearray(generator.choice((write, read)))
            for _ in range(generator.randint(0, 4)):
                data[generator.randrange(len(data))] = generator.randrange(256)
            message = bytes(data[: generator.choice((len(data), generator.randrange(len(data) + 1)))])
            try:
                if generator.random() < 0.5:
                    write_call(message, timeout=30)
                else:
                    list(read_call(message, timeout=30))
                answered += 1
            except grpc.RpcError as error:
                # gRPC itself answers INTERNAL to what does not parse; the server must not.
                assert error.code() != grpc.StatusCode.UNAVAILABLE, error
                if error.code() == grpc.StatusCode.INTERNAL:
                    assert "deserializing" in (error.details() or ""), error
                refused += 1
    assert answered and refused
    client.insert(table_entry=client.entry("lpm_table", lpm(1, 0x0B, 48), action=client.action("to_cpu", 1)))


def test_first_message(server: P4RuntimeServer, program: BuildResult) -> None:
    for seed in range(100):
        client = Client(server.port, p4info=program.p4info)
        fuzzer = Fuzzer(client, seed)
        message = p4r.StreamMessageRequest()
        fuzzer.fill(message.arbitration if seed % 2 else message)
        if fuzzer.random.random() < 0.7:
            message.arbitration.device_id = 1
        try:
            client.send(message)
            client.half_close()
            assert client.stream_ended.wait(5)
            if client.stream_error is not None:
                check(client.stream_error)
        finally:
            client.close()
    Client(server.port).become_primary((1 << 128) - 1).close()


def test_pipelines(client: Client, program: BuildResult) -> None:
    """Mutated P4Infos and containers: refused with a reason, and the old program goes on."""
    action = p4r.SetForwardingPipelineConfigRequest
    generator = random.Random(1)
    data = program.p4info.SerializeToString()
    for _ in range(600 * TIMES):
        mutated = bytearray(data)
        for _ in range(generator.randint(1, 4)):
            mutated[generator.randrange(len(mutated))] = generator.randrange(256)
        try:
            p4info = type(program.p4info).FromString(bytes(mutated))
        except Exception:
            continue
        try:
            client.push(action.VERIFY, p4info, program.container)
        except grpc.RpcError as error:
            check(error)
    for _ in range(50):
        container = bytearray(program.container)
        container[generator.randrange(60)] = generator.randrange(256)
        try:
            client.push(action.VERIFY, program.p4info, bytes(container[: generator.randrange(len(container))]))
        except grpc.RpcError as error:
            check(error)
    client.insert(table_entry=client.entry("lpm_table", lpm(1, 0x0B, 48), action=client.action("to_cpu", 1)))
