"""Read what parallel strategies exchange from a YAML file, and refuse what cannot be run.

layout: {data: 2, tensor: 4}    # 8 GPUs; the last one varies fastest: ranks 0 to 3 are a tensor group
iterations: 10
phases:
  - {parallel: tensor, bytes: 16 KiB, repeat: 8, compute_ms: 1}
  - {parallel: data, bytes: 1 MiB}
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import yaml

from codec.constants import MAX_GPU_ID
from endpoint.collectives import Algorithm
from endpoint.errors import EndpointError

DTYPES: Final = ("float32", "float16", "float64", "int32", "int64")
MAX_BYTES: Final = 1 << 30
MAX_COUNT: Final = 1_000_000
MAX_COMPUTE_MS: Final = 10_000.0
MAX_SKEW: Final = 10.0
_UNITS: Final = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_SIZE: Final = re.compile(r"(\d+)\s*([A-Za-z]*)")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_. -]*")


class TrainingProfileError(EndpointError):
    """A profile cannot be read or run; `problems` names file, key, value and choices of each, a line each."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class Strategy(StrEnum):
    """A way of spreading a training over GPUs, and so a kind of traffic."""

    DATA = "data"
    """All-reduce of gradients: large, once per iteration."""
    TENSOR = "tensor"
    """All-reduce of activations: small, several times per layer, and everybody waits for it."""
    PIPELINE = "pipeline"
    """Activations from each stage to the next, and gradients back."""
    EXPERT = "expert"
    """All-to-all of tokens to their experts and back: small, in bursts, most of them to few GPUs."""


@dataclass(frozen=True)
class TrainingPhase:
    """One kind of traffic in every iteration.

    `over` names the axes of the layout that a group spans. `size` is bytes of the array (data, tensor), of what one
    microbatch passes on (pipeline), or of one token (expert). It is done `repeat` times per iteration, each after
    `compute_ms` milliseconds without traffic (pipeline: per microbatch and stage).
    """

    name: str
    parallel: Strategy
    over: tuple[str, ...]
    size: int
    dtype: str = "float32"
    repeat: int = 1
    compute_ms: float = 0.0
    algorithm: Algorithm | None = None
    microbatches: int = 4
    tokens: int = 64
    top_k: int = 2
    skew: float = 1.0

    @property
    def elements(self) -> int:
        """Numbers of the type that `size` bytes hold."""
        return self.size // np.dtype(self.dtype).itemsize


_COMMON: Final = ("name", "parallel", "over", "bytes", "dtype", "repeat", "compute_ms")
_KEYS: Final[dict[Strategy, tuple[str, ...]]] = {
    Strategy.DATA: (*_COMMON, "algorithm"),
    Strategy.TENSOR: (*_COMMON, "algorithm"),
    Strategy.PIPELINE: (*_COMMON, "microbatches"),
    Strategy.EXPERT: (*_COMMON, "tokens", "top_k", "skew"),
}


@dataclass(frozen=True)
class TrainingProfile:
    """A whole profile: how many GPUs along each axis, and what they exchange, in order, in each iteration."""

    source: str
    layout: Mapping[str, int]
    phases: tuple[TrainingPhase, ...]
    iterations: int = 10
    seed: int = 1

    @property
    def gpus(self) -> int:
        """How many GPUs it is for."""
        return math.prod(self.layout.values())

    @property
    def operations(self) -> int:
        """How many operations every GPU takes part in."""
        return self.iterations * sum(phase.repeat for phase in self.phases)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file. Raises TrainingProfileError, which lists every problem."""
        source = str(path)
        try:
            with open(path, encoding="utf-8") as file:
                data = yaml.load(file, _Loader)
        except OSError as error:
            raise TrainingProfileError([f"{source}: cannot be read: {error.strerror}"]) from error
        except UnicodeDecodeError as error:
            raise TrainingProfileError([f"{source}: is not UTF-8 text (byte {error.start})"]) from error
        except yaml.YAMLError as error:
            raise TrainingProfileError([_where(source, error)]) from error
        reader = _Reader(source)
        profile = reader.profile(cls, data)
        if profile is None or reader.problems:
            raise TrainingProfileError(reader.problems)
        return profile

    def check_gpus(self, gpus: int, whose: str) -> None:
        """Raise TrainingProfileError unless the profile is for so many GPUs; `whose` says which these are."""
        if gpus != self.gpus:
            product = " x ".join(f"{axis} {size}" for axis, size in self.layout.items())
            raise TrainingProfileError(
                [f"{self.source}: layout: {product} is {self.gpus} GPUs, but {whose} has {gpus}"]
            )

    def members(self, rank: int, over: Sequence[str]) -> list[int]:
        """Return the ranks of the group of `rank` along some axes, ascending: those that differ from it in these alone.

        A rank is a number of mixed radix; the last axis of the layout is the lowest digit.
        """
        ranks = [0]
        weight = self.gpus
        for axis, size in self.layout.items():
            weight //= size
            own = rank // weight % size
            ranks = [base + weight * digit for base in ranks for digit in (range(size) if axis in over else [own])]
        return ranks

    def groups(self, over: Sequence[str]) -> int:
        """Return how many groups there are along some axes."""
        return self.gpus // math.prod(self.layout[axis] for axis in over)


class _Loader(yaml.SafeLoader):
    """As YAML says: a key may be there once. (SafeLoader keeps the last one.)"""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        for number, (key, _) in enumerate(node.value):
            if key.value in keys[:number]:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} is there twice", key.start_mark)
        return super().construct_mapping(node, deep)


class _Reader:
    """Turns what YAML gave into a profile; collects what is wrong."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.problems: list[str] = []

    def wrong(self, key: str, what: str) -> None:
        self.problems.append(f"{self.source}: {key}: {what}" if key else f"{self.source}: {what}")

    def profile(self, make: Callable[..., Any], data: Any) -> Any:
        known = ("layout", "iterations", "seed", "phases")
        if not self.mapping("", data, known):
            return None
        layout = self.layout(data.get("layout"))
        phases = data.get("phases")
        if not isinstance(phases, list) or not phases:
            self.wrong("phases", f"{_shown(phases)} is no list of phases" if "phases" in data else "is missing")
            phases = []
        return make(
            source=self.source,
            layout=layout,
            phases=tuple(self.phase(f"phases[{number}]", phase, layout) for number, phase in enumerate(phases)),
            iterations=self.whole("iterations", data.get("iterations", 10), 1, MAX_COUNT),
            seed=self.whole("seed", data.get("seed", 1), 0, 2**32 - 1),
        )

    def layout(self, data: Any) -> dict[str, int]:
        if not isinstance(data, Mapping) or not data:
            what = "is missing" if data is None else f"{_shown(data)} is no table"
            self.wrong("layout", f"{what}: it gives GPUs per axis, as in {{data: 2, tensor: 4}}")
            return {}
        layout = {}
        for axis, size in data.items():
            if self.choice(f"layout.{axis}", axis, tuple(Strategy)) is not None:
                layout[str(axis)] = self.whole(f"layout.{axis}", size, 1, MAX_GPU_ID + 1)
        return layout

    def phase(self, where: str, data: Any, layout: Mapping[str, int]) -> TrainingPhase | None:
        if not isinstance(data, Mapping):
            self.wrong(where, f"{_shown(data)} is no table; it begins with parallel: {', '.join(Strategy)}")
            return None
        if "parallel" not in data:
            self.wrong(f"{where}.parallel", f"is missing; choose {', '.join(Strategy)}")
            return None
        chosen = self.choice(f"{where}.parallel", data["parallel"], tuple(Strategy))
        if chosen is None:
            return None
        strategy = Strategy(chosen)
        self.mapping(where, data, _KEYS[strategy])
        over = self.over(where, data.get("over", [strategy.value]), layout)
        members = math.prod(layout.get(axis, 1) for axis in over)
        if layout and over and members == 1:
            key = "over" if "over" in data else "parallel"
            self.wrong(f"{where}.{key}", f"{' x '.join(over)} is 1 GPU, which has nobody to exchange with")
        dtype = self.choice(f"{where}.dtype", data.get("dtype", DTYPES[0]), DTYPES) or DTYPES[0]
        size = self.size(f"{where}.bytes", data, np.dtype(dtype))
        algorithm = data.get("algorithm")
        if algorithm is not None:
            algorithm = self.choice(f"{where}.algorithm", algorithm, tuple(Algorithm))
        top_k = self.whole(f"{where}.top_k", data.get("top_k", min(2, max(members, 1))), 1, max(members, 1))
        name = data.get("name", strategy.value)
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            self.wrong(f"{where}.name", f"{_shown(name)} is no name: letters, digits, spaces and _ . -")
            name = strategy.value
        return TrainingPhase(
            name=name,
            parallel=strategy,
            over=over,
            size=size,
            dtype=dtype,
            repeat=self.whole(f"{where}.repeat", data.get("repeat", 1), 1, MAX_COUNT),
            compute_ms=self.number(f"{where}.compute_ms", data.get("compute_ms", 0), MAX_COMPUTE_MS),
            algorithm=None if algorithm is None else Algorithm(algorithm),
            microbatches=self.whole(f"{where}.microbatches", data.get("microbatches", 4), 1, 1024),
            tokens=self.whole(f"{where}.tokens", data.get("tokens", 64), 1, MAX_COUNT),
            top_k=top_k,
            skew=self.number(f"{where}.skew", data.get("skew", 1), MAX_SKEW),
        )

    def over(self, where: str, data: Any, layout: Mapping[str, int]) -> tuple[str, ...]:
        axes = data if isinstance(data, list) else [data]
        named = []
        choices = ", ".join(layout) or "none"
        if not axes:
            self.wrong(f"{where}.over", f"names no axis of the layout, which has {choices}")
        for axis in axes:
            if not isinstance(axis, str) or axis not in layout:
                self.wrong(f"{where}.over", f"{_shown(axis)} is no axis of the layout, which has {choices}")
            else:
                named.append(axis)
        return tuple(axis for axis in layout if axis in named)

    # ------------------------------------------------------------------------------------------------------- values

    def mapping(self, where: str, data: Any, known: Sequence[str]) -> bool:
        if not isinstance(data, Mapping):
            self.wrong(where, f"{_shown(data)} is no table; its keys are {', '.join(known)}")
            return False
        for key in data:
            if key not in known:
                self.wrong(f"{where}.{key}" if where else str(key), f"is no key here; choose {_choices(key, known)}")
        return True

    def choice(self, where: str, value: Any, choices: Sequence[str]) -> str | None:
        if isinstance(value, str) and value in choices:
            return value
        self.wrong(where, f"{_shown(value)} is none of {_choices(value, choices)}")
        return None

    def whole(self, where: str, value: Any, low: int, high: int) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        self.wrong(where, f"{_shown(value)} is not a whole number from {low} to {high}")
        return low

    def number(self, where: str, value: Any, high: float) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= high:
            return float(value)
        self.wrong(where, f"{_shown(value)} is not a number from 0 to {high:g}")
        return 0.0

    def size(self, where: str, data: Mapping[Any, Any], dtype: np.dtype[Any]) -> int:
        value = data.get("bytes")
        parts = _SIZE.fullmatch(str(value).strip()) if not isinstance(value, bool) else None
        if value is None:
            self.wrong(where, "is missing: a number of bytes, such as 4096 or 64 KiB")
        elif parts is None or parts[2] not in _UNITS:
            self.wrong(where, f"{_shown(value)} is not a number of bytes, such as 4096, 64 KiB or 1 MiB")
        else:
            size = int(parts[1]) * _UNITS[parts[2]]
            if not 1 <= size <= MAX_BYTES:
                self.wrong(where, f"{_shown(value)} is out of range, 1 byte to 1 GiB")
            elif size % dtype.itemsize:
                self.wrong(where, f"{_shown(value)} is no multiple of {dtype.itemsize}, the size of a {dtype}")
            else:
                return size
        return dtype.itemsize


def _where(source: str, error: yaml.YAMLError) -> str:
    """Return what YAML's parser says, with file, line and column in front."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error)
    at = f":{mark.line + 1}:{mark.column + 1}" if mark is not None else ""
    return f"{source}{at}: is not YAML: {problem}"


def _choices(value: Any, choices: Sequence[str]) -> str:
    close = difflib.get_close_matches(str(value), choices, 1)
    return ", ".join(choices) + (f" (did you mean {close[0]}?)" if close else "")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
