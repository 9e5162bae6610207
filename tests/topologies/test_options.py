"""What the launcher refuses before it starts anything: one message, and what to do."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from topologies import options as module
from topologies.describe import describe
from topologies.errors import LaunchError
from topologies.options import DEFAULT_SCENARIO, Options, check, parse
from topologies.topos import parse_topo
from topologies.training import check_profile, find_profile

VARIABLES = ("TOPO", "SCENARIO", "SCRIPT", "PROFILE", "P4_TARGET", "PCAP", "RUN_DIR", "ETHLINK_STARTED")


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def refusal(options: Options) -> str:
    with pytest.raises(LaunchError) as caught:
        check(options)
    return str(caught.value)


def test_make_exports_empty_variables_for_what_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, "")
    options = parse([])
    assert (options.topo, options.scenario, options.script, options.target) == (
        "planes,8,2",
        DEFAULT_SCENARIO,
        None,
        "p4switch",
    )
    assert not options.pcap
    assert options.started > 0


def test_the_environment_sets_what_the_command_line_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPO", "leafspine,4")
    monkeypatch.setenv("PCAP", "1")
    monkeypatch.setenv("ETHLINK_STARTED", "12.5")
    options = parse(["--scenario", "incast", "--count", "7", "--seed", "3"])
    assert (options.topo, options.scenario, options.pcap, options.started) == ("leafspine,4", "incast", True, 12.5)
    assert options.traffic == ("--count", "7", "--seed", "3")
    assert parse(["--topo", "planes"]).topo == "planes"


def test_unknown_names_are_answered_with_the_known_ones(tmp_path: Path) -> None:
    known = (
        "Choose one of ping, random, all-to-all, incast, permutation, hotspot, slow-drain, failover, bad-link, "
        "training."
    )
    assert known in refusal(Options(scenario="flood"))
    assert "Choose open or managed." in refusal(Options(links="optical"))
    assert "Choose p4switch or bmv2." in refusal(Options(target="tofino"))
    assert refusal(Options(script=tmp_path / "my.py")) == f"SCRIPT={tmp_path}/my.py: no such file."
    assert refusal(Options(program=tmp_path / "x.p4")) == f"{tmp_path}/x.p4: no such switch program."


def test_what_a_comparison_cannot_take_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    text = refusal(Options(scenario="incast", traffic=("--count", "7")))
    assert "no --count, no --size" in text
    assert "LINKS=open or LINKS=managed for the plain pattern" in text
    assert "LINKS=open has no place" in refusal(Options(scenario="hotspot", links="open"))
    assert "finds its own pace" in refusal(Options(scenario="failover", traffic=("--duration", "7")))


def test_without_root_the_message_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert refusal(Options()) == ("A fabric needs root, for network namespaces and raw sockets.\nTry: sudo make run")


def test_missing_tools_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda tool: None if tool in ("ethtool", "simple_switch_grpc") else tool)
    assert refusal(Options()).startswith("Missing on this machine: ethtool.\n")
    text = refusal(Options(target="bmv2"))
    assert text.startswith("Missing on this machine: ethtool, simple_switch_grpc.\n")
    assert "without it the embedded target runs" in text


def test_a_full_disk_is_noticed_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda tool: tool)
    monkeypatch.setattr(module, "MIN_FREE_BYTES", 1 << 60)
    text = refusal(Options(run_dir=tmp_path / "run"))
    assert text.startswith("The disk is full:")
    assert "RUN_DIR" in text


def test_a_run_directory_that_cannot_be_made_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda tool: tool)
    (tmp_path / "file").write_text("")
    assert refusal(Options(run_dir=tmp_path / "file" / "run")) == (
        f"cannot use {tmp_path}/file/run for logs and results: Not a directory."
    )


def test_training_takes_a_profile_by_name_or_path(tmp_path: Path) -> None:
    shipped = module.REPOSITORY / "topologies" / "profiles"
    assert parse(["--scenario", "training"]).profile == shipped / "dp2-tp4.yaml"
    named = parse(["--profile", "moe"])
    assert (named.scenario, named.profile) == ("training", shipped / "moe.yaml")
    given = parse(["--scenario", "training", "--profile", str(tmp_path / "my.yaml")])
    assert given.profile == tmp_path / "my.yaml"
    assert parse([]).profile is None
    assert refusal(parse(["--scenario", "ping", "--profile", "moe"])) == (
        "SCENARIO=ping takes no PROFILE.\nLeave one of them out, or choose SCENARIO=training."
    )
    assert refusal(parse(["--profile", "moe", "--count", "3"])) == (
        "SCENARIO=training takes no --count: its profile says what is exchanged.\n"
        f"Change a copy of {shipped / 'moe.yaml'}, and give it as PROFILE=."
    )


def test_a_profile_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    moe, fabric = find_profile("moe"), describe(parse_topo("planes,8,2,2"), "planes")
    with pytest.raises(LaunchError) as caught:
        check_profile(moe, "planes,8,2,2", fabric)
    assert str(caught.value) == (
        "The training profile cannot be run:\n"
        f"  {moe}: layout: expert 8 is 8 GPUs, but a tenant of TOPO=planes,8,2,2 has 4\n"
        "docs/collectives.md describes its keys."
    )
    check_profile(moe, "planes,8,2", describe(parse_topo("planes,8,2"), "planes"))
    with pytest.raises(LaunchError) as caught:
        check_profile(tmp_path / "mo.yaml", "planes", fabric)
    assert str(caught.value) == (
        f"PROFILE={tmp_path}/mo.yaml: no such file.\nGive the path of one, or choose dp2-tp4 or moe or pp4-dp2."
    )
