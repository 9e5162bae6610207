"""The traffic manager: what becomes of clones, replicas, resubmitted and recirculated packets, as on BMv2."""

from __future__ import annotations

from pathlib import Path

import pytest

from p4switch.dataplane import DataPlane, EndlessPacket, EntryMissing, InvalidArgument, SwitchOptions

from .conftest import AGAIN, ALWAYS, CLONE, CPU, DROP, MULTICAST, TRUNCATE, Seen, frame

MARK = 0xABCD  # what verbs.c puts into metadata in the first pass


def run(switch: DataPlane, data: bytes, port: int = 1) -> list[Seen]:
    return [Seen.of(output) for output in switch.inject(port, data)]


def test_unicast(switch: DataPlane) -> None:
    (seen,) = run(switch, frame(port=3, payload=b"payload"))
    assert seen == Seen(3, 1, 1, 0, 0, 23, MARK, 1, b"payload")


def test_drop(switch: DataPlane) -> None:
    assert run(switch, frame(DROP)) == []
    assert run(switch, frame(0, DROP)) == []


def test_parser_error_does_not_drop(switch: DataPlane) -> None:
    assert switch.inject(1, b"too short") == [(2, b"too short")]


def test_ingress_clone_starts_from_the_original_bytes(switch: DataPlane) -> None:
    switch.set_clone_session(9, [(5, 77)])
    clone, original = run(switch, frame(CLONE, args=(9, 0), payload=b"xyz"))
    assert clone == Seen(5, 0, 1, 1, 77, 19, MARK, 1, b"xyz")  # field list 1 keeps mark and ingress_port
    assert original == Seen(2, 1, 1, 0, 0, 19, MARK, 1, b"xyz")


def test_ingress_clone_of_a_dropped_packet(switch: DataPlane) -> None:
    switch.set_clone_session(9, [(5, 0)])
    (clone,) = run(switch, frame(CLONE | DROP, args=(9, 0)))
    assert (clone.port, clone.instance) == (5, 1)


def test_clone_to_an_unknown_session_is_nothing(switch: DataPlane) -> None:
    assert [seen.port for seen in run(switch, frame(CLONE, CLONE, args=(9, 9)))] == [2]


def test_egress_clone_keeps_headers_and_loses_metadata(switch: DataPlane) -> None:
    switch.set_clone_session(4, [(6, 1), (7, 2)])
    original, *clones = run(switch, frame(0, CLONE, args=(0, 4), payload=b"xyz"))
    assert original == Seen(2, 1, 1, 0, 0, 19, MARK, 1, b"xyz")
    # Headers as egress left them (two egress passes); field list 2 keeps mark, ingress_port is gone.
    assert clones == [Seen(6, 1, 2, 2, 1, 19, MARK, 0, b"xyz"), Seen(7, 1, 2, 2, 2, 19, MARK, 0, b"xyz")]


def test_egress_clone_of_a_dropped_packet(switch: DataPlane) -> None:
    switch.set_clone_session(4, [(6, 0)])
    (clone,) = run(switch, frame(0, CLONE | DROP, args=(0, 4)))
    assert (clone.port, clone.instance) == (6, 2)


def test_one_clone_of_each_kind_and_the_packet(switch: DataPlane) -> None:
    switch.set_clone_session(9, [(5, 0)])
    switch.set_clone_session(4, [(6, 0)])
    seen = run(switch, frame(CLONE, CLONE, args=(9, 4)))
    assert [(s.port, s.instance) for s in seen] == [(5, 1), (2, 0), (6, 2)]


def test_sessions_cut_copies_only(switch: DataPlane) -> None:
    switch.set_clone_session(9, [(5, 0)], truncate=20)
    switch.set_clone_session(4, [(6, 0)], truncate=18)
    by_port = {s.port: s for s in run(switch, frame(CLONE, CLONE, args=(9, 4), payload=b"0123456789"))}
    assert by_port[5].payload == b"0123" and by_port[5].length == 20
    assert by_port[6].payload == b"01" and by_port[6].length == 18
    assert by_port[2].payload == b"0123456789"


def test_multicast(switch: DataPlane) -> None:
    switch.set_multicast_group(3, [(2, 1), (4, 2), (4, 3)])
    seen = run(switch, frame(MULTICAST, args=(3, 0), port=9, payload=b"m"))
    assert [(s.port, s.rid, s.instance, s.mark, s.ingress_port) for s in seen] == [
        (2, 1, 5, MARK, 1), (4, 2, 5, MARK, 1), (4, 3, 5, MARK, 1),
    ]  # fmt: skip
    assert all(s.payload == b"m" for s in seen)


def test_multicast_to_an_unknown_or_empty_group_drops(switch: DataPlane) -> None:
    assert run(switch, frame(MULTICAST, args=(3, 0))) == []
    switch.set_multicast_group(3, [])
    assert run(switch, frame(MULTICAST, args=(3, 0))) == []


def test_multicast_with_ingress_clone(switch: DataPlane) -> None:
    switch.set_clone_session(3, [(5, 0)])
    switch.set_multicast_group(3, [(2, 0), (4, 0)])
    seen = run(switch, frame(CLONE | MULTICAST, args=(3, 0)))
    assert [(s.port, s.instance) for s in seen] == [(5, 1), (2, 5), (4, 5)]


def test_resubmit_starts_over_with_the_original(switch: DataPlane) -> None:
    (seen,) = run(switch, frame(AGAIN))
    # The first pass's count is gone with its headers; list 2 kept mark; unicast sets the instance type back to normal.
    assert seen == Seen(2, 1, 1, 0, 0, 16, MARK, 0, b"")


def test_resubmit_outranks_multicast_and_drop(switch: DataPlane) -> None:
    switch.set_multicast_group(3, [(4, 0)])
    assert [s.port for s in run(switch, frame(AGAIN | MULTICAST, args=(3, 0)))] == [2]
    assert [s.port for s in run(switch, frame(AGAIN | DROP))] == [2]


def test_recirculate_takes_the_deparsed_packet(switch: DataPlane) -> None:
    (seen,) = run(switch, frame(0, AGAIN, payload=b"r"))
    assert seen == Seen(2, 2, 2, 0, 0, 17, MARK, 1, b"r")  # list 1 keeps ingress_port


def test_egress_drop_beats_recirculate(switch: DataPlane) -> None:
    assert run(switch, frame(0, AGAIN | DROP)) == []


def test_truncate_cuts_what_leaves(switch: DataPlane) -> None:
    (seen,) = run(switch, frame(TRUNCATE, args=(18, 0), payload=b"abcdef"))
    assert seen.payload == b"ab" and seen.length == 22
    (whole,) = run(switch, frame(TRUNCATE, args=(200, 0), payload=b"abcdef"))
    assert whole.payload == b"abcdef"


def test_a_packet_that_goes_round_for_ever_is_an_error(switch: DataPlane) -> None:
    with pytest.raises(EndlessPacket, match="still goes round"):
        switch.inject(1, frame(0, AGAIN | ALWAYS))
    switch.set_clone_session(4, [(509, 0)])
    with pytest.raises(EndlessPacket):
        switch.inject(1, frame(0, CLONE | ALWAYS | DROP, args=(0, 4)))
    assert run(switch, frame())  # and nothing of it is left
    assert all(status.waiting == 0 for status in switch.ports())


def test_cpu_port_is_an_output(switch: DataPlane) -> None:
    data = frame(port=CPU, payload=b"up")
    assert switch.inject(1, data)[0][0] == CPU


def test_bad_arguments(switch: DataPlane) -> None:
    with pytest.raises(InvalidArgument, match="port 512"):
        switch.inject(512, frame())
    with pytest.raises(InvalidArgument, match="0 bytes"):
        switch.inject(1, b"")
    with pytest.raises(InvalidArgument, match="9217 bytes"):
        switch.inject(1, bytes(9217))
    with pytest.raises(InvalidArgument, match="multicast group 0"):
        switch.set_multicast_group(0, [])
    with pytest.raises(InvalidArgument, match="port 600"):
        switch.set_clone_session(1, [(600, 0)])
    with pytest.raises(EntryMissing, match="no clone session 5"):
        switch.delete_clone_session(5)
    with pytest.raises(InvalidArgument, match="drop port 600"):
        DataPlane(SwitchOptions(drop_port=600))


def test_replication_can_be_read_back(switch: DataPlane) -> None:
    switch.set_multicast_group(3, [(2, 1)])
    switch.set_clone_session(8, [(4, 0), (5, 1)], truncate=64)
    assert switch.multicast_groups() == {3: [(2, 1)]}
    assert switch.clone_sessions() == {8: ([(4, 0), (5, 1)], 64)}
    switch.delete_multicast_group(3)
    switch.delete_clone_session(8)
    assert not switch.multicast_groups() and not switch.clone_sessions()


def test_largest_frame(switch: DataPlane) -> None:
    data = frame(payload=bytes(9200))
    ((port, out),) = switch.inject(1, data)
    assert (port, len(out)) == (2, 9216)


def test_trace_tells_why_a_packet_was_dropped(verbs: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with DataPlane(SwitchOptions(trace=True, device_id=7)) as switch:
        switch.load(verbs)
        switch.inject(1, frame(DROP))
        switch.inject(1, frame(0, DROP, port=3))
    lines = capfd.readouterr().err.splitlines()
    drops = [line for line in lines if "dropped" in line]
    assert drops == ["packet 1: dropped at port 1: by ingress", "packet 2: dropped at port 3: by egress"]
