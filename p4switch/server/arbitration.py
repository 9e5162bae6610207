"""Client arbitration: which controller is the primary of each role (P4Runtime 1.4, "Client Arbitration").

Pure bookkeeping, without gRPC: a session is anything that notifications can be delivered to. The caller serialises
calls with Writes, so that a new primary is named only when no Write of the old one is still running.

Two rules that clients know from older servers differ. When a primary leaves, no backup is promoted by itself: all are
told NOT_FOUND, and the next to offer an election id at least as high as the highest ever seen becomes primary. And a
session without an election id is a backup for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from finsy.proto import U128, p4r, rpc_status

from p4switch.server import status
from p4switch.server.roles import RoleConfig
from p4switch.server.status import RequestError

Deliver = Callable[[p4r.StreamMessageResponse], None]
Offer = Callable[[p4r.StreamMessageResponse], bool]


@dataclass(eq=False)
class Session:
    """A controller's stream: deliver() is for what must arrive, offer() for what may be lost (False if it was).

    role and election_id are set by its first arbitration message.
    """

    deliver: Deliver
    offer: Offer
    role: str | None = None
    election_id: int | None = None


@dataclass
class Role:
    """What is known of one role of the device."""

    name: str
    message: p4r.Role = field(default_factory=p4r.Role)  # what clients are told: the primary's, or its name alone
    sessions: list[Session] = field(default_factory=list)
    primary: Session | None = None
    highest: int | None = None  # election id; never goes down while the server lives
    config: RoleConfig = field(default_factory=RoleConfig)


class Arbiter:
    """The roles of one device and the sessions that compete for them."""

    def __init__(self, device_id: int) -> None:
        self.device_id = device_id
        self._roles: dict[str, Role] = {"": Role("")}

    def update(self, session: Session, message: p4r.MasterArbitrationUpdate) -> None:
        """Take in an arbitration message; RequestError means that the stream has to be ended with it."""
        if message.device_id != self.device_id:
            code = status.NOT_FOUND if session.role is None else status.FAILED_PRECONDITION
            raise RequestError(code, f"device {message.device_id} is not here; this switch is device {self.device_id}")
        name = role_name(message.role.name, message.role.id)
        if session.role is not None and session.role != name:
            raise RequestError(
                status.FAILED_PRECONDITION,
                f"this stream arbitrates for role '{session.role}' and cannot change to '{name}'; open another stream",
            )
        config = RoleConfig.from_any(message.role.config) if message.role.HasField("config") else RoleConfig()
        self._check_exclusive(name, config)
        election_id = U128.decode(message.election_id) if message.HasField("election_id") else None
        role = self._roles.get(name) or Role(name, p4r.Role(name=message.role.name, id=message.role.id))
        if election_id is not None and any(s is not session and s.election_id == election_id for s in role.sessions):
            raise RequestError(
                status.INVALID_ARGUMENT,
                f"election id {election_id} is already used by another client of role '{name}' on this device",
            )
        if session.role is None:
            role.sessions.append(session)
            session.role = name
            self._roles[name] = role
        session.election_id = election_id
        self._elect(role, session, message.role, config)

    def _check_exclusive(self, name: str, config: RoleConfig) -> None:
        """Raise INVALID_ARGUMENT when a role wants what another one, which has a primary, has for itself."""
        for other in self._roles.values():
            if other.name != name and other.primary is not None and (taken := config.conflicts(other.config)):
                ids = status.list_choices(map(str, taken))
                raise RequestError(
                    status.INVALID_ARGUMENT,
                    f"role.config of '{name}': P4 ids {ids} are of role '{other.name}' as well, and one of both has "
                    "them exclusively",
                )

    def _elect(self, role: Role, session: Session, message: p4r.Role, config: RoleConfig) -> None:
        election_id = session.election_id
        if election_id is not None and (role.highest is None or election_id >= role.highest):
            role.highest = election_id
            role.primary = session
            role.message = p4r.Role()
            role.message.CopyFrom(message)
            role.config = config
            # Backups first: nobody may believe itself primary at the same time as the new one.
            for other in role.sessions:
                if other is not session:
                    self._notify(role, other)
            self._notify(role, session)
        elif role.primary is session:
            role.primary = None
            self._notify_all(role)
        else:
            self._notify(role, session)

    def leave(self, session: Session) -> None:
        """Forget a session whose stream has ended."""
        role = self._roles.get(session.role) if session.role is not None else None
        if role is None or session not in role.sessions:
            return
        role.sessions.remove(session)
        if role.primary is session:
            role.primary = None
            self._notify_all(role)

    def check_device(self, device_id: int) -> None:
        """Raise NOT_FOUND unless the request is meant for this device."""
        if device_id != self.device_id:
            raise RequestError(
                status.NOT_FOUND, f"device {device_id} is not here; this switch is device {self.device_id}"
            )

    def check_primary(self, name: str, election_id: int | None) -> Role:
        """Return the role on behalf of whose primary a modifying request comes, or raise what 1.4 demands."""
        role = self._roles.get(name)
        if role is None:
            known = status.list_choices(repr(known) for known in self._roles)
            raise RequestError(
                status.NOT_FOUND,
                f"no client arbitrates for role '{name}' on device {self.device_id}; roles: {known}"
                + status.did_you_mean(name, self._roles),
            )
        if role.primary is None:
            raise RequestError(
                status.PERMISSION_DENIED,
                f"not primary: role '{name}' has no primary now; open a StreamChannel and send an arbitration message "
                + (f"with an election id of at least {role.highest}" if role.highest is not None else "first"),
            )
        if election_id != role.primary.election_id:
            given = "no election id" if election_id is None else f"election id {election_id}"
            raise RequestError(
                status.PERMISSION_DENIED,
                f"not primary: {given} given, but the primary of role '{name}' has {role.primary.election_id}",
            )
        return role

    def primaries(self) -> list[tuple[Session, RoleConfig]]:
        """List the primary of each role that has one, with the role's configuration."""
        return [(role.primary, role.config) for role in self._roles.values() if role.primary is not None]

    def find_role(self, name: str) -> Role | None:
        """Return a role that a client has arbitrated for, or the default one."""
        return self._roles.get(name)

    def _notify_all(self, role: Role) -> None:
        for session in role.sessions:
            self._notify(role, session)

    def _notify(self, role: Role, session: Session) -> None:
        update = p4r.MasterArbitrationUpdate(device_id=self.device_id)
        if role.name:
            update.role.CopyFrom(role.message)
        if role.highest is not None:
            update.election_id.CopyFrom(U128.encode(role.highest))
        update.status.CopyFrom(self._status(role, session))
        session.deliver(p4r.StreamMessageResponse(arbitration=update))

    @staticmethod
    def _status(role: Role, session: Session) -> rpc_status.Status:
        if role.primary is session:
            return rpc_status.Status(code=status.OK, message="you are the primary")
        if role.primary is not None:
            return rpc_status.Status(code=status.ALREADY_EXISTS, message="you are a backup; another client is primary")
        return rpc_status.Status(code=status.NOT_FOUND, message="you are a backup; there is no primary now")


def role_name(name: str, deprecated_id: int) -> str:
    """Return the key of a role; role ids, deprecated in 1.4, stand for names that only they can have."""
    return name or (f"#{deprecated_id}" if deprecated_id else "")
