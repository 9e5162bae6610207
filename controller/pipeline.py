"""Push the switch program, and tell boots of a switch apart by its cookie.

P4Runtime keeps a 64-bit cookie beside the pipeline. The controller puts the program's hash into its upper half and a
random number into its lower one, so that a cookie read back names the program and the push: a switch that has started
anew has no pipeline, and a pipeline that somebody else pushed has another cookie.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import finsy as fy
import grpc
from finsy.proto import U128, p4r, p4r_grpc
from google.protobuf.text_format import ParseError

PUSH_TIMEOUT_S: Final = 60.0
"""The embedded target compiles the program when it does not have it in its cache."""


class PipelineError(Exception):
    """A switch did not take the program, or the program's files cannot be used; the message is for the user."""


@dataclass(frozen=True)
class Pipeline:
    """A compiled switch program: P4Info as text, and what the target loads (a .p4bin, or BMv2's JSON)."""

    p4info_path: Path
    config_path: Path
    schema: fy.P4Schema = field(init=False, compare=False)
    identity: int = field(init=False)

    def __post_init__(self) -> None:
        try:
            digest = hashlib.sha256(self.p4info_path.read_bytes() + b"\0" + self.config_path.read_bytes()).digest()
            schema = fy.P4Schema(self.p4info_path)
        except OSError as error:
            raise PipelineError(f"{error.filename}: {error.strerror}; compile the switch program first") from None
        except (ValueError, ParseError) as error:
            raise PipelineError(f"{self.p4info_path}: not a P4Info text file ({error})") from None
        object.__setattr__(self, "schema", schema)
        object.__setattr__(self, "identity", int.from_bytes(digest[:4], "big"))

    def new_cookie(self) -> int:
        """Return a cookie for one push of this program."""
        return self.identity << 32 | secrets.randbits(32)

    def made(self, cookie: int) -> bool:
        """Tell whether a cookie stands for this program."""
        return cookie >> 32 == self.identity


async def read_cookie(stub: p4r_grpc.P4RuntimeStub, device_id: int) -> int | None:
    """Return the cookie of the switch's pipeline (0 when it was pushed without one), None when it has no pipeline."""
    request = p4r.GetForwardingPipelineConfigRequest(
        device_id=device_id, response_type=p4r.GetForwardingPipelineConfigRequest.P4INFO_AND_COOKIE
    )
    try:
        reply = await stub.GetForwardingPipelineConfig(request, timeout=10)
    except grpc.aio.AioRpcError as error:
        if error.code() == grpc.StatusCode.FAILED_PRECONDITION:
            return None
        raise
    if not reply.config.HasField("p4info"):
        return None
    return int(reply.config.cookie.cookie)


async def push(stub: p4r_grpc.P4RuntimeStub, device_id: int, election_id: int, pipeline: Pipeline, cookie: int) -> None:
    """Verify and commit the program on a switch whose primary client holds `election_id`."""
    request = p4r.SetForwardingPipelineConfigRequest(
        device_id=device_id,
        election_id=U128.encode(election_id),
        action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
        config=p4r.ForwardingPipelineConfig(
            p4info=pipeline.schema.p4info,
            p4_device_config=pipeline.config_path.read_bytes(),
            cookie=p4r.ForwardingPipelineConfig.Cookie(cookie=cookie),
        ),
    )
    await stub.SetForwardingPipelineConfig(request, timeout=PUSH_TIMEOUT_S)
