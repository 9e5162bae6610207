"""BMv2's simple_switch_grpc in the place of a DataPlane: the same calls, so that tests can ask both the same questions.

Frames go in and out over its gRPC data plane, without interfaces; a stream is opened per frame, and ends when BMv2 has
done with all of it, so that there is nothing to wait for. What P4Runtime does not reach there (registers) goes over its
command line.
"""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import grpc
from finsy.proto import p4i, p4r
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from p4switch.dataplane import FieldMatch, MeterConfig, TableEntry
from ptf_tests.p4runtime import Names, P4RuntimeClient, P4RuntimeError, canonical

TOOLS = ("p4c-bm2-ss", "simple_switch_grpc", "simple_switch_CLI")
INSTALLED = all(shutil.which(tool) for tool in TOOLS)
DEVICE_ID = 1
START_S = 20.0
PACKET_S = 10.0
_STREAM = "/p4.bm.DataplaneInterface/PacketStream"


def _packet_message() -> Any:
    """The message of BMv2's dataplane_interface.proto that goes both ways."""
    file = descriptor_pb2.FileDescriptorProto(name="bmv2_dataplane.proto", package="p4.bm", syntax="proto3")
    message = file.message_type.add(name="Packet")
    kinds = descriptor_pb2.FieldDescriptorProto
    number, port, data = kinds.TYPE_UINT64, kinds.TYPE_UINT32, kinds.TYPE_BYTES
    fields = {"id": number, "device_id": number, "port": port, "packet": data}
    for number, (name, kind) in enumerate(fields.items(), 1):
        message.field.add(name=name, number=number, type=kind, label=kinds.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("p4.bm.Packet"))


_Packet = _packet_message()


class Refused(Exception):
    """p4c does not take the program; the message is what it said."""


def compile_for_bmv2(program: Path, folder: Path, *options: str) -> tuple[p4i.P4Info, bytes]:
    """Compile with p4c-bm2-ss; give P4Info and BMv2's JSON. Raises Refused."""
    info, config = folder / f"{program.stem}.p4info.txtpb", folder / f"{program.stem}.json"
    done = subprocess.run(
        ["p4c-bm2-ss", "--arch", "v1model", *options, "--p4runtime-files", info, "-o", config, program],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    if done.returncode:
        raise Refused(done.stderr.strip())
    return Names.load(info.read_text()).p4info, config.read_bytes()


def _free_ports(n: int) -> list[int]:
    probes = [socket.socket() for _ in range(n)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()


class Died(RuntimeError):
    """BMv2 has aborted; the message says by which signal."""


class Bmv2:
    """A running BMv2 with a program; the calls are DataPlane's."""

    def __init__(
        self, client: P4RuntimeClient, p4info: p4i.P4Info, process: subprocess.Popen[bytes], ports: Sequence[int]
    ) -> None:
        self.client, self._process = client, process
        self._tables = {t.preamble.id: t for t in p4info.tables}
        self._actions = {a.preamble.id: a for a in p4info.actions}
        self._names = {r.preamble.id: r.preamble.name for r in p4info.registers}
        self._thrift = ports[1]
        self._channel = grpc.insecure_channel(f"127.0.0.1:{ports[2]}")
        self._stream = self._channel.stream_stream(
            _STREAM, request_serializer=_Packet.SerializeToString, response_deserializer=_Packet.FromString
        )
        self._groups: set[int] = set()
        self._sessions: set[int] = set()

    def __enter__(self) -> Self:
        return self

    def close(self) -> None:
        self._channel.close()

    # ------------------------------------------------------------------------------------------------------- frames

    def inject(self, port: int, data: bytes) -> list[tuple[int, bytes]]:
        """Let a frame run to completion; give what came out, in order. Raises Died."""
        packet = _Packet(device_id=DEVICE_ID, port=port, packet=data)
        deadline = time.monotonic() + START_S
        while True:
            try:
                return [(out.port, out.packet) for out in self._stream(iter([packet]), timeout=PACKET_S)]
            except grpc.RpcError as error:
                time.sleep(0.1)
                status = self._process.poll()
                if status is not None:
                    name = signal.Signals(-status).name if status < 0 else status
                    raise Died(f"BMv2 ended: {name}") from error
                if error.details() != "not ready" or time.monotonic() > deadline:
                    raise

    # ------------------------------------------------------------------------------------------------------- tables

    def entry(self, entry: TableEntry) -> p4r.TableEntry:
        """Say an entry in P4Runtime's words."""
        table = self._tables[entry.table_id]
        made = p4r.TableEntry(table_id=entry.table_id, priority=entry.priority)
        for field, match in zip(table.match_fields, entry.matches, strict=True):
            if match is not None:
                _set_match(made.match.add(field_id=field.id), field.match_type, match)
        made.action.action.CopyFrom(self._action(entry.action_id, entry.params))
        return made

    def _action(self, action_id: int, params: Sequence[int]) -> p4r.Action:
        action = p4r.Action(action_id=action_id)
        for param, value in zip(self._actions[action_id].params, params, strict=True):
            action.params.add(param_id=param.id, value=canonical(value))
        return action

    def table_insert(self, entry: TableEntry) -> None:
        self.client.write("INSERT", [self.entry(entry)])

    def table_delete(self, entry: TableEntry) -> None:
        self.client.write("DELETE", [self.entry(entry)])

    def set_table_default(self, table_id: int, action_id: int, params: tuple[int, ...] = ()) -> None:
        made = p4r.TableEntry(table_id=table_id, is_default_action=True)
        made.action.action.CopyFrom(self._action(action_id, params))
        self.client.write("MODIFY", [made])

    # ------------------------------------------------------------------------------- counters, meters and registers

    def direct_counter_read(self, entry: TableEntry) -> tuple[int, int]:
        asked = p4r.Entity()
        asked.direct_counter_entry.table_entry.CopyFrom(self.entry(entry))
        asked.direct_counter_entry.table_entry.ClearField("action")
        (found,) = self.client.read([asked])
        return found.direct_counter_entry.data.packet_count, found.direct_counter_entry.data.byte_count

    def counter_read(self, counter_id: int, index: int) -> tuple[int, int]:
        asked = p4r.Entity()
        asked.counter_entry.counter_id, asked.counter_entry.index.index = counter_id, index
        (found,) = self.client.read([asked])
        return found.counter_entry.data.packet_count, found.counter_entry.data.byte_count

    def counter_write(self, counter_id: int, index: int, packets: int, octets: int) -> None:
        cell = p4r.Entity()
        cell.counter_entry.counter_id, cell.counter_entry.index.index = counter_id, index
        cell.counter_entry.data.packet_count, cell.counter_entry.data.byte_count = packets, octets
        self.client.write("MODIFY", [cell])

    def set_meter_config(self, meter_id: int, index: int, cir: int, cburst: int, pir: int, pburst: int) -> None:
        cell = p4r.Entity()
        cell.meter_entry.meter_id, cell.meter_entry.index.index = meter_id, index
        config = cell.meter_entry.config
        config.cir, config.cburst, config.pir, config.pburst = cir, cburst, pir, pburst
        self.client.write("MODIFY", [cell])

    def set_direct_meter_config(self, entry: TableEntry, config: MeterConfig) -> None:
        cell = p4r.Entity()
        cell.direct_meter_entry.table_entry.CopyFrom(self.entry(entry))
        cell.direct_meter_entry.table_entry.ClearField("action")
        made = cell.direct_meter_entry.config
        made.cir, made.cburst, made.pir, made.pburst = config[:4]
        self.client.write("MODIFY", [cell])

    def register_read(self, register_id: int, index: int) -> int:
        said = self._cli(f"register_read {self._names[register_id]} {index}")
        found = re.search(r"\[\d+\]=\s*(\d+)", said)
        assert found, said
        return int(found.group(1))

    def register_read_all(self, register_id: int) -> list[int]:
        name = self._names[register_id]
        said = self._cli(f"register_read {name}")
        found = re.search(rf"{re.escape(name)}=\s*([\d, ]+)", said)
        assert found, said
        return [int(word) for word in found.group(1).split(",")]

    def register_write(self, register_id: int, index: int, value: int) -> None:
        self._cli(f"register_write {self._names[register_id]} {index} {value}")

    def _cli(self, line: str) -> str:
        command = ["simple_switch_CLI", "--thrift-port", str(self._thrift)]
        done = subprocess.run(command, input=line, capture_output=True, text=True, check=True, timeout=20)
        if "Error" in done.stdout or "Invalid" in done.stdout:
            raise P4RuntimeError(f"{line}: {done.stdout}")
        return done.stdout

    # --------------------------------------------------------------------------------------- clones and multicast

    def set_multicast_group(self, group: int, replicas: Sequence[tuple[int, int]]) -> None:
        entity = p4r.Entity()
        made = entity.packet_replication_engine_entry.multicast_group_entry
        made.multicast_group_id = group
        for port, instance in replicas:
            made.replicas.add(egress_port=port, instance=instance)
        self.client.write("MODIFY" if group in self._groups else "INSERT", [entity])
        self._groups.add(group)

    def set_clone_session(self, session: int, replicas: Sequence[tuple[int, int]], truncate: int = 0) -> None:
        entity = p4r.Entity()
        made = entity.packet_replication_engine_entry.clone_session_entry
        made.session_id, made.packet_length_bytes = session, truncate
        for port, instance in replicas:
            made.replicas.add(egress_port=port, instance=instance)
        self.client.write("MODIFY" if session in self._sessions else "INSERT", [entity])
        self._sessions.add(session)

    def delete_clone_session(self, session: int) -> None:
        entity = p4r.Entity()
        entity.packet_replication_engine_entry.clone_session_entry.session_id = session
        self.client.write("DELETE", [entity])
        self._sessions.discard(session)


def _set_match(made: p4r.FieldMatch, kind: int, match: FieldMatch) -> None:
    kinds = p4i.MatchField
    if kind == kinds.EXACT:
        made.exact.value = canonical(match.value)
    elif kind == kinds.OPTIONAL:
        made.optional.value = canonical(match.value)
    elif kind == kinds.LPM:
        made.lpm.value, made.lpm.prefix_len = canonical(match.value), match.prefix
    elif kind == kinds.TERNARY:
        made.ternary.value, made.ternary.mask = canonical(match.value), canonical(match.mask_or_hi)
    else:
        made.range.low, made.range.high = canonical(match.value), canonical(match.mask_or_hi)


@contextmanager
def bmv2(p4info: p4i.P4Info, config: bytes, folder: Path) -> Iterator[Bmv2]:
    """Run BMv2 with a program; its log is in the folder."""
    ports = _free_ports(3)
    command = [
        *("simple_switch_grpc", "--no-p4", "--device-id", str(DEVICE_ID), "--thrift-port", str(ports[1])),
        *("--log-file", str(folder / "bmv2"), "-L", "warn", "--", "--grpc-server-addr", f"127.0.0.1:{ports[0]}"),
        *("--dp-grpc-server-addr", f"127.0.0.1:{ports[2]}"),
    ]
    with (
        (folder / "bmv2.out").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL) as process,
    ):
        try:
            _wait_for(ports[0], process)
            with P4RuntimeClient(f"127.0.0.1:{ports[0]}", DEVICE_ID, Names(p4info)) as client:
                client.set_pipeline(config)
                switch = Bmv2(client, p4info, process, ports)
                try:
                    yield switch
                finally:
                    switch.close()
        finally:
            process.kill()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if not probe.connect_ex(("127.0.0.1", port)):
                return
        time.sleep(0.02)
    raise RuntimeError(f"BMv2 does not serve port {port}; exit status {process.poll()}")
