"""The values that go to and come from the switch."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

INSERT, MODIFY, DELETE = 1, 2, 3  # kinds of table updates, numbered as in P4Runtime

MeterCounts = tuple[int, int, int, int, int, int]  # packets and bytes of green, yellow and red


class MeterConfig(NamedTuple):
    """Rates per second and bursts, in the meter's unit: two rates, or a single one with an excess burst (RFC 2697), for
    which pir and pburst are those committed."""

    cir: int
    cburst: int
    pir: int
    pburst: int
    eburst: int = 0


@dataclass(frozen=True)
class SwitchOptions:
    """How a switch is set up; fixed for its life.

    device_id: names it in messages. cpu_port: frames sent there become packet-ins. drop_port: mark_to_drop()'s
    egress_spec. event_port: the program finds port changes and ticks there as 16-byte frames (12 zero bytes; type 8: 1
    port status, 2 tick; state 8: 1 up; port 16), and the states of all ports when it starts; None: no such frames.
    tick_us: microseconds between ticks, 0 for none. packets: how many may wait inside the switch at once (memory is
    used as they come). queue_depth: of every egress queue, in packets, until set otherwise. recirculate_depth: of the
    queue of resubmitted and recirculated packets (BMv2: 1024). priorities: queues per port, served highest
    standard_metadata.priority first; a packet with a priority beyond is dropped, as on BMv2, whose default is 1 as
    well. ring_frames: receive ring of each port. busy_poll: never sleep, for least latency at the cost of a core.
    qdisc_bypass: send past the queueing discipline, which is faster but hides sent frames from captures on the
    switch's side and defeats shaping there. trace: what happens to each packet, in words, and log_msg(); steps
    inside the blocks are told by programs that were built for it (`build(..., traced=True)`). trace_fd: the file
    descriptor where that goes, stderr's by default. pcap_dir: captures portN_in.pcap and
    portN_out.pcap.
    """

    device_id: int = 1
    cpu_port: int | None = None
    drop_port: int = 511
    event_port: int | None = None
    tick_us: int = 0
    packets: int = 65_536
    queue_depth: int = 1024
    recirculate_depth: int = 16_384
    priorities: int = 1
    ring_frames: int = 1024
    busy_poll: bool = False
    qdisc_bypass: bool = False
    trace: bool = False
    trace_fd: int = 2
    pcap_dir: Path | None = None


@dataclass(frozen=True, slots=True)
class FieldMatch:
    """One component of a key. value: exact, optional, ternary and lpm value, low end of a range; mask_or_hi: ternary
    mask, high end of a range; prefix: lpm prefix length in bits."""

    value: int
    mask_or_hi: int = 0
    prefix: int = 0


@dataclass(frozen=True, slots=True)
class TableEntry:
    """An entry. matches: one per key, None for don't care. priority: larger wins; 0 where only exact and lpm keys are.
    params: the action's arguments in order. is_default: the default entry is meant, for what is kept of misses."""

    table_id: int
    matches: tuple[FieldMatch | None, ...] = ()
    priority: int = 0
    action_id: int = 0
    params: tuple[int, ...] = ()
    is_default: bool = False


@dataclass(frozen=True, slots=True)
class EntryRecord:
    """An entry as the switch has it. packets, bytes: its direct counter's (counted also for direct meters and
    time-outs). idle_us: microseconds since its last hit or its insertion, 0 where nothing keeps track."""

    entry: TableEntry
    is_const: bool
    packets: int
    bytes: int
    idle_us: int


@dataclass(frozen=True)
class PortStatus:
    """A port. iface: empty for an internal one. waiting: packets in its egress queues. drops: by reason; those of
    reception count at the ingress port, those of queues and sending at the egress port."""

    port: int
    iface: str
    up: bool
    depth: int
    waiting: int
    rate_pps: int
    rate_bps: int
    rx_packets: int
    rx_bytes: int
    tx_packets: int
    tx_bytes: int
    drops: dict[str, int] = field(default_factory=dict)
