"""Client arbitration, rule by rule of P4Runtime 1.4."""

from __future__ import annotations

import pytest
from finsy.proto import U128, p4r, stratum
from google.protobuf.any_pb2 import Any

from p4switch.server import status
from p4switch.server.arbitration import Arbiter, Session
from p4switch.server.status import RequestError

DEVICE = 7


class Client:
    """A session that remembers what it was told."""

    def __init__(self, arbiter: Arbiter) -> None:
        self.arbiter = arbiter
        self.told: list[p4r.MasterArbitrationUpdate] = []
        self.session = Session(self._deliver, lambda message: True)

    def _deliver(self, message: p4r.StreamMessageResponse) -> None:
        self.told.append(message.arbitration)

    def bid(self, election_id: int | None, role: str = "", device: int = DEVICE, config: Any | None = None) -> None:
        message = p4r.MasterArbitrationUpdate(device_id=device)
        if election_id is not None:
            message.election_id.CopyFrom(U128.encode(election_id))
        if role:
            message.role.name = role
        if config is not None:
            message.role.config.CopyFrom(config)
        self.arbiter.update(self.session, message)

    def last(self) -> tuple[int, int | None]:
        """Return the code and the election id of the last notification, and forget all."""
        update = self.told[-1]
        self.told.clear()
        return update.status.code, U128.decode(update.election_id) if update.HasField("election_id") else None


@pytest.fixture
def arbiter() -> Arbiter:
    return Arbiter(DEVICE)


def refusal(client: Client, *args: object, **kwargs: object) -> RequestError:
    with pytest.raises(RequestError) as caught:
        client.bid(*args, **kwargs)  # type: ignore[arg-type]
    return caught.value


def test_first_bidder_is_primary(arbiter: Arbiter) -> None:
    client = Client(arbiter)
    client.bid(5)
    assert client.last() == (status.OK, 5)


def test_election_ids_have_128_bits(arbiter: Arbiter) -> None:
    low, high = Client(arbiter), Client(arbiter)
    low.bid((1 << 64) - 1)
    high.bid(1 << 64)
    assert high.last() == (status.OK, 1 << 64)
    assert low.last() == (status.ALREADY_EXISTS, 1 << 64)


def test_lower_bid_is_backup_and_told_alone(arbiter: Arbiter) -> None:
    first, second = Client(arbiter), Client(arbiter)
    first.bid(5)
    first.told.clear()
    second.bid(4)
    assert second.last() == (status.ALREADY_EXISTS, 5)
    assert first.told == []


def test_backups_are_told_before_the_new_primary(arbiter: Arbiter) -> None:
    order: list[str] = []
    old, new = Client(arbiter), Client(arbiter)
    old.bid(1)
    old.session.deliver = lambda message: order.append("old")
    new.session.deliver = lambda message: order.append("new")
    new.bid(2)
    assert order == ["old", "new"]


def test_without_election_id_never_primary(arbiter: Arbiter) -> None:
    client = Client(arbiter)
    client.bid(None)
    assert client.last() == (status.NOT_FOUND, None)


def test_zero_is_an_election_id(arbiter: Arbiter) -> None:
    client = Client(arbiter)
    client.bid(0)
    assert client.last() == (status.OK, 0)


def test_duplicate_election_id_is_refused(arbiter: Arbiter) -> None:
    first, second = Client(arbiter), Client(arbiter)
    first.bid(5)
    error = refusal(second, 5)
    assert error.code == status.INVALID_ARGUMENT
    assert "election id 5 is already used" in error.message
    second.bid(6)  # the refused bid left no trace
    assert second.last() == (status.OK, 6)


def test_same_election_id_in_another_role(arbiter: Arbiter) -> None:
    first, second = Client(arbiter), Client(arbiter)
    first.bid(5)
    second.bid(5, role="acl")
    assert second.told[-1].role.name == "acl"
    assert second.last() == (status.OK, 5)


def test_a_role_without_a_primary_is_told_by_its_name_or_its_id(arbiter: Arbiter) -> None:
    named, numbered = Client(arbiter), Client(arbiter)
    named.bid(None, role="acl")
    assert named.told[-1].role == p4r.Role(name="acl")
    message = p4r.MasterArbitrationUpdate(device_id=DEVICE, role=p4r.Role(id=5))  # deprecated in 1.4
    arbiter.update(numbered.session, message)
    assert numbered.told[-1].role == p4r.Role(id=5)
    assert numbered.last() == (status.NOT_FOUND, None)


def test_a_primary_may_change_the_config_of_its_role(arbiter: Arbiter) -> None:
    """Everyone is told of it, with the config that the primary gave last; a backup's own config counts for nothing."""
    config, other = Any(), Any()
    config.Pack(stratum.P4RoleConfig(exclusive_p4_ids=[1]))
    other.Pack(stratum.P4RoleConfig(exclusive_p4_ids=[2]))
    primary, backup = Client(arbiter), Client(arbiter)
    primary.bid(5, role="acl", config=config)
    backup.bid(4, role="acl", config=other)
    assert backup.told[-1].role.config == config
    assert not arbiter.check_primary("acl", 5).config.may_write(2)
    backup.told.clear()
    primary.bid(5, role="acl", config=other)
    assert backup.told[-1].role.config == primary.told[-1].role.config == other
    assert arbiter.check_primary("acl", 5).config.may_write(2)
    primary.bid(5, role="acl")  # no config: full access
    assert arbiter.check_primary("acl", 5).config.may_write(9)


def test_what_a_role_has_exclusively_no_other_may_name(arbiter: Arbiter) -> None:
    def config(exclusive: list[int], shared: list[int]) -> Any:
        packed = Any()
        packed.Pack(stratum.P4RoleConfig(exclusive_p4_ids=exclusive, shared_p4_ids=shared))
        return packed

    first, second, everything = Client(arbiter), Client(arbiter), Client(arbiter)
    first.bid(1, role="first", config=config([1, 2], [3]))
    for wrong, ids in ((config([1], []), "1"), (config([], [2]), "2"), (config([3], []), "3")):
        error = refusal(second, 1, role="second", config=wrong)
        assert error.code == status.INVALID_ARGUMENT
        assert f"P4 ids {ids} are of role 'first' as well" in error.message
    second.bid(1, role="second", config=config([4], [3]))
    assert second.last() == (status.OK, 1)
    assert refusal(first, 2, role="first", config=config([1, 2], [3, 4])).code == status.INVALID_ARGUMENT
    everything.bid(1)  # full access
    assert everything.last() == (status.OK, 1)
    arbiter.leave(first.session)
    second.bid(1, role="second", config=config([1, 4], [3]))  # nobody has it now
    assert second.last() == (status.OK, 1)


def test_leaving_primary_is_not_replaced_by_itself(arbiter: Arbiter) -> None:
    primary, backup = Client(arbiter), Client(arbiter)
    primary.bid(5)
    backup.bid(4)
    arbiter.leave(primary.session)
    assert backup.last() == (status.NOT_FOUND, 5)
    backup.bid(4)
    assert backup.last() == (status.NOT_FOUND, 5)
    backup.bid(5)
    assert backup.last() == (status.OK, 5)


def test_leaving_backup_is_nobodys_business(arbiter: Arbiter) -> None:
    primary, backup = Client(arbiter), Client(arbiter)
    primary.bid(5)
    backup.bid(4)
    primary.told.clear()
    arbiter.leave(backup.session)
    assert primary.told == []


def test_primary_that_lowers_its_bid_becomes_backup(arbiter: Arbiter) -> None:
    primary, backup = Client(arbiter), Client(arbiter)
    primary.bid(5)
    backup.bid(4)
    primary.bid(3)
    assert primary.last() == (status.NOT_FOUND, 5)
    assert backup.last() == (status.NOT_FOUND, 5)


def test_highest_is_remembered_when_all_are_gone(arbiter: Arbiter) -> None:
    client = Client(arbiter)
    client.bid(9)
    arbiter.leave(client.session)
    late = Client(arbiter)
    late.bid(8)
    assert late.last() == (status.NOT_FOUND, 9)


def test_unknown_device(arbiter: Arbiter) -> None:
    client = Client(arbiter)
    error = refusal(client, 1, device=8)
    assert error.code == status.NOT_FOUND
    assert "device 8" in error.message and f"device {DEVICE}" in error.message


def test_stream_cannot_change_device_or_role(arbiter: Arbiter) -> None:
    client = Client(arbiter)
    client.bid(1)
    assert refusal(client, 1, device=8).code == status.FAILED_PRECONDITION
    assert refusal(client, 1, role="acl").code == status.FAILED_PRECONDITION


def test_check_primary(arbiter: Arbiter) -> None:
    with pytest.raises(RequestError) as nobody:
        arbiter.check_primary("", 1)
    assert nobody.value.code == status.PERMISSION_DENIED
    client = Client(arbiter)
    client.bid(5)
    assert arbiter.check_primary("", 5).primary is client.session
    for wrong in (4, 6, None):
        with pytest.raises(RequestError) as denied:
            arbiter.check_primary("", wrong)
        assert denied.value.code == status.PERMISSION_DENIED
    with pytest.raises(RequestError) as unknown:
        arbiter.check_primary("acl", 5)
    assert unknown.value.code == status.NOT_FOUND


def test_role_config_is_kept_and_told(arbiter: Arbiter) -> None:
    config = Any()
    config.Pack(stratum.P4RoleConfig(exclusive_p4_ids=[1], shared_p4_ids=[2], can_push_pipeline=True))
    primary, backup = Client(arbiter), Client(arbiter)
    primary.bid(5, role="acl", config=config)
    backup.bid(4, role="acl", config=config)
    assert backup.told[-1].role.config == config
    rights = arbiter.check_primary("acl", 5).config
    assert rights.may_write(1) and rights.may_write(2) and not rights.may_write(3)
    assert rights.may_push_pipeline and not rights.receives_packet_ins


def test_role_config_of_another_scheme(arbiter: Arbiter) -> None:
    config = Any()
    config.Pack(p4r.TableEntry())
    error = refusal(Client(arbiter), 1, role="acl", config=config)
    assert error.code == status.INVALID_ARGUMENT
    assert "p4.v1.TableEntry" in error.message
    broken = Any(type_url="type.googleapis.com/stratum.P4RoleConfig", value=b"\xff")
    assert refusal(Client(arbiter), 1, role="acl", config=broken).code == status.INVALID_ARGUMENT
