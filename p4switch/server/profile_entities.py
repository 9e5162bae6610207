"""ActionProfileMember and ActionProfileGroup messages."""

from __future__ import annotations

from finsy.proto import p4r

from p4switch.server.actions import decode_action, encode_action
from p4switch.server.handler import DELETE, INSERT, Sink, Undo
from p4switch.server.profiles import Call, Group, Member, Profiles, ProfileState, Share, check_weights
from p4switch.server.status import (
    ALREADY_EXISTS,
    FAILED_PRECONDITION,
    INVALID_ARGUMENT,
    NOT_FOUND,
    RESOURCE_EXHAUSTED,
    RequestError,
)


class MemberEntities:
    """ActionProfileMember."""

    def __init__(self, profiles: Profiles) -> None:
        self._profiles = profiles

    def p4_id(self, message: p4r.ActionProfileMember) -> int:
        return message.action_profile_id

    def write(self, kind: int, message: p4r.ActionProfileMember) -> Undo:
        state, number = self._profiles.find(message.action_profile_id), message.member_id
        what = f"member {number} of '{state.profile.name}'"
        if number == 0:
            raise RequestError(INVALID_ARGUMENT, f"'{state.profile.name}': 0 is not a member id")
        if kind == INSERT:
            _refuse_one_shots(state, what)
            if number in state.members:
                raise RequestError(ALREADY_EXISTS, f"{what} exists already; MODIFY it")
            if 0 < state.profile.size <= len(state.members):
                raise RequestError(RESOURCE_EXHAUSTED, f"{what}: the profile holds {state.profile.size} members")
            state.add(number, Member(self._decode(state, message, what)))
            return lambda: state.drop(number)
        member = state.member(number)
        if kind == DELETE:
            _refuse_users(len(member.users), "table entries", what)
            groups = [n for n, group in state.groups.items() if any(share.member == number for share in group.members)]
            _refuse_users(len(groups), "groups", what)
            state.drop(number)
            return lambda: state.add(number, Member(member.call, member.users))
        old = member.call
        self._profiles.set_call(state, number, self._decode(state, message, what))
        return lambda: self._profiles.set_call(state, number, old)

    def read(self, query: p4r.ActionProfileMember, sink: Sink) -> None:
        for state in _select(self._profiles, query.action_profile_id, sink):
            if query.action_profile_id and query.member_id:
                state.member(query.member_id)
            for number, member in state.members.items():
                if query.member_id in (0, number):
                    message = sink.add().action_profile_member
                    message.action_profile_id = state.profile.id
                    message.member_id = number
                    action_id, params = member.call
                    encode_action(self._profiles.schema.actions[action_id], params, message.action)

    def _decode(self, state: ProfileState, message: p4r.ActionProfileMember, what: str) -> Call:
        if not message.HasField("action"):
            raise RequestError(INVALID_ARGUMENT, f"{what}: the action is missing")
        return decode_action(self._profiles.owner(state.profile), message.action, as_default=False)


class GroupEntities:
    """ActionProfileGroup, of action selectors."""

    def __init__(self, profiles: Profiles) -> None:
        self._profiles = profiles

    def p4_id(self, message: p4r.ActionProfileGroup) -> int:
        return message.action_profile_id

    def write(self, kind: int, message: p4r.ActionProfileGroup) -> Undo:
        state, number = self._profiles.find(message.action_profile_id), message.group_id
        what = f"group {number} of '{state.profile.name}'"
        if not state.profile.selector:
            raise RequestError(INVALID_ARGUMENT, f"'{state.profile.name}' is no action selector and has no groups")
        if number == 0:
            raise RequestError(INVALID_ARGUMENT, f"'{state.profile.name}': 0 is not a group id")
        if kind == INSERT:
            _refuse_one_shots(state, what)
            if number in state.groups:
                raise RequestError(ALREADY_EXISTS, f"{what} exists already; MODIFY it")
            _check_max_size(state, message.max_size, what)
            members = self._decode(state, message, message.max_size, what)
            self._add(state, number, Group(members, message.max_size))
            return lambda: self._drop(state, number)
        group = state.group(number)
        if kind == DELETE:
            _refuse_users(len(group.users), "table entries", what)
            self._drop(state, number)
            return lambda: self._add(state, number, group)
        if message.max_size != group.max_size:
            raise RequestError(INVALID_ARGUMENT, f"{what}: max_size is {group.max_size} and cannot be changed")
        old = group.members
        self._set(state, number, self._decode(state, message, group.max_size, what))
        return lambda: self._set(state, number, old)

    def read(self, query: p4r.ActionProfileGroup, sink: Sink) -> None:
        for state in _select(self._profiles, query.action_profile_id, sink):
            if query.action_profile_id and query.group_id:
                state.group(query.group_id)
            for number, group in state.groups.items():
                if query.group_id in (0, number):
                    message = sink.add().action_profile_group
                    message.action_profile_id = state.profile.id
                    message.group_id = number
                    message.max_size = group.max_size
                    for share in group.members:
                        part = message.members.add(member_id=share.member, weight=share.weight)
                        if share.watch is not None:
                            share.watch.put(part)

    @staticmethod
    def _add(state: ProfileState, number: int, group: Group) -> None:
        state.groups[number] = group
        state.enrol(number, ())

    @staticmethod
    def _drop(state: ProfileState, number: int) -> None:
        group = state.groups.pop(number)
        state.enrol(number, group.members)

    def _set(self, state: ProfileState, number: int, members: tuple[Share, ...]) -> None:
        group = state.groups[number]
        before, group.members = group.members, members
        state.enrol(number, before)
        self._profiles.renew(number, group)

    def _decode(
        self, state: ProfileState, message: p4r.ActionProfileGroup, max_size: int, what: str
    ) -> tuple[Share, ...]:
        shares: dict[int, Share] = {}
        for each in message.members:
            if each.member_id in shares:
                raise RequestError(INVALID_ARGUMENT, f"{what}: member {each.member_id} is listed twice; use its weight")
            if each.member_id not in state.members:
                raise RequestError(NOT_FOUND, f"{what}: member {each.member_id} does not exist")
            shares[each.member_id] = Share(each.member_id, each.weight, self._profiles.watch(each, what))
        most = max_size or state.profile.max_group_size
        check_weights(state.profile, [share.weight for share in shares.values()], most, what, RESOURCE_EXHAUSTED)
        return tuple(shares.values())


def _check_max_size(state: ProfileState, max_size: int, what: str) -> None:
    limit = state.profile.max_group_size
    if max_size < 0 or (limit and not 0 < max_size <= limit):
        valid = f"between 1 and {limit}, as the P4Info says" if limit else "not negative"
        raise RequestError(INVALID_ARGUMENT, f"{what}: max_size {max_size} is not {valid}")


def _refuse_one_shots(state: ProfileState, what: str) -> None:
    if state.one_shots:
        raise RequestError(
            INVALID_ARGUMENT,
            f"{what}: {len(state.one_shots)} entries are one shots, which exclude members and groups",
        )


def _refuse_users(count: int, kind: str, what: str) -> None:
    if count:
        raise RequestError(FAILED_PRECONDITION, f"{what} is used by {count} {kind}")


def _select(profiles: Profiles, profile_id: int, sink: Sink) -> list[ProfileState]:
    if profile_id:
        return [profiles.find(profile_id)]
    return [state for state in profiles.states.values() if sink.shows(state.profile.id)]
