"""Registers, counters, meters, digests, direct resources: what packets do to them and what the control plane sees."""

from __future__ import annotations

import time

import pytest

from p4switch.dataplane import DataPlane, FieldMatch, InvalidArgument, MeterConfig, TableEntry, WrongState

from .conftest import EXACT, TABLE, TO_PORT, frame

PASSES, WIDE_REGISTER = 0x16000001, 0x16000002
RX, EXACT_COUNTER = 0x12000001, 0x13000001
PACKET_METER = 0x14000001


def test_register(switch: DataPlane) -> None:
    for _ in range(3):
        switch.inject(5, frame())
    assert switch.register_read(PASSES, 5) == 3
    switch.register_write(PASSES, 5, 0xFFFFFFF0)
    switch.inject(5, frame())
    assert switch.register_read(PASSES, 5) == 0xFFFFFFF1
    values = switch.register_read_all(PASSES)
    assert len(values) == 512 and sum(values) == 0xFFFFFFF1


def test_wide_register(switch: DataPlane) -> None:
    value = (1 << 191) | (0x1234 << 100) | 5
    switch.register_write(WIDE_REGISTER, 7, value)
    assert switch.register_read(WIDE_REGISTER, 7) == value
    assert switch.register_read_all(WIDE_REGISTER, 6, 2) == [0, value]


def test_counter_counts_bytes_as_received(switch: DataPlane) -> None:
    switch.inject(3, frame(payload=b"12345678"))
    switch.inject(3, frame())
    assert switch.counter_read(RX, 3) == (2, 40)
    switch.counter_write(RX, 3, 7, 8)
    switch.inject(3, frame())
    assert switch.counter_read(RX, 3) == (8, 24)


def test_direct_counter_survives_a_modify(switch: DataPlane) -> None:
    entry = TableEntry(EXACT, (FieldMatch(9),), 0, TO_PORT, (4,))
    switch.table_insert(entry)
    assert [port for port, _ in switch.inject(1, frame(TABLE, args=(9, 0)))] == [4]
    switch.table_modify(TableEntry(EXACT, (FieldMatch(9),), 0, TO_PORT, (6,)))
    assert [port for port, _ in switch.inject(1, frame(TABLE, args=(9, 0)))] == [6]
    assert switch.inject(1, frame(TABLE, args=(10, 0))) == []  # the default action drops, and counts nothing
    assert switch.direct_counter_read(entry) == (2, 32)
    switch.direct_counter_write(entry, 100, 1)
    assert switch.direct_counter_read(entry) == (100, 1)
    record = switch.table_get(entry)
    assert record is not None and record.idle_us < 5_000_000


def test_direct_meter(switch: DataPlane) -> None:
    entry = TableEntry(EXACT, (FieldMatch(9),), 0, TO_PORT, (4,))
    switch.table_insert(entry)
    assert switch.direct_meter_config(entry) is None
    switch.set_direct_meter_config(entry, MeterConfig(1, 2, 1, 5))
    assert switch.direct_meter_config(entry) == MeterConfig(1, 2, 1, 5)
    passed = sum(len(switch.inject(1, frame(TABLE, args=(9, 0)))) for _ in range(20))
    assert passed == 5  # the peak bucket's burst; its rate of one a second adds nothing here
    switch.set_direct_meter_config(entry, None)
    assert switch.inject(1, frame(TABLE, args=(9, 0)))


def test_a_meter_fills_at_its_rate(switch: DataPlane) -> None:
    entry = TableEntry(EXACT, (FieldMatch(9),), 0, TO_PORT, (4,))
    switch.table_insert(entry)
    rate, burst = 2000, 200
    start = time.monotonic()
    switch.set_direct_meter_config(entry, MeterConfig(rate, burst, rate, burst))
    passed = 0
    while time.monotonic() < start + 0.2:
        passed += len(switch.inject(1, frame(TABLE, args=(9, 0))))
    elapsed = time.monotonic() - start
    # At most what its time allows; less where the machine held the loop up for longer than the burst lasts.
    assert burst + 20 < passed <= burst + rate * elapsed + 1


def test_meter_configuration(switch: DataPlane) -> None:
    assert switch.meter_config(PACKET_METER, 3) is None
    switch.set_meter_config(PACKET_METER, 3, 10, 20, 30, 40)
    assert switch.meter_config(PACKET_METER, 3) == MeterConfig(10, 20, 30, 40)
    switch.set_meter_config(PACKET_METER, 3, 10, 20, 10, 20, 5)
    assert switch.meter_config(PACKET_METER, 3) == MeterConfig(10, 20, 10, 20, 5)
    switch.set_meter_config(PACKET_METER, 3, None, None, None, None)
    assert switch.meter_config(PACKET_METER, 3) is None
    with pytest.raises(InvalidArgument, match="committed rate 50 is above the peak rate 30"):
        switch.set_meter_config(PACKET_METER, 3, 50, 20, 30, 40)
    with pytest.raises(InvalidArgument, match="with an excess burst there is a single rate"):
        switch.set_meter_config(PACKET_METER, 3, 10, 20, 30, 20, 5)


def test_out_of_range_and_unknown(switch: DataPlane) -> None:
    with pytest.raises(InvalidArgument, match=r"register passes has 512 cells; index 512"):
        switch.register_read(PASSES, 512)
    with pytest.raises(InvalidArgument, match="index -1"):
        switch.counter_read(RX, -1)
    with pytest.raises(InvalidArgument, match="-1, 0: counts"):
        switch.counter_write(RX, 0, -1, 0)
    with pytest.raises(InvalidArgument, match="not negative"):
        switch.set_meter_config(PACKET_METER, 0, -1, 0, 0, 0)
    with pytest.raises(InvalidArgument, match="there is no meter 0x14999999"):
        switch.meter_config(0x14999999, 0)
    with pytest.raises(InvalidArgument, match="32 bits"):
        switch.register_write(PASSES, 0, 1 << 32)
    with pytest.raises(InvalidArgument, match="direct"):
        switch.counter_read_all(EXACT_COUNTER, 0, 0)


def test_without_a_program() -> None:
    with DataPlane() as switch:
        assert not switch.loaded
        for call in (
            lambda: switch.inject(1, b"x"),
            lambda: switch.table_entries(EXACT),
            lambda: switch.register_read(PASSES, 0),
        ):
            with pytest.raises(WrongState, match="no program is loaded"):
                call()
