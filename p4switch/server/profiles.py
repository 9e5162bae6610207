"""The state of action profiles and selectors: members, groups, and the table entries that refer to them.

The data plane's entries carry actions of their own and know nothing of profiles: a member is written into every entry
that refers to it, and again when it changes; an entry that refers to a group gets the actions of its members to choose
from. What an entry refers to is part of its note (table_state.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import gcd

from finsy.proto import p4r

from p4switch.dataplane import DataPlane, TableEntry
from p4switch.server import dataplane_errors
from p4switch.server.actions import Params, decode_action, encode_action
from p4switch.server.handler import MODIFY, DataPlaneUser
from p4switch.server.matches import EntryKey
from p4switch.server.schema import ActionProfile, Schema, Table
from p4switch.server.status import INVALID_ARGUMENT, NOT_FOUND, RESOURCE_EXHAUSTED, UNIMPLEMENTED, RequestError

Call = tuple[int, Params]  # an action and its arguments
User = tuple[int, EntryKey]  # a table entry: table id and key

_MOST_CHOICES = 65536  # actions that an entry may choose from, members repeated by weight


@dataclass(frozen=True)
class Reference:
    """What an entry of an indirect table refers to: a member, a group, or the (action, weight) pairs of a one shot."""

    member: int = 0
    group: int = 0
    shots: tuple[tuple[Call, int], ...] | None = None


@dataclass
class Member:
    call: Call
    users: set[User] = field(default_factory=set)


@dataclass
class Group:
    """members: (member id, weight), as written."""

    members: tuple[tuple[int, int], ...]
    max_size: int
    users: set[User] = field(default_factory=set)


@dataclass
class ProfileState:
    """What a profile holds. one_shots: entries that are programmed in one shot; they exclude members and groups."""

    profile: ActionProfile
    members: dict[int, Member] = field(default_factory=dict)
    groups: dict[int, Group] = field(default_factory=dict)
    one_shots: set[User] = field(default_factory=set)

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

    def __init__(self, schema: Schema, dataplane: DataPlane) -> None:
        super().__init__(dataplane)
        self.schema = schema
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
            return _repeat(reference.shots)
        return _repeat((state.member(number).call, weight) for number, weight in state.group(reference.group).members)

    def offer(self, table: Table, entry: TableEntry, reference: Reference) -> None:
        """Let an entry that is in the table now choose from what it refers to."""
        choices = self.choices(table, reference)
        if choices is not None:
            with dataplane_errors.translated(f"entry of table '{table.name}'"):
                self.dataplane.set_choices(entry, choices)

    def refer(self, table: Table, key: EntryKey, old: Reference | None, new: Reference | None) -> None:
        """Note that an entry refers to something else now."""
        state, user = self.states[table.implementation], (table.id, key)
        for users in self._users(state, old):
            users.discard(user)
        for users in self._users(state, new):
            users.add(user)

    @staticmethod
    def _users(state: ProfileState, reference: Reference | None) -> list[set[User]]:
        if reference is None:
            return []
        if reference.shots is not None:
            return [state.one_shots]
        if reference.group:
            return [state.groups[reference.group].users] if reference.group in state.groups else []
        return [state.members[reference.member].users] if reference.member in state.members else []

    def describe(self, table: Table, reference: Reference, into: p4r.TableAction) -> None:
        """Fill in the action of an entry as it was written."""
        if reference.member:
            into.action_profile_member_id = reference.member
        elif reference.group:
            into.action_profile_group_id = reference.group
        else:
            into.action_profile_action_set.SetInParent()
            for (action_id, params), weight in reference.shots or ():
                shot = into.action_profile_action_set.action_profile_actions.add(weight=weight)
                encode_action(table.actions[action_id].action, params, shot.action)

    def _shots(
        self, table: Table, state: ProfileState, message: p4r.ActionProfileActionSet
    ) -> tuple[tuple[Call, int], ...]:
        what = f"action set of table '{table.name}'"
        if state.members or state.groups:
            raise RequestError(
                INVALID_ARGUMENT,
                f"{what}: '{state.profile.name}' has members or groups; one shots and they exclude each other",
            )
        if message.action_selection_mode or message.size_semantics:
            raise RequestError(
                UNIMPLEMENTED, f"{what}: selection modes and size semantics of its own are not supported"
            )
        for each in message.action_profile_actions:
            refuse_watch(each, what)
        shots = tuple(
            (decode_action(table, each.action, as_default=False), each.weight)
            for each in message.action_profile_actions
        )
        check_weights(
            state.profile, [weight for _, weight in shots], state.profile.max_group_size, what, INVALID_ARGUMENT
        )
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
            if any(each == number for each, _ in group.members):
                self.renew(group_number, group)

    def renew(self, number: int, group: Group) -> None:
        """Let the entries that refer to a group choose from its present members."""
        for table_id, key in group.users:
            self.offer(self.schema.tables[table_id], TableEntry(table_id, *key), Reference(group=number))


def refuse_watch(message: p4r.ActionProfileAction | p4r.ActionProfileGroup.Member, what: str) -> None:
    """Raise UNIMPLEMENTED when a member is to depend on a port."""
    if message.WhichOneof("watch_kind") is not None and (message.watch_port or message.watch):
        raise RequestError(UNIMPLEMENTED, f"{what}: watch ports are not supported by this switch")


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


def _repeat(weighted: Iterable[tuple[Call, int]]) -> list[Call]:
    pairs = list(weighted)
    divisor = gcd(*(weight for _, weight in pairs)) or 1
    return [call for call, weight in pairs for _ in range(weight // divisor)]
