"""Drop reasons are numbered as in the switch program, and a packet-in is told in one line."""

from __future__ import annotations

import re
from pathlib import Path

import finsy as fy

from controller.packets import DROP_REASONS, PROBE_REASON, describe_packet_in

CONSTANTS = Path(__file__).resolve().parents[2] / "p4src" / "constants.p4"


def test_reasons_are_those_of_the_switch_program() -> None:
    text = CONSTANTS.read_text()
    found = {int(number): name.lower() for name, number in re.findall(r"\bREASON_(\w+) = (\d+);", text)}
    assert found == DROP_REASONS
    [probe] = re.findall(r"\bVERDICT_LOCAL = (\d+);", text)
    assert int(probe) == PROBE_REASON


def test_a_packet_in_names_port_reason_and_the_first_bytes() -> None:
    packet = fy.P4PacketIn(bytes(range(40)), metadata={"ingress_port": 3, "reason": 21})
    assert describe_packet_in(packet) == (
        "no_route, port 3, 40 bytes: "
        "00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f 10 11 12 13 14 15 16 17 18 19 1a 1b 1c 1d 1e 1f ..."
    )
    probe = fy.P4PacketIn(b"\x10", metadata={"ingress_port": 510, "reason": 127})
    assert describe_packet_in(probe) == "probe for this switch, port 510, 1 bytes: 10"
    assert describe_packet_in(fy.P4PacketIn(b"", metadata={})) == "reason 0, port ?, 0 bytes: "
