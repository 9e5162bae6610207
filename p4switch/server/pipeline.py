"""Forwarding-pipeline configurations: checking one, and the state that belongs to a loaded one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from finsy.proto import p4r

from p4switch import build
from p4switch.build import BuildResult
from p4switch.server import status
from p4switch.server.schema import Schema, build_schema
from p4switch.server.status import INVALID_ARGUMENT, RequestError

Action = p4r.SetForwardingPipelineConfigRequest
ResponseType = p4r.GetForwardingPipelineConfigRequest


@dataclass(frozen=True)
class Pipeline:
    """A configuration that this switch can realise: what the client gave, its index, and the program built from it."""

    config: p4r.ForwardingPipelineConfig
    schema: Schema
    build: BuildResult

    def is_same_as(self, other: Pipeline) -> bool:
        """Tell whether the other one differs in its cookie at most."""
        return self.build.library == other.build.library and self.config.p4info == other.config.p4info


def verify(request: p4r.SetForwardingPipelineConfigRequest, traced: bool = False) -> Pipeline:
    """Check and build the configuration in a request; INVALID_ARGUMENT says why it cannot be realised.

    traced: so that the program tells what it does with each packet.
    Takes as long as the C compiler does, unless the same device config was built before.
    """
    if not request.HasField("config"):
        raise RequestError(INVALID_ARGUMENT, "no config given; this action needs the P4Info and the device config")
    config = request.config
    if not config.p4_device_config:
        raise RequestError(
            INVALID_ARGUMENT, "p4_device_config is empty; it is the .p4bin file that `p4switch compile -o DIR` writes"
        )
    try:
        result = build.load_container(config.p4_device_config, traced=traced)
    except build.BuildError as error:
        raise RequestError(INVALID_ARGUMENT, f"p4_device_config: {error}") from error
    schema = build_schema(config.p4info, result.translated)
    _check_same_program(schema, build_schema(result.p4info, result.translated))
    kept = p4r.ForwardingPipelineConfig()
    kept.CopyFrom(config)
    return Pipeline(kept, schema, result)


def from_build(result: BuildResult) -> Pipeline:
    """Make a pipeline of a program that was compiled here rather than pushed by a client."""
    config = p4r.ForwardingPipelineConfig(p4info=result.p4info, p4_device_config=result.container)
    return Pipeline(config, build_schema(result.p4info, result.translated), result)


def describe(pipeline: Pipeline | None, response_type: int) -> p4r.GetForwardingPipelineConfigResponse:
    """Answer GetForwardingPipelineConfig; without a pipeline the config is unset."""
    response = p4r.GetForwardingPipelineConfigResponse()
    if response_type not in ResponseType.ResponseType.values():
        raise RequestError(INVALID_ARGUMENT, f"response type {response_type} does not exist")
    if pipeline is None:
        return response
    config = pipeline.config
    response.config.SetInParent()
    if config.HasField("cookie"):
        response.config.cookie.CopyFrom(config.cookie)
    if response_type in (ResponseType.ALL, ResponseType.P4INFO_AND_COOKIE):
        response.config.p4info.CopyFrom(config.p4info)
    if response_type in (ResponseType.ALL, ResponseType.DEVICE_CONFIG_AND_COOKIE):
        response.config.p4_device_config = config.p4_device_config
    return response


def _check_same_program(given: Schema, built: Schema) -> None:
    """Raise unless every object of the P4Info given is in the program, and is the same there."""
    kinds: tuple[tuple[str, dict[int, Any], dict[int, Any]], ...] = (
        ("action", given.actions, built.actions),
        ("table", given.tables, built.tables),
        ("counter", given.counters, built.counters),
        ("direct counter", given.direct_counters, built.direct_counters),
        ("meter", given.meters, built.meters),
        ("direct meter", given.direct_meters, built.direct_meters),
        ("register", given.registers, built.registers),
        ("action profile", given.profiles, built.profiles),
        ("value set", given.value_sets, built.value_sets),
        ("digest", given.digests, built.digests),
    )
    for kind, theirs, ours in kinds:
        for number, each in theirs.items():
            name = given.names[number]
            if number not in ours:
                names = [built.names[known] for known in ours]
                raise RequestError(
                    INVALID_ARGUMENT,
                    f"P4Info and device config do not belong together: the program has no {kind} '{name}' ({number})"
                    + (status.did_you_mean(name, names) or f"; it has {status.list_choices(names)}"),
                )
            if each != ours[number]:
                raise RequestError(
                    INVALID_ARGUMENT,
                    f"P4Info and device config do not belong together: {kind} '{name}' differs; compile both again",
                )
    for name in ("packet_in", "packet_out"):
        if getattr(given, name) is not None and getattr(given, name) != getattr(built, name):
            raise RequestError(
                INVALID_ARGUMENT,
                f"P4Info and device config do not belong together: controller header '{name}' differs",
            )
