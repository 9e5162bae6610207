"""Settings of the P4Runtime server."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ServerOptions:
    """How a P4Runtime server listens and what it allows.

    grpc_addr: HOST:PORT to listen on, port 0 for any free one. Loopback by default: a device config is code that this
        process compiles and runs, so whoever can reach the server can run code as it.
    device_id: the only device of this server.
    max_message_bytes: largest message in either direction. A Write of 10,000 entries takes about 1 MB.
    max_streams: controllers connected at the same time; each takes a thread or two.
    workers: threads that serve RPCs other than streams.
    stream_backlog: packet-ins and other notifications waiting for a slow controller before they are dropped.
    """

    grpc_addr: str = "127.0.0.1:50051"
    device_id: int = 1
    max_message_bytes: int = 256 * 1024 * 1024
    max_streams: int = 32
    workers: int = 8
    stream_backlog: int = 4096
