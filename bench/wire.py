"""Measure wire efficiency: payload bytes over wire bytes, from captured frames, against RoCEv2's headers.

Wire bytes of a frame are preamble 8 + frame + FCS 4 + inter-packet gap 12. EthLink's frames are captured between two
GPUs; the link header stands for preamble and FCS, so that only the gap is added. Messages go one at a time over a wire
that loses nothing, so that nothing is sent twice.

RoCEv2 is computed: Ethernet 14 + IPv4 20 + UDP 8 + BTH 12 + payload + ICRC 4 in each frame (no VLAN tag, no IP
options), RETH 16 in the first one of a message, the same payload per frame as EthLink's blocks, and one acknowledgement
per message (AETH 4), however long: the least that its specification allows.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from bench.cable import ENDS, REPOSITORY, add_cable
from bench.plots import PLOTS, plot_wire
from bench.report import Measurement, size_name
from codec.constants import LSU_MAX_BYTES
from endpoint import EndpointOptions, Gpu

PREAMBLE, FCS, GAP = 8, 4, 12
ETHERNET, IPV4, UDP, BTH, RETH, AETH, ICRC = 14, 20, 8, 12, 16, 4, 4
MIN_ETHERNET: Final = 64
SIZES: Final = (8, 64, 256, 1024, 4096, 65536, 1 << 20)
BLOCKS: Final = (2048, 4096)
_ETH_P_ALL: Final = 3
_PACKET_OUTGOING: Final = 4
_QUIET_S: Final = 0.15
"""After so long without a frame, a message's last one has been captured."""


@dataclass
class Captured:
    """Frames and wire bytes each way of one message."""

    frames: int = 0
    forward: int = 0
    backward: int = 0


def roce_forward(size: int, payload: int) -> int:
    """Return the wire bytes of a RoCEv2 write of `size` bytes in frames of `payload`."""
    pieces = [min(payload, size - start) for start in range(0, size, payload)]
    return sum(
        _ethernet(IPV4 + UDP + BTH + (0 if number else RETH) + piece + ICRC) for number, piece in enumerate(pieces)
    )


def roce_backward() -> int:
    """Return the wire bytes of its acknowledgement."""
    return _ethernet(IPV4 + UDP + BTH + AETH + ICRC)


def _ethernet(packet: int) -> int:
    return PREAMBLE + max(MIN_ETHERNET, ETHERNET + packet + FCS) + GAP


def measure() -> Iterator[Measurement]:
    """Yield the figures, and draw the plot. Raises RuntimeError when they cannot be taken."""
    command = ["unshare", "--net", sys.executable, "-m", "bench.wire"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode:
        raise RuntimeError(f"the measuring process failed, it needs root: {done.stderr.strip()[-500:]}")
    rows = json.loads(done.stdout)
    plot_wire(PLOTS / "wire.png", rows)
    for row in rows:
        size, payload = row["size"], row["payload"]
        note = f"answers too: {row['both']:.1%}, RoCEv2 {row['roce_both']:.1%}"
        what = f"{row['way']} of {size_name(size)}" + (f", {payload} B each" if row["way"] == "write" else "")
        yield Measurement(what, round(row["ethlink"] * 100, 2), "%", target=round(row["roce"] * 100, 2), note=note)


class Capture:
    """All frames of an interface, each way."""

    def __init__(self, iface: str) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 20)
        self._socket.bind((iface, _ETH_P_ALL))
        self._socket.settimeout(_QUIET_S)
        self._lock = threading.Lock()

    def of(self, work: Callable[[], object]) -> Captured:
        """Return what passes while some work is done, and until nothing comes any more."""
        seen = Captured()
        ended = threading.Event()

        def listen() -> None:
            while True:
                try:
                    frame, address = self._socket.recvfrom(1 << 16)
                except TimeoutError:
                    if ended.is_set():
                        return
                    continue
                seen.frames += 1
                if address[2] == _PACKET_OUTGOING:
                    seen.forward += len(frame) + GAP
                else:
                    seen.backward += len(frame) + GAP

        thread = threading.Thread(target=listen)
        thread.start()
        try:
            work()
        finally:
            ended.set()
            thread.join()
        return seen


def _messages(payload: int) -> Iterator[dict[str, Any]]:
    """Yield the figures of messages by both ways, in blocks of `payload` bytes."""
    # Nothing is sent again, be the machine ever so busy: what is counted is one message.
    options = EndpointOptions(block_bytes=payload, first_rto_s=20, min_rto_s=20, max_rto_s=20, timeout_s=30)
    with (
        Gpu(1, {0: ENDS[0]}, peers=[2], options=options) as gpu,
        Gpu(2, {0: ENDS[1]}, peers=[1], options=options) as other,
    ):
        other.register(max(SIZES))
        capture = Capture(ENDS[0])
        ways: list[tuple[str, Callable[[int], object]]] = [("write", lambda size: gpu.write(2, 0, bytes(size)))]
        if payload == BLOCKS[0]:
            ways.append(("store", lambda size: gpu.store(2, 0, bytes(size))))
        for way, access in ways:
            for size in SIZES if way == "write" else [size for size in SIZES if size <= LSU_MAX_BYTES]:
                seen = capture.of(lambda access=access, size=size: access(size))  # type: ignore[misc]
                if gpu.counters().get("resent_blocks", 0) or gpu.counters().get("resent_requests", 0):
                    raise RuntimeError("something was sent again, so that frames do not count")
                roce = roce_forward(size, payload)
                yield {
                    "way": way, "size": size, "payload": payload, "frames": seen.frames,
                    "ethlink": size / seen.forward, "roce": size / roce,
                    "both": size / (seen.forward + seen.backward), "roce_both": size / (roce + roce_backward()),
                }  # fmt: skip


def main() -> int:
    """Measure in this namespace and print JSON."""
    add_cable()
    print(json.dumps([row for payload in BLOCKS for row in _messages(payload)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
