"""What a role may do: P4RoleConfig messages in Role.config, the scheme that Stratum published and finsy speaks.

P4Runtime leaves the scheme open. An absent configuration means full access, as the specification says.
"""

from __future__ import annotations

from dataclasses import dataclass

from finsy.proto import p4r, stratum
from google.protobuf.any_pb2 import Any

from p4switch.server.status import INVALID_ARGUMENT, RequestError


@dataclass(frozen=True)
class RoleConfig:
    """Rights of a role.

    writable: P4Info ids that the role may write, None for all.
    exclusive: those of them that no other role may name.
    packet_in_filter: (metadata id, value) that a packet-in must carry to reach the role, None for all.
    """

    writable: frozenset[int] | None = None
    exclusive: frozenset[int] = frozenset()
    receives_packet_ins: bool = True
    packet_in_filter: tuple[int, int] | None = None
    may_push_pipeline: bool = True

    @classmethod
    def from_any(cls, message: Any) -> RoleConfig:
        """Read a role's configuration; INVALID_ARGUMENT if it is of another scheme or malformed."""
        config = stratum.P4RoleConfig()
        try:
            known = message.Unpack(config)
        except Exception as error:  # protobuf's DecodeError has no stable base class across its implementations
            raise RequestError(INVALID_ARGUMENT, f"role.config cannot be decoded as {message.type_url}") from error
        if not known:
            raise RequestError(
                INVALID_ARGUMENT,
                f"role.config is a {message.type_url or 'message without a type'}; this server understands "
                "stratum.P4RoleConfig, or an unset config for full access",
            )
        return cls(
            writable=frozenset(config.exclusive_p4_ids) | frozenset(config.shared_p4_ids),
            exclusive=frozenset(config.exclusive_p4_ids),
            receives_packet_ins=config.receives_packet_ins,
            packet_in_filter=_filter(config),
            may_push_pipeline=config.can_push_pipeline,
        )

    def conflicts(self, other: RoleConfig) -> frozenset[int]:
        """List the ids that one has exclusively and the other names; full access names none."""
        mine, theirs = self.writable or frozenset(), other.writable or frozenset()
        return self.exclusive & theirs | other.exclusive & mine

    def may_write(self, p4_id: int) -> bool:
        return self.writable is None or p4_id in self.writable

    def wants_packet_in(self, packet: p4r.PacketIn) -> bool:
        if not self.receives_packet_ins:
            return False
        if self.packet_in_filter is None:
            return True
        wanted, value = self.packet_in_filter
        return any(m.metadata_id == wanted and int.from_bytes(m.value, "big") == value for m in packet.metadata)


def _filter(config: stratum.P4RoleConfig) -> tuple[int, int] | None:
    if not config.HasField("packet_in_filter"):
        return None
    return config.packet_in_filter.metadata_id, int.from_bytes(config.packet_in_filter.value, "big")
