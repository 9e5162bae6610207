"""P4Runtime 1.4 server of the native switch.

service.py is the gRPC edge, stream.py a controller's stream, device.py what both act on. Each kind of entity has a
module of its own (tables, arrays, replication, digests, ...), which entities.py puts together for a loaded pipeline.

Where the specification leaves a choice, status codes are BMv2's. Externs are not supported, and answered with
UNIMPLEMENTED. Watched ports are looked at every 20 ms. After the first 4 KB of messages, the errors of a batch are told
by code alone.
"""

from __future__ import annotations

from p4switch.build import BuildResult
from p4switch.dataplane import DataPlane
from p4switch.server.options import ServerOptions
from p4switch.server.pipeline import from_build
from p4switch.server.service import P4RuntimeServer, PortInUse

__all__ = ["P4RuntimeServer", "PortInUse", "ServerOptions", "serve"]


def serve(dataplane: DataPlane, options: ServerOptions, program: BuildResult | None = None) -> P4RuntimeServer:
    """Make a server for a data plane; a program given is loaded, else a controller has to push one. Call start()."""
    return P4RuntimeServer(dataplane, options, from_build(program) if program is not None else None)
