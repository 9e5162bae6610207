"""Tells what happens to single packets: `p4switch trace`.

The program runs without interfaces and without root, in a build that tells of each step (runtime/trace.c). Entries come
from an STF script or from a P4Runtime WriteRequest in text, by the suffix of the file.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from p4switch.build import BuildResult
from p4switch.dataplane import DataPlane, DataPlaneError, SwitchOptions

TEXT_PROTO = (".txtpb", ".txt", ".pbtxt", ".textproto")


class TraceError(Exception):
    """Entries or a packet that make no sense; the message says which and why."""


def trace(
    program: BuildResult, packets: Sequence[tuple[int, bytes]], entries: Path | None, options: SwitchOptions
) -> None:
    """Send packets (port, frame) through a program one after the other, and write what happens to options.trace_fd.

    program: a traced build. entries: what is written into tables, registers and so on first. Raises TraceError,
    StfError, OSError.
    """
    dataplane = DataPlane(options, program.runtime)
    dataplane.load(program.library)
    if entries is not None:
        _write_entries(program, dataplane, entries)
    for port, frame in packets:
        try:
            dataplane.inject(port, frame)
        except DataPlaneError as error:
            raise TraceError(str(error)) from error


def _write_entries(program: BuildResult, dataplane: DataPlane, entries: Path) -> None:
    if entries.suffix == ".stf":
        from p4switch.stf.runner import configure

        configure(program, dataplane, entries)
    elif entries.suffix in TEXT_PROTO:
        _write_request(program, dataplane, entries)
    else:
        raise TraceError(f"--entries {entries}: the suffix says the format; use .stf, or {', '.join(TEXT_PROTO)}")


def _write_request(program: BuildResult, dataplane: DataPlane, path: Path) -> None:
    """Carry out a P4Runtime WriteRequest in protobuf's text format."""
    from finsy.proto import p4r
    from google.protobuf import text_format

    from p4switch.server.entities import Entities
    from p4switch.server.pipeline import from_build
    from p4switch.server.roles import RoleConfig
    from p4switch.server.status import BatchError, RequestError
    from p4switch.server.write import write

    try:
        request = text_format.Parse(path.read_text(), p4r.WriteRequest())
    except text_format.ParseError as error:
        raise TraceError(f"{path}:{error}: a P4Runtime WriteRequest in text is wanted") from error
    entities = Entities(from_build(program).schema, dataplane, threading.RLock(), None, dataplane.ports)
    try:
        write(entities, request, RoleConfig())
    except BatchError as error:
        failed = [f"update {n}: {e.message}" for n, e in enumerate(error.errors, 1) if e.canonical_code]
        raise TraceError(f"{path}: {'; '.join(failed)}") from error
    except RequestError as error:
        raise TraceError(f"{path}: {error}") from error
    finally:
        entities.close()
