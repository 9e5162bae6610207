"""Entries survive the way to P4Runtime and back; differences are told one by one."""

from __future__ import annotations

import finsy as fy

from controller.entities import drift, from_p4, to_p4
from controller.entries import entry

ROUTE = entry("forward", {"tenant": 1, "dst": 2}, "to_port", port=2)
GROUP = entry("forward", {"tenant": 1, "dst": 3}, "to_group", group_id=1, home=4)
GUARD = entry("source_guard", {"ingress_port": 1, "src": 1}, "allow")


def test_there_and_back() -> None:
    for item in (ROUTE, GROUP, GUARD):
        assert from_p4(to_p4(item)) == item


def test_an_entry_without_an_action_is_told_as_such() -> None:
    assert from_p4(fy.P4TableEntry("forward", match=fy.Match(dst=1))).action == "(no action)"


def test_equal_sets_do_not_differ_whatever_their_order() -> None:
    assert drift([ROUTE, GROUP], [GROUP, ROUTE]) == []


def test_every_kind_of_difference_is_one_line() -> None:
    moved = entry("forward", {"tenant": 1, "dst": 2}, "to_port", port=9)
    assert drift([ROUTE, GROUP], [moved, GUARD]) == [
        "added: source_guard(ingress_port=1, src=1) -> allow()",
        "changed: forward(dst=2, tenant=1) -> to_port(port=9) "
        "(the controller installed forward(dst=2, tenant=1) -> to_port(port=2))",
        "missing: forward(dst=3, tenant=1) -> to_group(group_id=1, home=4)",
    ]
