"""Which links retry, and how they are switched: both ends together, each time by another generation."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from codec.fabric import Fabric
from codec.profile import LinkProfile
from controller.entries import Entry
from controller.link_retry import LinkRetry
from controller.repl import SHELL_PYTHON
from controller.retry_files import Mode, Retries, RetryFiles
from controller.routes import entries_for
from topologies.describe import describe
from topologies.topos import parse_topo

REPOSITORY = Path(__file__).resolve().parents[2]
AUTO = LinkProfile(llr="auto", llr_on_losses=3, llr_window_s=10, llr_clean_s=60, llr_clean_frames=0)


def fabric(profile: LinkProfile = AUTO) -> Fabric:
    """Two leaves and a spine with managed links; the leaves have two GPUs each, ports 1 and 2, and port 3 up."""
    return describe(parse_topo("leafspine,gpus=4,leaves=2,spines=1"), "leafspine", mode="managed", profile=profile)


def tables(made: Fabric, retry: LinkRetry, switch: str) -> dict[str, dict[int, Entry]]:
    found: dict[str, dict[int, Entry]] = {"llr_profile": {}, "link_announcement": {}, "link_profile": {}}
    for item in entries_for(made, made.switch(switch), retrying=retry.retrying(switch)):
        if item.table in found:
            found[item.table][item.match[0][1]] = item
    return found


def counts(found: int = 0, told: int = 0, frames: int = 1000) -> dict[str, int]:
    return {"link_losses_found": found, "link_losses_told": told, "port_rx": frames, "port_tx": frames}


def test_a_link_that_loses_retries_at_both_ends() -> None:
    made = fabric()
    retry = LinkRetry(made)
    up = made.switch("leaf1").port_to("spine1")[0].port
    down = made.switch("spine1").port_to("leaf1")[0].port
    assert not tables(made, retry, "leaf1")["llr_profile"]
    retry.look("leaf1", {up: counts()}, 100.0)
    assert retry.decide({}, 100.0) == []
    retry.look("leaf1", {up: counts(told=3, frames=2000)}, 101.0)
    (event,) = retry.decide({}, 101.0)
    assert (event.what, event.switch, event.port, event.peer) == ("RETRY_ON", "leaf1", up, "spine1")
    assert event.why == "0 losses to the switch (0.0e+00 of its frames), 3 to the peer (3.0e-03)"
    assert str(event).endswith(f"leaf1  port {up:<4} spine1 RETRY_ON: {event.why}")
    for switch, port in (("leaf1", up), ("spine1", down)):
        found = tables(made, retry, switch)
        assert list(found["llr_profile"]) == [port]
        assert dict(found["link_announcement"][port].params)["capabilities"] == 3
        assert dict(found["link_profile"][port].params)["generation"] == 1
    assert not tables(made, retry, "leaf2")["llr_profile"]
    assert retry.decide({}, 102.0) == []
    retry.look("leaf1", {up: counts(told=3, frames=2000)}, 162.0)
    (event,) = retry.decide({}, 162.0)
    assert (event.what, event.why) == ("RETRY_OFF", "clean for 60 s")
    found = tables(made, retry, "spine1")
    assert not found["llr_profile"] and dict(found["link_profile"][down].params)["generation"] == 2


def test_either_end_sees_it() -> None:
    made = fabric()
    retry = LinkRetry(made)
    down = made.switch("spine1").port_to("leaf1")[0].port
    for at_s, found in ((1.0, 0), (2.0, 5)):
        retry.look("spine1", {down: counts(found=found)}, at_s)
    assert [event.what for event in retry.decide({}, 2.0)] == ["RETRY_ON"]


def test_profiles_that_leave_no_choice_are_kept() -> None:
    for llr in (True, False):
        retry = LinkRetry(fabric(LinkProfile(llr=llr)))
        for at_s, found in ((1.0, 0), (2.0, 50)):
            retry.look("leaf1", {1: counts(found=found)}, at_s)
        assert retry.decide({}, 2.0) == []
        assert {setting.on for setting in retry.retrying("leaf1").values()} == {llr}


def test_by_hand_and_back() -> None:
    retry = LinkRetry(fabric())
    (event,) = retry.decide({"leaf1:2": Mode.ON}, 1.0)
    assert (event.port, event.what, event.why) == (2, "RETRY_ON", "by hand")
    for at_s in (1.0, 500.0):
        retry.look("leaf1", {2: counts()}, at_s)
        assert retry.decide({"leaf1:2": Mode.ON}, at_s) == []
    assert retry.decide({"leaf1:2": Mode.AUTO}, 500.0) == []  # as if it had just been found bad
    retry.look("leaf1", {2: counts()}, 559.0)
    assert retry.decide({"leaf1:2": Mode.AUTO}, 559.0) == []
    retry.look("leaf1", {2: counts()}, 560.0)
    assert [event.what for event in retry.decide({"leaf1:2": Mode.AUTO}, 560.0)] == ["RETRY_OFF"]


def test_a_new_controller_goes_on_from_the_tables() -> None:
    made = fabric()
    old, new = LinkRetry(made), LinkRetry(made)
    old.decide({"leaf1:3": Mode.ON}, 1.0)
    said = old.to_json()
    for switch in ("leaf1", "leaf2", "spine1"):
        new.adopt(switch, entries_for(made, made.switch(switch), retrying=old.retrying(switch)))
        assert new.retrying(switch) == old.retrying(switch)
    assert new.decide({}, 2.0) == [], "it is supposed to have been found bad"
    assert [link.why for link in new.links if link.on] == ["found so"]
    third = LinkRetry(made)
    third.remember(json.loads(json.dumps(said)))
    third.adopt("leaf1", entries_for(made, made.switch("leaf1"), retrying=old.retrying("leaf1")))
    assert [(link.why, link.since_s) for link in third.links if link.on] == [("by hand", 1.0)]


@pytest.mark.parametrize("first", ["leaf1", "spine1"])
def test_a_link_that_was_switched_half_way_is_switched_whole(first: str) -> None:
    """An earlier controller stopped after one of the two ends, whichever is seen first."""
    made = fabric()
    old, new = LinkRetry(made), LinkRetry(made)
    up = made.switch("leaf1").port_to("spine1")[0].port
    before = entries_for(made, made.switch("spine1"), retrying=old.retrying("spine1"))
    old.decide({f"leaf1:{up}": Mode.ON}, 1.0)
    after = entries_for(made, made.switch("leaf1"), retrying=old.retrying("leaf1"))
    for switch in (first, "spine1" if first == "leaf1" else "leaf1"):
        new.adopt(switch, after if switch == "leaf1" else before)
    (event,) = new.decide({}, 2.0)
    assert (event.what, event.why) == ("RETRY_ON", "one end of it did already")
    down = made.switch("spine1").port_to("leaf1")[0].port
    assert new.retrying("leaf1")[up].on and new.retrying("spine1")[down].on
    assert (new.retrying("leaf1")[up].generation, new.retrying("spine1")[down].generation) == (2, 1)
    assert new.decide({}, 3.0) == []


def test_it_is_done_when_all_tables_hold_it(tmp_path: Path) -> None:
    made = fabric()
    retry, files = LinkRetry(made), RetryFiles(tmp_path)
    up = made.switch("leaf1").port_to("spine1")[0].port
    retry.decide({f"leaf1:{up}": Mode.ON}, 1.0)
    for switch, shown in (("leaf1", "on (not yet)"), ("spine1", "on")):
        retry.written(switch, retry.retrying(switch))
        files.publish(retry.to_json())
        assert [row[2] for row in files.rows() if f"leaf1:{up} " in row[0]] == [shown]
        assert files.obeyed([("leaf1", up)], Mode.ON, wait_s=0) is (shown == "on")


@pytest.mark.parametrize("content", ["", "[]", '{"leaf1:1": "perhaps"}', "{"])
def test_a_list_of_wishes_that_is_none(content: str, tmp_path: Path) -> None:
    (tmp_path / "llr.modes.json").write_text(content)
    assert RetryFiles(tmp_path).modes() == {}


def test_ports_by_name(tmp_path: Path) -> None:
    files = RetryFiles(tmp_path)
    with pytest.raises(ValueError, match="no managed port 'leaf1'; there are none: start the fabric with"):
        files.ports(["leaf1"])
    files.publish(LinkRetry(fabric()).to_json())
    assert files.ports(["leaf1:2", "leaf2"]) == [("leaf1", 2), ("leaf2", 1), ("leaf2", 2), ("leaf2", 3)]
    assert len(files.ports([])) == 8
    with pytest.raises(ValueError, match=r"no managed port 'leaf1:7'; there are leaf1:1, leaf1:2, "):
        files.ports(["leaf1:7"])
    files.choose([("leaf1", 2)], Mode.ON)
    files.choose([("leaf2", 1)], Mode.OFF)
    assert files.modes() == {"leaf1:2": Mode.ON, "leaf2:1": Mode.OFF}
    assert not files.obeyed([("leaf1", 2)], Mode.ON, wait_s=0.1), "no controller is there"
    retries = Retries(tmp_path)
    assert retries() is retries and "leaf1" in repr(retries), "as IPython calls it when its name alone is typed"
    with pytest.raises(ValueError, match="'perhaps' is none of on, off, auto"):
        Retries(tmp_path)("perhaps", "leaf1:2")
    files.forget()
    assert files.modes() == {} and files.read() is None


@pytest.mark.skipif(not SHELL_PYTHON.exists(), reason="`make repl` has not installed p4runtime-shell")
def test_the_shells_own_python_shows_the_links(tmp_path: Path) -> None:
    """Nothing that it needs may come from the project's environment."""
    RetryFiles(tmp_path).publish(LinkRetry(fabric()).to_json())
    program = "import sys, pathlib, controller.shell as shell; print(shell.Retries(pathlib.Path(sys.argv[1])))"
    done = subprocess.run(
        ["env", f"PYTHONPATH={REPOSITORY}", str(SHELL_PYTHON), "-c", program, str(tmp_path)],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.stdout.splitlines()[0].startswith("leaf1:1 g1 off auto "), done.stderr
