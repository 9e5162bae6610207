"""Action profiles: members that table entries share.

The data plane's entries carry actions of their own, so a member is written into every entry that refers to it, and
again when it changes. Groups of action selectors need the data plane to choose per packet, which it does not do yet.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from finsy.proto import p4r

from p4switch.dataplane import DataPlane, TableEntry
from p4switch.server import dataplane_errors
from p4switch.server.actions import Params, decode_action, encode_action
from p4switch.server.handler import DELETE, INSERT, MODIFY, Sink, Undo
from p4switch.server.matches import EntryKey
from p4switch.server.schema import ActionProfile, Schema, Table
from p4switch.server.status import (
    ALREADY_EXISTS,
    FAILED_PRECONDITION,
    INVALID_ARGUMENT,
    NOT_FOUND,
    RESOURCE_EXHAUSTED,
    UNIMPLEMENTED,
    RequestError,
)


@dataclass
class Member:
    """A member of a profile and the table entries that refer to it, as (table id, key)."""

    action_id: int
    params: Params
    users: set[tuple[int, EntryKey]] = field(default_factory=set)


class Profiles:
    """The members of all profiles."""

    def __init__(self, schema: Schema, dataplane: DataPlane) -> None:
        self._schema = schema
        self._dataplane = dataplane
        self._members: dict[int, dict[int, Member]] = {number: {} for number in schema.profiles}

    def resolve(self, table: Table, message: p4r.TableAction) -> tuple[int, Member]:
        """Find the member that the action of an entry of an indirect table names."""
        profile = self._schema.profiles[table.implementation]
        given = message.WhichOneof("type")
        if given in ("action_profile_group_id", "action_profile_action_set") and profile.selector:
            raise RequestError(UNIMPLEMENTED, f"table '{table.name}': groups of selectors are not supported yet")
        if given != "action_profile_member_id":
            raise RequestError(
                INVALID_ARGUMENT,
                f"table '{table.name}' uses action profile '{profile.name}': a member id is needed, "
                f"not {given or 'none'}",
            )
        number = message.action_profile_member_id
        return number, self._find(profile, number)

    def refer(self, table: Table, key: EntryKey, old: int, new: int) -> None:
        """Note that an entry refers to member `new` in place of `old`; 0 for none."""
        members = self._members[table.implementation]
        if old in members:
            members[old].users.discard((table.id, key))
        if new:
            members[new].users.add((table.id, key))

    # --------------------------------------------------------------------------------- ActionProfileMember

    def p4_id(self, message: p4r.ActionProfileMember) -> int:
        return message.action_profile_id

    def write(self, kind: int, message: p4r.ActionProfileMember) -> Undo:
        profile = self._schema.find("action profile", self._schema.profiles, message.action_profile_id)
        members, number = self._members[profile.id], message.member_id
        what = f"member {number} of action profile '{profile.name}'"
        if number == 0:
            raise RequestError(INVALID_ARGUMENT, f"action profile '{profile.name}': 0 is not a member id")
        if kind == INSERT:
            if number in members:
                raise RequestError(ALREADY_EXISTS, f"{what} exists already; MODIFY it")
            if profile.size and len(members) >= profile.size:
                raise RequestError(RESOURCE_EXHAUSTED, f"{what}: the profile holds {profile.size} members")
            members[number] = Member(*self._decode(profile, message, what))
            return lambda: self._forget(profile, number)
        member = self._find(profile, number)
        if kind == DELETE:
            if member.users:
                raise RequestError(FAILED_PRECONDITION, f"{what} is used by {len(member.users)} table entries")
            del members[number]
            return lambda: members.__setitem__(number, member)
        old = member.action_id, member.params
        self._change(member, *self._decode(profile, message, what))
        return lambda: self._change(member, *old)

    def read(self, query: p4r.ActionProfileMember, sink: Sink) -> None:
        if query.action_profile_id:
            profiles = [self._schema.find("action profile", self._schema.profiles, query.action_profile_id)]
            if query.member_id:
                self._find(profiles[0], query.member_id)
        else:
            profiles = [each for each in self._schema.profiles.values() if sink.shows(each.id)]
        for profile in profiles:
            for number, member in self._members[profile.id].items():
                if query.member_id in (0, number):
                    message = sink.add().action_profile_member
                    message.action_profile_id = profile.id
                    message.member_id = number
                    encode_action(self._schema.actions[member.action_id], member.params, message.action)

    def _decode(self, profile: ActionProfile, message: p4r.ActionProfileMember, what: str) -> tuple[int, Params]:
        if not message.HasField("action"):
            raise RequestError(INVALID_ARGUMENT, f"{what}: the action is missing")
        table = self._schema.tables.get(profile.table_ids[0]) if profile.table_ids else None
        if table is None:
            raise RequestError(INVALID_ARGUMENT, f"{what}: no table uses this profile, so it has no actions")
        return decode_action(table, message.action, as_default=False)

    def _change(self, member: Member, action_id: int, params: Params) -> None:
        updates = [(MODIFY, TableEntry(table, *key, action_id, params)) for table, key in member.users]
        for error in self._dataplane.apply(updates):
            if error is not None:
                raise dataplane_errors.translate(error, "member")
        member.action_id, member.params = action_id, params

    def _find(self, profile: ActionProfile, number: int) -> Member:
        member = self._members[profile.id].get(number)
        if member is None:
            raise RequestError(NOT_FOUND, f"member {number} of action profile '{profile.name}' does not exist")
        return member

    def _forget(self, profile: ActionProfile, number: int) -> None:
        del self._members[profile.id][number]
