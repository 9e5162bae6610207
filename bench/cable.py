"""A cable between two GPUs of a bench, in the namespace that it runs in."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parent.parent
ENDS: Final = ("eb0", "eb1")
"""The interfaces at the two ends."""


def add_cable() -> None:
    """Make the cable: MTU for the largest frame, no IPv6."""
    a, b = ENDS
    subprocess.run(
        ["ip", "link", "add", a, "mtu", "4132", "type", "veth", "peer", "name", b, "mtu", "4132"], check=True
    )
    for end in ENDS:
        Path(f"/proc/sys/net/ipv6/conf/{end}/disable_ipv6").write_text("1")
        subprocess.run(["ip", "link", "set", end, "up"], check=True)
