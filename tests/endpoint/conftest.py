"""A network namespace of the test's own, with a veth pair in it: ep0 and ep1 are the two ends of a cable."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyroute2 import netns
from scapy.packet import Packet

from codec.scapy_layers import Link
from endpoint import EndpointOptions, Gpu

FAST = EndpointOptions(timeout_s=20, linger_s=0)
PATIENT = EndpointOptions(timeout_s=30, first_rto_s=10, min_rto_s=10, max_rto_s=10, linger_s=0)
"""Sends nothing again, be the machine ever so busy: for tests that count frames."""


def ip(command: str) -> None:
    subprocess.run(["ip", *command.split()], check=True)


def add_cable(a: str, b: str) -> None:
    """Make a veth pair as the launcher does: MTU for the largest frame, no IPv6, no offloads."""
    ip(f"link add {a} mtu 4132 type veth peer name {b} mtu 4132")
    for iface in (a, b):
        with open(f"/proc/sys/net/ipv6/conf/{iface}/disable_ipv6", "w") as file:
            file.write("1")
        subprocess.run(["ethtool", "-K", iface, "tx", "off", "gso", "off", "tso", "off", "gro", "off"], check=True,
                       stdout=subprocess.DEVNULL)  # fmt: skip
        ip(f"link set {iface} up")
    deadline = time.monotonic() + 10
    while any(" qdisc noop " in shown(iface) for iface in (a, b)):  # the kernel still drops what is sent, silently
        assert time.monotonic() < deadline
        time.sleep(0.001)


def shown(iface: str) -> str:
    """Return what `ip link show` says of an interface."""
    return subprocess.run(["ip", "link", "show", iface], check=True, capture_output=True, text=True).stdout


def settle(condition: Callable[[], bool], seconds: float = 2.0) -> bool:
    """Wait for a condition; tell whether it came."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


class Wire:
    """The other end of the GPU's cable, in the hands of a test."""

    def __init__(self, iface: str) -> None:
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self.socket.setsockopt(263, 23, 1)
        self.socket.bind((iface, 3))

    def send(self, packet: Packet | bytes) -> None:
        self.socket.send(bytes(packet))

    def receive(self, timeout_s: float = 2.0) -> Packet:
        self.socket.settimeout(timeout_s)
        return Link(self.socket.recv(9000))

    def silent(self) -> bool:
        try:
            self.receive(0.1)
        except TimeoutError:
            return True
        return False


@pytest.fixture
def namespace() -> Iterator[str]:
    """Put the test's thread into a fresh network namespace."""
    if os.geteuid() != 0:
        pytest.fail("these tests make network interfaces: run them as root")
    name = f"ep-{os.getpid()}"
    netns.create(name)
    netns.pushns(name)
    try:
        yield name
    finally:
        netns.popns()
        netns.remove(name)


@pytest.fixture
def cable(namespace: str) -> tuple[str, str]:
    """Return the two ends of a cable in a namespace of its own."""
    add_cable("ep0", "ep1")
    return "ep0", "ep1"


@pytest.fixture
def gpus() -> Iterator[Callable[..., Gpu]]:
    """Return a maker of GPUs that are closed at the end of the test."""
    made: list[Gpu] = []

    def make(gpu_id: int, ports: dict[int, str], **choices: Any) -> Gpu:
        choices.setdefault("options", FAST)
        made.append(Gpu(gpu_id, ports, **choices))
        return made[-1]

    yield make
    for gpu in reversed(made):
        gpu.close()
