"""Meters of two rates and of a single one, with three colours and with two (P4Runtime 1.4, "MeterSpec")."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest
from finsy.proto import p4i, p4r

from p4switch.build import BuildResult, build
from p4switch.dataplane import DataPlane
from p4switch.server import ServerOptions, serve, status
from tests.p4switch.server.client import Client, WriteFailed, exact
from tests.p4switch.server.conftest import PROGRAMS

GREEN, YELLOW, RED = 0, 1, 2
Types = p4i.MeterSpec
RECONCILE = p4r.SetForwardingPipelineConfigRequest.RECONCILE_AND_COMMIT


@pytest.fixture(scope="module")
def meters() -> BuildResult:
    return build(PROGRAMS / "meters.p4")


@pytest.fixture
def client(dataplane: DataPlane, meters: BuildResult) -> Iterator[Client]:
    with serve(dataplane, ServerOptions(grpc_addr="127.0.0.1:0"), meters) as server:
        client = Client(server.port, p4info=meters.p4info).become_primary()
        yield client
        client.close()


def cell(client: Client, name: str, *config: int) -> p4r.MeterEntry:
    message = p4r.MeterEntry(meter_id=client.id_of(name))
    message.index.index = 0
    message.config.CopyFrom(configured(*config))
    return message


def configured(*config: int) -> p4r.MeterConfig:
    return p4r.MeterConfig(**dict(zip(("cir", "cburst", "pir", "pburst", "eburst"), config, strict=False)))


def colors(dataplane: DataPlane, kind: int, frames: int) -> list[int]:
    """What comes out of a meter; a rate of one a second adds nothing while this lasts."""
    return [dataplane.inject(1, bytes([kind, 0]))[0][1][1] for _ in range(frames)]


def test_p4info_has_the_types_of_annotations(meters: BuildResult) -> None:
    types = {m.preamble.alias: m.spec.type for m in (*meters.p4info.meters, *meters.p4info.direct_meters)}
    assert types == {
        "two_rates": Types.TWO_RATE_THREE_COLOR,
        "three_colors": Types.SINGLE_RATE_THREE_COLOR,
        "two_colors": Types.SINGLE_RATE_TWO_COLOR,
        "direct": Types.SINGLE_RATE_THREE_COLOR,
    }


def test_colors(client: Client, dataplane: DataPlane) -> None:
    client.modify(meter_entry=cell(client, "two_rates", 1, 2, 1, 4))
    assert colors(dataplane, 1, 6) == [GREEN, GREEN, YELLOW, YELLOW, RED, RED]
    client.modify(meter_entry=cell(client, "three_colors", 1, 2, 1, 2, 3))
    assert colors(dataplane, 2, 7) == [GREEN, GREEN, YELLOW, YELLOW, YELLOW, RED, RED]
    client.modify(meter_entry=cell(client, "two_colors", 1, 2, 1, 2))
    assert colors(dataplane, 3, 4) == [GREEN, GREEN, RED, RED]
    client.modify(meter_entry=cell(client, "three_colors", 1, 2, 1, 2))  # without an excess burst: two colours
    assert colors(dataplane, 2, 4) == [GREEN, GREEN, RED, RED]


def test_a_single_rate_fills_the_excess_bucket_last(client: Client, dataplane: DataPlane) -> None:
    """At 10^9 a second both are full again at once; at zero neither is."""
    client.modify(meter_entry=cell(client, "three_colors", 10**9, 1, 10**9, 1, 1))
    assert colors(dataplane, 2, 4) == [GREEN] * 4
    client.modify(meter_entry=cell(client, "three_colors", 0, 1, 0, 1, 1))
    assert colors(dataplane, 2, 4) == [GREEN, YELLOW, RED, RED]


def test_direct_meters(client: Client, dataplane: DataPlane) -> None:
    config = configured(1, 4, 1, 4, 2)  # bytes: frames have two
    entry = client.entry("by_kind", exact(1, 9), action=client.action("metered"), meter_config=config)
    client.insert(table_entry=entry)
    assert colors(dataplane, 9, 4) == [GREEN, GREEN, YELLOW, RED]
    query = client.entry("by_kind", meter_config=p4r.MeterConfig())
    assert client.read(table_entry=query) == [entry]
    direct = p4r.DirectMeterEntry(table_entry=client.entry("by_kind", exact(1, 9)))
    (found,) = client.read(direct_meter_entry=direct)
    assert found.config == config


@pytest.mark.parametrize(
    ("name", "config", "reason"),
    [
        ("two_rates", (1, 2, 3, 4, 5), "eburst is set"),
        ("two_colors", (1, 2, 1, 2, 5), "eburst is set"),
        ("two_colors", (1, 2, 3, 2), "has a single rate"),
        ("three_colors", (1, 2, 1, 3), "has a single rate"),
        ("three_colors", (1, 2, 1, 2, -1), "eburst is negative"),
    ],
)
def test_configs_that_the_type_does_not_have(client: Client, name: str, config: tuple[int, ...], reason: str) -> None:
    with pytest.raises(WriteFailed) as caught:
        client.modify(meter_entry=cell(client, name, *config))
    assert caught.value.errors[0].canonical_code == status.INVALID_ARGUMENT
    assert reason in caught.value.errors[0].message
    entry = client.entry("by_kind", exact(1, 1), action=client.action("metered"), meter_config=configured(1, 2, 3, 4))
    with pytest.raises(WriteFailed, match="has a single rate"):
        client.insert(table_entry=entry)


def test_configs_survive_another_push(client: Client, meters: BuildResult) -> None:
    """Also of a P4Info of p4c's, which says nothing of types: then all are of two rates."""
    written = cell(client, "three_colors", 1, 2, 1, 2, 3)
    client.modify(meter_entry=written)
    client.push(RECONCILE, meters.p4info, meters.container)
    assert written in client.read(meter_entry=p4r.MeterEntry(meter_id=written.meter_id))
    plain = meters.p4info
    for meter in (*plain.meters, *plain.direct_meters):
        meter.spec.type = Types.TWO_RATE_THREE_COLOR
    with pytest.raises(grpc.RpcError) as caught:
        client.push(RECONCILE, plain, meters.container)
    assert "cannot be preserved" in str(caught.value.details()) and "eburst is set" in str(caught.value.details())
    client.modify(meter_entry=cell(client, "three_colors", 1, 2, 1, 2))
    client.push(RECONCILE, plain, meters.container)
    with pytest.raises(WriteFailed, match="eburst is set"):
        client.modify(meter_entry=written)
