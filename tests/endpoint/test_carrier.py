"""Carriers of real interfaces: lost, back, told of late, gone, or not to be asked for."""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Iterator

import pytest
from pyroute2 import netns

from endpoint.carrier import Carriers
from tests.endpoint.conftest import ip, settle


@pytest.fixture
def carriers(cable: tuple[str, str]) -> Iterator[Carriers]:
    made = Carriers()
    yield made
    made.close()


def test_lost_and_back(carriers: Carriers, cable: tuple[str, str]) -> None:
    for end in cable:
        for _ in range(3):
            assert carriers.is_up("ep0")
            carriers.drain()
            ip(f"link set {end} down")
            assert select.select([carriers], [], [], 5)[0], "the kernel says that something has changed"
            assert not carriers.is_up("ep0")
            ip(f"link set {end} up")
            assert carriers.is_up("ep0")
    carriers.drain()
    assert not select.select([carriers], [], [], 0)[0]


def test_an_interface_that_is_gone_is_down(carriers: Carriers, cable: tuple[str, str]) -> None:
    ip("link delete ep1")
    assert not carriers.is_up("ep0")
    assert not carriers.is_up("nothing0")


def test_more_messages_than_are_kept_do_no_harm(carriers: Carriers, cable: tuple[str, str]) -> None:
    script = "".join(f"link set ep0 {state}\n" for state in ("down", "up") * 600)
    subprocess.run(["ip", "-batch", "-"], input=script, text=True, check=True)
    carriers.drain()
    assert carriers.is_up("ep0")


def test_both_ends_with_one_index(namespace: str) -> None:
    """Each end in a namespace of its own, with the same index: the kernel tells late, the state is known at once."""
    other = f"ep-other-{os.getpid()}"
    netns.create(other)
    try:
        ip(f"link add ep0 index 77 type veth peer name ep1 index 77 netns {other}")
        ip("link set ep0 up")
        carriers = Carriers()
        for _ in range(3):
            ip(f"-n {other} link set ep1 up")
            assert settle(lambda: carriers.is_up("ep0"), 0.2)
            ip(f"-n {other} link set ep1 down")
            assert settle(lambda: not carriers.is_up("ep0"), 0.2)
        carriers.close()
    finally:
        netns.remove(other)
