"""The state of action profiles and selectors: members, groups, and the table entries that refer to them.

The data plane's entries carry actions of their own and know nothing of profiles: a member is written into every entry
that refers to it, and again when it changes; an entry that refers to a group gets the actions of its members to choose
from. What an entry refers to is part of its note (table_state.py).

Which member a packet gets is the hash of its selector fields modulo the number of members: their order counts. It is
BMv2's, which numbers members as they come, with the lowest number that is free, and as many more as a member's greatest
weight in a group asks for; a group's members are in the order of these numbers, those of a one shot as written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import gcd

from finsy.proto import p4r

from p4switch.dataplane import DataPlane, PortStatus, TableEntry
from p4switch.server import dataplane_errors
from p4switch.server.actions import Params, decode_action, encode_action
from p4switch.server.handler import MODIFY, DataPlaneUser
from p4switch.server.matches import EntryKey
from p4switch.server.schema import ActionProfile, Schema, Table
from p4switch.server.status import (
    INVALID_ARGUMENT,
    NOT_FOUND,
    RESOURCE_EXHAUSTED,
    UNIMPLEMENTED,
    RequestError,
    list_choices,
)
from p4switch.server.values import decode_unsigned, encode_unsigned

Ports = Callable[[], list[PortStatus]]
Call = tuple[int, Params]  # an action and its arguments
User = tuple[int, EntryKey]  # a table entry: table id and key

_PORT_BITS = 9  # v1model's PortId_t
_MOST_CHOICES = 65536  # actions that an entry may choose from, members repeated by weight


@dataclass(frozen=True)
class Watch:
    """The port that a member's or a one shot's liveness depends on. deprecated: it was written in the old field."""

    port: int
    deprecated: bool = False

    def put(self, into: p4r.ActionProfileAction | p4r.ActionProfileGroup.Member) -> None:
        if self.deprecated:
            into.watch = self.port
        else:
            into.watch_port = encode_unsigned(self.port)


@dataclass(frozen=True)
class Shot:
    """An action of a one shot."""

    call: Call
    weight: int
    watch: Watch | None


@dataclass(frozen=True)
class Share:
    """A member's part in a group."""

    member: int
    weight: int
    watch: Watch | None


@dataclass(frozen=True)
class Reference:
    """What an entry of an indirect table refers to: a member, a group, or the actions of a one shot."""

    member: int = 0
    group: int = 0
    shots: tuple[Shot, ...] | None = None


@dataclass
class Member:
    """handles: its numbers, one for each time that it stands in a group; standing: how many times, by group."""

    call: Call
    users: set[User] = field(default_factory=set)
    handles: list[int] = field(default_factory=list)
    standing: dict[int, int] = field(default_factory=dict)


@dataclass
class Group:
    """A group of a selector; its members as written."""

    members: tuple[Share, ...]
    max_size: int
    users: set[User] = field(default_factory=set)

    def counts(self) -> dict[int, int]:
        """How many times each member stands in the group: its weight, reduced where the sum would be too large."""
        return dict(zip((share.member for share in self.members), _counts(self.members), strict=True))


@dataclass
class ProfileState:
    """What a profile holds. one_shots: entries that are programmed in one shot; they exclude members and groups."""

    profile: ActionProfile
    members: dict[int, Member] = field(default_factory=dict)
    groups: dict[int, Group] = field(default_factory=dict)
    one_shots: dict[User, Reference] = field(default_factory=dict)
    _free: list[int] = field(default_factory=list)  # a heap of handles below _next
    _next: int = 0

    def add(self, number: int, member: Member) -> None:
        """Take in a member, which no group has yet."""
        self.members[number] = member
        self._fit(member)

    def drop(self, number: int) -> None:
        """Forget a member that no group has."""
        for handle in self.members.pop(number).handles:
            heappush(self._free, handle)

    def enrol(self, number: int, before: Iterable[Share]) -> None:
        """Note that a group with these members so far has others now, or is no more."""
        counts = self.groups[number].counts() if number in self.groups else {}
        for each in sorted({share.member for share in before} | counts.keys()):
            member = self.members[each]
            member.standing.pop(number, None)
            if each in counts:
                member.standing[number] = counts[each]
            self._fit(member)

    def _fit(self, member: Member) -> None:
        """Give a member as many handles as its groups need."""
        wanted = max(member.standing.values(), default=1)
        while len(member.handles) < wanted:
            member.handles.append(heappop(self._free) if self._free else self._next)
            self._next = max(self._next, member.handles[-1] + 1)
        while len(member.handles) > wanted:
            heappush(self._free, member.handles.pop())

    def member(self, number: int) -> Member:
        if number not in self.members:
            raise RequestError(NOT_FOUND, f"member {number} of '{self.profile.name}' does not exist")
        return self.members[number]

    def group(self, number: int) -> Group:
        if number not in self.groups:
            raise RequestError(NOT_FOUND, f"group {number} of '{self.profile.name}' does not exist")
        return self.groups[number]


class Profiles(DataPlaneUser):
    """All profiles of a loaded pipeline, by P4Info id."""

    def __init__(self, schema: Schema, dataplane: DataPlane, ports: Ports) -> None:
        super().__init__(dataplane)
        self.schema = schema
        self._ports = ports
        self.on_watch: Callable[[], None] = lambda: None  # called when something depends on a port
        self._up: frozenset[int] = frozenset()
        self.states = {number: ProfileState(profile) for number, profile in schema.profiles.items()}

    def find(self, profile_id: int) -> ProfileState:
        return self.states[self.schema.find("action profile", self.schema.profiles, profile_id).id]

    def owner(self, profile: ActionProfile) -> Table:
        """Return a table that uses the profile, which says what actions its members may have."""
        table = self.schema.tables.get(profile.table_ids[0]) if profile.table_ids else None
        if table is None:
            raise RequestError(INVALID_ARGUMENT, f"no table uses '{profile.name}', so that it has no actions")
        return table

    # ------------------------------------------------------------------------------------------- table entries

    def resolve(self, table: Table, message: p4r.TableAction) -> tuple[Call, Reference]:
        """Check what the action of an entry refers to; return what the entry itself carries, and the reference."""
        state = self.states[table.implementation]
        profile, given = state.profile, message.WhichOneof("type")
        if state.one_shots and given in ("action_profile_member_id", "action_profile_group_id"):
            raise RequestError(
                INVALID_ARGUMENT,
                f"table '{table.name}': {len(state.one_shots)} entries are one shots, which exclude members and groups",
            )
        if given == "action_profile_member_id":
            number = message.action_profile_member_id
            return state.member(number).call, Reference(member=number)
        if given == "action_profile_group_id" and profile.selector:
            reference = Reference(group=message.action_profile_group_id)
            state.group(reference.group)
        elif given == "action_profile_action_set" and profile.selector:
            reference = Reference(shots=self._shots(table, state, message.action_profile_action_set))
        else:
            wanted = "a member, a group or an action set" if profile.selector else "a member"
            raise RequestError(
                INVALID_ARGUMENT,
                f"table '{table.name}' uses '{profile.name}': {wanted} is needed, not {given or 'none'}",
            )
        choices = self.choices(table, reference)
        return choices[0] if choices else self.dataplane.table_default(table.id), reference

    def choices(self, table: Table, reference: Reference) -> list[Call] | None:
        """List the actions that an entry chooses from, repeated by weight; None when there is nothing to choose."""
        if reference.member:
            return None
        state = self.states[table.implementation]
        if reference.shots is not None:
            shots = [shot for shot in reference.shots if self._alive(shot.watch)]
            return [shot.call for shot, count in zip(shots, _counts(shots), strict=True) for _ in range(count)]
        group = state.group(reference.group)
        counts = group.counts()
        alive = [share.member for share in group.members if self._alive(share.watch)]
        numbered = [(h, state.member(m).call) for m in alive for h in state.member(m).handles[: counts[m]]]
        return [call for _, call in sorted(numbered, key=lambda pair: pair[0])]

    def offer(self, table: Table, entry: TableEntry, reference: Reference) -> None:
        """Let an entry that is in the table now choose from what it refers to."""
        choices = self.choices(table, reference)
        if choices is not None:
            with dataplane_errors.translated(f"entry of table '{table.name}'"):
                self.dataplane.set_choices(entry, choices)

    def refer(self, table: Table, key: EntryKey, old: Reference | None, new: Reference | None) -> None:
        """Note that an entry refers to something else now."""
        state, user = self.states[table.implementation], (table.id, key)
        state.one_shots.pop(user, None)
        if old is not None and old.group in state.groups:
            state.groups[old.group].users.discard(user)
        if old is not None and old.member in state.members:
            state.members[old.member].users.discard(user)
        if new is None:
            return
        if new.shots is not None:
            state.one_shots[user] = new
        elif new.group:
            state.groups[new.group].users.add(user)
        else:
            state.members[new.member].users.add(user)

    def describe(self, table: Table, reference: Reference, into: p4r.TableAction) -> None:
        """Fill in the action of an entry as it was written."""
        if reference.member:
            into.action_profile_member_id = reference.member
        elif reference.group:
            into.action_profile_group_id = reference.group
        else:
            into.action_profile_action_set.SetInParent()
            for shot in reference.shots or ():
                action_id, params = shot.call
                message = into.action_profile_action_set.action_profile_actions.add(weight=shot.weight)
                encode_action(table.actions[action_id].action, params, message.action)
                if shot.watch is not None:
                    shot.watch.put(message)

    def _shots(self, table: Table, state: ProfileState, message: p4r.ActionProfileActionSet) -> tuple[Shot, ...]:
        what = f"action set of table '{table.name}'"
        if state.members or state.groups:
            raise RequestError(
                INVALID_ARGUMENT, f"{what}: '{state.profile.name}' has members or groups, which exclude one shots"
            )
        if message.action_selection_mode or message.size_semantics:
            raise RequestError(
                UNIMPLEMENTED, f"{what}: selection modes and size semantics of its own are not supported"
            )
        shots = tuple(
            Shot(decode_action(table, each.action, as_default=False), each.weight, self.watch(each, what))
            for each in message.action_profile_actions
        )
        weights = [shot.weight for shot in shots]
        check_weights(state.profile, weights, state.profile.max_group_size, what, INVALID_ARGUMENT)
        return shots

    # ------------------------------------------------------------------------------------- members and groups

    def set_call(self, state: ProfileState, number: int, call: Call) -> None:
        """Change a member, and with it the entries that refer to it or to a group that it is in."""
        member = state.members[number]
        member.call = call
        updates = [(MODIFY, TableEntry(table, *key, *call)) for table, key in member.users]
        for error in self.dataplane.apply(updates):
            if error is not None:
                raise dataplane_errors.translate(error, f"member {number}")
        for group_number, group in state.groups.items():
            if any(share.member == number for share in group.members):
                self.renew(group_number, group)

    def renew(self, number: int, group: Group) -> None:
        """Let the entries that refer to a group choose from its present members."""
        for table_id, key in group.users:
            self.offer(self.schema.tables[table_id], TableEntry(table_id, *key), Reference(group=number))

    # ------------------------------------------------------------------------------------------- watched ports

    def watch(self, message: p4r.ActionProfileAction | p4r.ActionProfileGroup.Member, what: str) -> Watch | None:
        """Read what a member depends on; INVALID_ARGUMENT unless it is a port of this switch, or nothing."""
        if message.watch:
            watch = Watch(message.watch, deprecated=True)
        elif message.watch_port:
            watch = Watch(decode_unsigned(message.watch_port, _PORT_BITS, f"{what}: watch port"))
        else:
            return None
        ports = {port.port for port in self._ports() if port.iface}
        if watch.port not in ports:
            known = list_choices(map(str, ports))
            raise RequestError(INVALID_ARGUMENT, f"{what}: there is no port {watch.port} to watch; there is {known}")
        self.look_at_ports()
        self.on_watch()
        return watch

    def look_at_ports(self) -> bool:
        """Let entries choose anew where a watched port has changed; False when no port is watched at all."""
        groups = [
            (number, group)
            for state in self.states.values()
            for number, group in state.groups.items()
            if any(share.watch is not None for share in group.members)
        ]
        shots = [
            (user, reference)
            for state in self.states.values()
            for user, reference in state.one_shots.items()
            if any(shot.watch is not None for shot in reference.shots or ())
        ]
        up = frozenset(port.port for port in self._ports() if port.iface and port.up)
        if up != self._up:
            self._up = up
            for number, group in groups:
                self.renew(number, group)
            for (table_id, key), reference in shots:
                self.offer(self.schema.tables[table_id], TableEntry(table_id, *key), reference)
        return bool(groups or shots)

    def _alive(self, watch: Watch | None) -> bool:
        return watch is None or watch.port in self._up


def check_weights(profile: ActionProfile, weights: list[int], most: int, what: str, code: int) -> None:
    """Check the weights of a group, and its size against a limit (0: none); `code` says what exceeding that is."""
    for weight in weights:
        if weight <= 0:
            raise RequestError(INVALID_ARGUMENT, f"{what}: weight {weight} is not above 0")
        if profile.count_members and 0 < profile.max_member_weight < weight:
            raise RequestError(INVALID_ARGUMENT, f"{what}: weight {weight} is above {profile.max_member_weight}")
    total = len(weights) if profile.count_members else sum(weights)
    if 0 < most < total:
        raise RequestError(code, f"{what}: its size {total} is above {most}")
    if weights and sum(weights) // gcd(*weights) > _MOST_CHOICES:
        raise RequestError(RESOURCE_EXHAUSTED, f"{what}: the weights sum up to more than {_MOST_CHOICES}")


def _counts(weighted: Sequence[Share] | Sequence[Shot]) -> list[int]:
    """How many times each stands among the choices: its weight, reduced where the sum would be too large."""
    weights = [each.weight for each in weighted]
    divisor = gcd(*weights) if sum(weights) > _MOST_CHOICES else 1
    return [weight // divisor for weight in weights]
