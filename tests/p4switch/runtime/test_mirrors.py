"""Numbers that stand in Python and in the runtime's headers are the same."""

from __future__ import annotations

from p4switch.dataplane import DELETE, INSERT, MODIFY, errors, program
from p4switch.dataplane.native import drop_reasons, ffi
from p4switch.dataplane.switch import DEFAULT


def enum(name: str) -> dict[str, int]:
    return dict(ffi().typeof(f"enum {name}").relements)


def test_match_kinds() -> None:
    kinds = enum("p4_match")
    assert kinds == {name: getattr(program, name.removeprefix("P4_")) for name in kinds}


def test_kinds_of_updates() -> None:
    kinds = {"SW_INSERT": INSERT, "SW_MODIFY": MODIFY, "SW_DELETE": DELETE, "SW_DEFAULT": DEFAULT}
    assert enum("sw_op") == kinds


def test_every_status_has_its_error() -> None:
    statuses = enum("sw_status")
    assert set(errors.BY_STATUS) == set(statuses.values()) - {statuses["SW_OK"]}
    named = {
        "SW_INVALID": errors.InvalidArgument,
        "SW_EXISTS": errors.EntryExists,
        "SW_MISSING": errors.EntryMissing,
        "SW_FULL": errors.TableFull,
        "SW_READ_ONLY": errors.ReadOnly,
        "SW_SYSTEM": errors.SystemFailure,
        "SW_STATE": errors.WrongState,
        "SW_ENDLESS": errors.EndlessPacket,
    }
    assert {name: errors.BY_STATUS[statuses[name]] for name in named} == named


def test_drop_reasons() -> None:
    assert drop_reasons()[0] == "no_program" and "queue_full" in drop_reasons()
    assert len(drop_reasons()) == enum("sw_drop")["SW_DROP_REASONS"]
