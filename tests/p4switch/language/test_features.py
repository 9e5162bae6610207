"""Language features that an STF script cannot see: value sets, digests, log messages."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from p4switch.build import BuildResult, build
from p4switch.dataplane import DataPlane, FieldMatch, SwitchOptions
from p4switch.frontend.preprocess import INCLUDE_DIR

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="module")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def load(name: str, cache_dir: Path, options: SwitchOptions | None = None) -> tuple[DataPlane, BuildResult]:
    program = build(PROGRAMS / f"{name}.p4", cache_dir=cache_dir)
    dataplane = DataPlane(options, program.runtime)
    dataplane.load(program.library)
    return dataplane, program


def test_value_sets(cache_dir: Path) -> None:
    dataplane, program = load("value_set", cache_dir)
    ids = {v.preamble.alias: v.preamble.id for v in program.p4info.value_sets}

    def kind(frame: str) -> int:
        ((_, out),) = dataplane.inject(1, bytes.fromhex(frame))
        return out[-1]

    frames = ["0102 0003 FFFFFFFF", "0102 0004 FFFFFFFF", "0909 0005 FFFFFFFF"]
    assert [kind(f) for f in frames] == [0, 0, 0]
    dataplane.set_value_set(ids["wanted"], [(FieldMatch(3),), (FieldMatch(7),)])
    dataplane.set_value_set(ids["pairs"], [(FieldMatch(1), FieldMatch(2))])
    assert [kind(f) for f in frames] == [1, 2, 0]
    dataplane.set_value_set(ids["wanted"], [])
    assert [kind(f) for f in frames] == [2, 2, 0]


def test_digests_carry_the_values(cache_dir: Path) -> None:
    dataplane, program = load("logging", cache_dir, SwitchOptions(cpu_port=510))
    seen: list[tuple[int, list[tuple[int, ...]]]] = []
    dataplane.on_digest = lambda digest_id, values: seen.append((digest_id, values))
    (digest,) = program.p4info.digests
    with dataplane:
        dataplane.start()
        dataplane.packet_out(bytes.fromhex("0700000001020304"))
        deadline = time.monotonic() + 10
        while not seen and time.monotonic() < deadline:
            time.sleep(0.01)
    assert seen == [(digest.preamble.id, [(7, 0x01020304)])]


def test_a_v1model_of_the_programs_own_may_add_to_standard_metadata(tmp_path: Path, cache_dir: Path) -> None:
    own = (INCLUDE_DIR / "v1model.p4").read_text()
    more = "bit<3>  priority; bit<5> qid; bit<64> clone_spec; bool known;"
    (tmp_path / "v1model.p4").write_text(own.replace("bit<3>  priority;", more))
    program = build(PROGRAMS / "own_metadata.p4", [tmp_path], cache_dir=cache_dir)
    dataplane = DataPlane(SwitchOptions(priorities=4), program.runtime)
    dataplane.load(program.library)
    # a: the priority asked for; b: qid as ingress saw it; c: as egress sees it; d: what the clone sees of clone_spec
    assert dataplane.inject(1, bytes.fromhex("03 FF FFFF FFFFFFFF")) == [(2, bytes.fromhex("03 00 0003 01020304"))]
    dataplane.set_clone_session(1, [(4, 0)])
    assert sorted(dataplane.inject(1, bytes.fromhex("00 FF FFFF FFFFFFFF"))) == [
        (2, bytes.fromhex("00 00 0000 01020304")),
        (4, bytes.fromhex("00 FF 0000 00000000")),
    ]


def test_log_messages(cache_dir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    quiet, _ = load("logging", cache_dir)
    quiet.inject(1, bytes.fromhex("FF00000000000001"))
    assert "a frame" not in capfd.readouterr().err
    dataplane, _ = load("logging", cache_dir, SwitchOptions(trace=True))
    dataplane.inject(1, bytes.fromhex("0700000001020304"))
    errors = capfd.readouterr().err
    assert "a frame" in errors
    assert "a = 7, d = 16909060" in errors
    assert "failed" not in errors
    dataplane.inject(1, bytes.fromhex("FF00000000000001"))
    errors = capfd.readouterr().err
    assert "logging.p4:8:9: assert failed" in errors
    assert "logging.p4:9:9: assume failed" in errors
