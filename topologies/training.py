"""The scenario `training`: which profile it runs, whether that fits the fabric, and its table of figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.box import SIMPLE_HEAD
from rich.table import Table

from codec.fabric import Fabric
from endpoint.training.profile import TrainingProfile, TrainingProfileError
from topologies.errors import LaunchError

SCENARIO: Final = "training"
PROFILES: Final = Path(__file__).resolve().parent / "profiles"
DEFAULT_PROFILE: Final = "dp2-tp4"


def find_profile(given: str) -> Path:
    """Return the path of a profile given as a path, or by its name in `topologies/profiles`."""
    shipped = PROFILES / f"{given}.yaml"
    return shipped if shipped.is_file() else Path(given).absolute()


def shipped_profiles() -> list[str]:
    """Return the names of the profiles that come with the project."""
    return sorted(path.stem for path in PROFILES.glob("*.yaml"))


def check_profile(path: Path, topo: str, fabric: Fabric) -> None:
    """Raise LaunchError when a profile cannot be read, or is for another number of GPUs than some tenant has."""
    if not path.is_file():
        raise LaunchError(
            f"PROFILE={path}: no such file.", f"Give the path of one, or choose {' or '.join(shipped_profiles())}."
        )
    try:
        profile = TrainingProfile.load(path)
        for tenant in sorted({gpu.tenant for gpu in fabric.gpus}):
            profile.check_gpus(len(fabric.tenant_gpus(tenant)), f"a tenant of TOPO={topo}")
    except TrainingProfileError as error:
        raise LaunchError(
            "The training profile cannot be run:\n" + "\n".join(f"  {problem}" for problem in error.problems),
            "docs/collectives.md describes its keys.",
        ) from None


def training_table(figures: Sequence[Mapping[str, Any]]) -> Table:
    """Return the figures of all phases as a table."""
    title = "\ntraining: times in ms, bandwidth of algorithm and bus in MB/s"
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for title in ("phase", "operation"):
        table.add_column(title, overflow="fold")
    columns = {
        "groups": lambda phase: f"{phase['groups']} x {phase['gpus_per_group']}",
        "bytes": lambda phase: f"{phase['bytes']:,}",
        "p50": lambda phase: f"{phase['time_us_p50'] / 1000:,.1f}",
        "p99": lambda phase: f"{phase['time_us_p99'] / 1000:,.1f}",
        "alg": lambda phase: f"{phase['algorithm_mb_s']:,.1f}",
        "bus": lambda phase: f"{phase['bus_mb_s']:,.1f}",
    }
    for title in columns:
        table.add_column(title, justify="right")
    for phase in figures:
        table.add_row(phase["name"], phase["operation"], *(show(phase) for show in columns.values()))
    return table
