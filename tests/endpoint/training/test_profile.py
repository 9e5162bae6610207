"""Training profiles: what they say, and what is refused with file, key, value and choices."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from endpoint.training import profile as profile_module
from endpoint.training.figures import training_figures
from endpoint.training.profile import (
    DTYPES,
    Strategy,
    TrainingPhase,
    TrainingProfile,
    TrainingProfileError,
)
from endpoint.training.routing import route

ROOT = Path(__file__).resolve().parents[3]
SHIPPED = sorted((ROOT / "topologies" / "profiles").glob("*.yaml"))


def load(tmp_path: Path, text: str) -> TrainingProfile:
    path = tmp_path / "my.yaml"
    path.write_text(text)
    return TrainingProfile.load(path)


def problems(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(TrainingProfileError) as caught:
        load(tmp_path, text)
    return [problem.replace(f"{tmp_path}/", "") for problem in caught.value.problems]


@pytest.mark.parametrize("path", SHIPPED, ids=[path.stem for path in SHIPPED])
def test_shipped_profiles_are_for_eight_gpus(path: Path) -> None:
    profile = TrainingProfile.load(path)
    profile.check_gpus(8, "the tenant")
    assert profile.phases


def test_all_strategies_are_shipped() -> None:
    assert {phase.parallel for path in SHIPPED for phase in TrainingProfile.load(path).phases} == set(Strategy)


def test_what_a_profile_says(tmp_path: Path) -> None:
    profile = load(
        tmp_path,
        "layout: {data: 2, tensor: 3}\n"
        "phases:\n"
        "  - {parallel: tensor, bytes: 16 KiB, repeat: 8, compute_ms: 0.5}\n"
        "  - {name: all, parallel: data, over: [tensor, data], bytes: 6, dtype: float16, algorithm: ring}\n",
    )
    first, second = profile.phases
    assert (profile.gpus, profile.iterations, profile.seed, profile.operations) == (6, 10, 1, 90)
    assert (first.name, first.over, first.size, first.elements) == ("tensor", ("tensor",), 16384, 4096)
    assert (first.repeat, first.compute_ms, first.algorithm) == (8, 0.5, None)
    assert (second.name, second.over, second.elements, second.algorithm) == ("all", ("data", "tensor"), 3, "ring")
    assert [profile.members(rank, first.over) for rank in (0, 4)] == [[0, 1, 2], [3, 4, 5]]
    assert [profile.members(rank, ("data",)) for rank in (0, 4)] == [[0, 3], [1, 4]]
    assert profile.members(5, second.over) == [0, 1, 2, 3, 4, 5]
    assert (profile.groups(("data",)), profile.groups(("tensor",)), profile.groups(second.over)) == (3, 2, 1)


HEAD = "layout: {data: 2, tensor: 4}\nphases:\n  - "


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "layout: {data: 2, tensr: 4}\nphases: [{parallel: data, bytes: 4}]\n",
            ["my.yaml: layout.tensr: 'tensr' is none of data, tensor, pipeline, expert (did you mean tensor?)"],
        ),
        (
            HEAD + "{parallel: tenser, bytes: 4}\n",
            ["my.yaml: phases[0].parallel: 'tenser' is none of data, tensor, pipeline, expert (did you mean tensor?)"],
        ),
        (
            HEAD + "{bytes: 4}\n",
            ["my.yaml: phases[0].parallel: is missing; choose data, tensor, pipeline, expert"],
        ),
        (
            HEAD + "{parallel: data, bytes: 4, tokens: 3}\n",
            [
                "my.yaml: phases[0].tokens: is no key here; choose name, parallel, over, bytes, dtype, repeat, "
                "compute_ms, algorithm"
            ],
        ),
        (
            HEAD + "{parallel: data, byte: 4}\n",
            [
                "my.yaml: phases[0].byte: is no key here; choose name, parallel, over, bytes, dtype, repeat, "
                "compute_ms, algorithm (did you mean bytes?)",
                "my.yaml: phases[0].bytes: is missing: a number of bytes, such as 4096 or 64 KiB",
            ],
        ),
        (
            HEAD + "{parallel: data, bytes: 4 KB}\n",
            ["my.yaml: phases[0].bytes: '4 KB' is not a number of bytes, such as 4096, 64 KiB or 1 MiB"],
        ),
        (
            HEAD + "{parallel: data, bytes: 10}\n",
            ["my.yaml: phases[0].bytes: 10 is no multiple of 4, the size of a float32"],
        ),
        (
            HEAD + "{parallel: data, bytes: 2 GiB}\n",
            ["my.yaml: phases[0].bytes: '2 GiB' is out of range, 1 byte to 1 GiB"],
        ),
        (HEAD + "{parallel: data, bytes: 0}\n", ["my.yaml: phases[0].bytes: 0 is out of range, 1 byte to 1 GiB"]),
        (
            HEAD + "{parallel: data, bytes: true}\n",
            ["my.yaml: phases[0].bytes: True is not a number of bytes, such as 4096, 64 KiB or 1 MiB"],
        ),
        (
            HEAD + "{parallel: data, bytes: 4, dtype: float8}\n",
            [
                "my.yaml: phases[0].dtype: 'float8' is none of float32, float16, float64, int32, int64 "
                "(did you mean float64?)"
            ],
        ),
        (
            HEAD + "{parallel: data, bytes: 4, algorithm: tree}\n",
            ["my.yaml: phases[0].algorithm: 'tree' is none of direct, ring"],
        ),
        (
            HEAD + "{parallel: data, bytes: 4, repeat: 0}\n",
            ["my.yaml: phases[0].repeat: 0 is not a whole number from 1 to 1000000"],
        ),
        (
            HEAD + "{parallel: data, bytes: 4, compute_ms: soon}\n",
            ["my.yaml: phases[0].compute_ms: 'soon' is not a number from 0 to 10000"],
        ),
        (
            HEAD + "{parallel: pipeline, bytes: 4}\n",
            ["my.yaml: phases[0].over: 'pipeline' is no axis of the layout, which has data, tensor"],
        ),
        (
            HEAD + "{parallel: data, bytes: 4, over: []}\n",
            ["my.yaml: phases[0].over: names no axis of the layout, which has data, tensor"],
        ),
        (
            HEAD + "{parallel: data, bytes: 4, over: [data, [tensor]]}\n",
            ["my.yaml: phases[0].over: ['tensor'] is no axis of the layout, which has data, tensor"],
        ),
        (
            HEAD + "{parallel: expert, over: tensor, bytes: 4, top_k: 5}\n",
            ["my.yaml: phases[0].top_k: 5 is not a whole number from 1 to 4"],
        ),
        (
            "layout: {data: 1, tensor: 4}\nphases: [{parallel: data, bytes: 4}]\n",
            ["my.yaml: phases[0].parallel: data is 1 GPU, which has nobody to exchange with"],
        ),
        (
            HEAD + "{parallel: data, bytes: 4, name: a/b}\n",
            ["my.yaml: phases[0].name: 'a/b' is no name: letters, digits, spaces and _ . -"],
        ),
        (
            "layout: {data: two}\nphases: [{parallel: data, bytes: 4}]\n",
            [
                "my.yaml: layout.data: 'two' is not a whole number from 1 to 3840",
                "my.yaml: phases[0].parallel: data is 1 GPU, which has nobody to exchange with",
            ],
        ),
        ("layout: {data: 2}\n", ["my.yaml: phases: is missing"]),
        ("layout: {data: 2}\nphases: 3\n", ["my.yaml: phases: 3 is no list of phases"]),
        (
            "phases: [{parallel: data, bytes: 4}]\n",
            [
                "my.yaml: layout: is missing: it gives GPUs per axis, as in {data: 2, tensor: 4}",
                "my.yaml: phases[0].over: 'data' is no axis of the layout, which has none",
            ],
        ),
        ("- a\n", ["my.yaml: ['a'] is no table; its keys are layout, iterations, seed, phases"]),
        ("", ["my.yaml: None is no table; its keys are layout, iterations, seed, phases"]),
        (
            "layout: {data: 2}\niterations: 1\niterations: 2\n",
            ["my.yaml:3:1: is not YAML: 'iterations' is there twice"],
        ),
        ("layout: {data: 2\n", ["my.yaml:2:1: is not YAML: expected ',' or '}', but got '<stream end>'"]),
        (
            "layout: !!python/object:os.system {}\n",
            [
                "my.yaml:1:9: is not YAML: could not determine a constructor for the tag "
                "'tag:yaml.org,2002:python/object:os.system'"
            ],
        ),
    ],
)  # fmt: skip
def test_refused(tmp_path: Path, text: str, expected: list[str]) -> None:
    assert problems(tmp_path, text) == expected


def test_missing_and_binary_files(tmp_path: Path) -> None:
    with pytest.raises(TrainingProfileError, match=r"no\.yaml: cannot be read: No such file or directory"):
        TrainingProfile.load(tmp_path / "no.yaml")
    (tmp_path / "x.yaml").write_bytes(b"layout: \xff\xfe")
    with pytest.raises(TrainingProfileError, match=r"x\.yaml: is not UTF-8 text \(byte 8\)"):
        TrainingProfile.load(tmp_path / "x.yaml")


def test_number_of_gpus(tmp_path: Path) -> None:
    profile = load(tmp_path, HEAD + "{parallel: data, bytes: 4}\n")
    with pytest.raises(TrainingProfileError) as caught:
        profile.check_gpus(4, "the tenant")
    assert str(caught.value).endswith("my.yaml: layout: data 2 x tensor 4 is 8 GPUs, but the tenant has 4")


def test_routing_is_skewed_bursty_and_known_to_all() -> None:
    tokens, experts = 500, 8
    busiest = set()
    for step in range(20):
        routes = route((1, 0, step), source=3, tokens=tokens, experts=experts, top_k=2, skew=1.5)
        counts = [len(where) for where in routes]
        assert sum(counts) == 2 * tokens
        assert all((np.diff(where) > 0).all() for where in routes), "each token at most once per expert"
        assert max(counts) > 4 * min(counts)
        busiest.add(counts.index(max(counts)))
        again = route((1, 0, step), source=3, tokens=tokens, experts=experts, top_k=2, skew=1.5)
        assert all((a == b).all() for a, b in zip(routes, again, strict=True))
    assert len(busiest) > 3, "another expert from step to step"
    even = [len(where) for where in route((1,), 0, 8000, 8, 1, skew=0)]
    assert max(even) < 1.3 * min(even)


def test_figures_are_those_of_nccls_tests() -> None:
    """Two GPUs, two all-reduces each of 1 MB in a group of four: the formula by hand."""
    phase = {
        "name": "g", "parallel": "data", "operation": "all-reduce", "group": [1, 2, 3, 4], "groups": 1,
        "bytes": 2_000_000, "bus_bytes": 2_000_000 * 2 * 3 / 4,
    }  # fmt: skip
    reports = [
        {"phases": [{**phase, "times_us": [1000.0, 3000.0]}]},
        {"phases": [{**phase, "times_us": [2000.0, 2000.0]}]},
    ]
    [figures] = training_figures([*reports, {}])
    assert (figures["bytes"], figures["operations"], figures["gpus_per_group"]) == (1_000_000, 2, 4)
    assert (figures["time_us_p50"], figures["time_us_p99"]) == (2000.0, 3000.0)
    assert (figures["algorithm_mb_s"], figures["bus_mb_s"]) == (500.0, 750.0)


def test_the_page_shows_a_profile_and_every_key(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "collectives.md").read_text()
    shown = re.search(r"<!-- profile -->\n```yaml\n(.*?)```", page, re.DOTALL)
    assert shown is not None
    assert load(tmp_path, shown[1]).gpus == 8
    for keys in profile_module._KEYS.values():
        assert [key for key in keys if f"\n| `{key}` |" not in page] == []
    for phase in dataclasses.fields(TrainingPhase):
        if phase.default is not dataclasses.MISSING and phase.name not in ("dtype", "algorithm"):
            row = re.search(rf"\n\| `{phase.name}` \|.*\| ([^|]+) \|\n", page)
            assert row is not None
            assert float(row[1]) == phase.default


_WORDS = st.sampled_from(
    [
        *DTYPES,
        *(strategy.value for strategy in Strategy),
        "layout",
        "phases",
        "bytes",
        "over",
        "64 KiB",
        "ring",
        "tokens",
        "top_k",
    ]
)
_SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.dates(), st.binary(max_size=3), _WORDS
)
_DATA = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(_WORDS | st.integers(), inner, max_size=6)),
)


@settings(max_examples=40, deadline=None)
@given(_DATA, _DATA, st.dictionaries(st.sampled_from(sorted(set().union(*profile_module._KEYS.values()))), _DATA))
def test_whatever_is_written_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, layout: object, rest: object, phase: dict[str, object]
) -> None:
    path = tmp_path_factory.mktemp("any") / "any.yaml"
    for data in (
        rest,
        {"layout": layout, "phases": rest},
        {"layout": {"data": 2}, "phases": [{"parallel": "data", "bytes": 8, **phase}]},
        {"layout": {"expert": 3}, "phases": [{**phase, "parallel": "expert"}], "seed": rest},
    ):
        path.write_text(yaml.safe_dump(data))
        try:
            profile = TrainingProfile.load(path)
        except TrainingProfileError as error:
            assert all(str(path) in problem for problem in error.problems)
        else:
            assert profile.gpus >= 2
            assert profile.operations >= 1


@pytest.mark.parametrize(
    "text", ["&a [*a]", "? [1, 2]\n: 3", "layout: &l {data: *l}", "layout: {<<: {data: 2}}", "\0", "a: 0x" + "f" * 5000]
)
def test_odd_yaml(tmp_path: Path, text: str) -> None:
    assert problems(tmp_path, text)
