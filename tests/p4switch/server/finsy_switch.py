"""What the tests by finsy share: options with a program to push, and reads as lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import finsy as fy
from google.protobuf import text_format

from p4switch.build import BuildResult


def options(pipeline: BuildResult, directory: Path, **more: Any) -> fy.SwitchOptions:
    p4info, blob = directory / "program.p4info.txtpb", directory / "program.p4bin"
    p4info.write_text(text_format.MessageToString(pipeline.p4info))
    blob.write_bytes(pipeline.container)
    return fy.SwitchOptions(p4info=p4info, p4blob=blob, **more)


async def read(switch: fy.Switch, query: Any) -> list[Any]:
    return [entry async for entry in switch.read(query)]  # type: ignore[attr-defined]  # finsy's overloads say async
