"""docs/endpoint.md and docs/collectives.md: their programs run, and every counter of the code is on the first page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from codec.fabric import Fabric, GpuNode, GpuPort

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "endpoint.md").read_text()


@pytest.mark.parametrize(
    ("page", "printed"),
    [
        ("endpoint.md", ["b'hello' 2\n", "b'hello' 1\n"]),
        ("collectives.md", ["3 32.0 [1, 2]\n"] * 2),
    ],
)
def test_program_runs(cable: tuple[str, str], tmp_path: Path, page: str, printed: list[str]) -> None:
    """The page's first program, on two GPUs back to back."""
    program = re.search(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.S)
    assert program is not None
    (tmp_path / "my.py").write_text(program.group(1))
    fabric = Fabric("x", tuple(GpuNode(n, f"g{n}", ports=(GpuPort(0, cable[n - 1]),)) for n in (1, 2)))
    fabric.save(tmp_path / "fabric.json")
    ranks = [
        subprocess.Popen(
            [sys.executable, str(tmp_path / "my.py")], text=True, stdout=subprocess.PIPE, cwd=ROOT,
            env={**os.environ, "ETHLINK_FABRIC": str(tmp_path / "fabric.json"), "ETHLINK_GPU": str(number)},
        )
        for number in (1, 2)
    ]  # fmt: skip
    assert [rank.communicate(timeout=60)[0] for rank in ranks] == printed
    assert [rank.returncode for rank in ranks] == [0, 0]


def test_every_counter_is_on_the_page() -> None:
    source = "".join(path.read_text() for path in sorted((ROOT / "endpoint").rglob("*.py")))
    names = set(re.findall(r'counters\["(\w+)"\]', source))
    names |= set(re.findall(r'"(llr_[rt]x_\w+)"', source))
    names |= {f"drop_{reason}" for reason in re.findall(r'_drop\("(\w+)"', source)}
    reasons = (ROOT / "codec" / "frames.py").read_text() + (ROOT / "endpoint" / "link.py").read_text()
    names |= {f"drop_{reason}" for reason in re.findall(r'^[A-Z_0-9]+: Final = "(\w+)"', reasons, re.M)}
    assert len(names) > 30
    assert {name for name in names if f"`{name}`" not in PAGE} == set()
