"""Define the shapes of a fabric as Mininet topologies.

A topology says which GPUs and switches there are, how they are linked, and in which tenant and plane each is; the rest
of the project reads the description that `topologies.describe` derives from it. To add a shape, subclass `FabricTopo`,
write its `build`, and enter it in `TOPOS`: the launcher, `mn --custom` and the tests take it from there.

Node options that a topology sets: `gpu_id` and `tenant` on hosts, `switch_id`, `device_id` and `plane` on switches.
"""

from __future__ import annotations

import inspect
from typing import Any, Final

from mininet.topo import Topo

from codec.constants import FIRST_SWITCH_ID, MAX_GPU_ID, MAX_SWITCH_ID
from codec.fabric import MAX_SWITCH_PORT
from topologies.errors import TopologyError

MAX_PLANES: Final = 16
"""More network ports than any accelerator has; each costs a veth and a socket per GPU."""


class FabricTopo(Topo):
    """Number GPUs and switches as they are added, within what ids and ports allow."""

    def __init__(self, *args: Any, **params: Any) -> None:
        self._gpu_count = 0
        self._switch_count = 0
        super().__init__(*args, **params)

    def add_gpu(self, tenant: int = 1) -> str:
        """Add the next GPU (g1, g2, ...; ids from 1) and return its name."""
        self._gpu_count += 1
        return str(self.addHost(f"g{self._gpu_count}", gpu_id=self._gpu_count, tenant=tenant))

    def add_fabric_switch(self, name: str, plane: int) -> str:
        """Add the next switch (ids from 0xF01, P4Runtime device ids from 1) and return its name."""
        self._switch_count += 1
        number = self._switch_count
        return str(
            self.addSwitch(name, switch_id=FIRST_SWITCH_ID + number, device_id=number, plane=plane, dpid=f"{number:x}")
        )


class Planes(FabricTopo):
    """Give every GPU one port on every switch: the single-tier, multi-plane scale-up domain.

    Switch s1 is plane 0, s2 plane 1, and so on; GPU n is on port n of each. With several tenants the GPUs are split
    into as many runs of neighbours.
    """

    def build(self, gpus: int = 8, planes: int = 2, tenants: int = 1) -> None:
        """Add `gpus` GPUs and `planes` switches; raise TopologyError for numbers that make no fabric."""
        _check("gpus", gpus, 1, min(MAX_GPU_ID, MAX_SWITCH_PORT), "one switch port each")
        _check("planes", planes, 1, MAX_PLANES, "one switch each")
        _check("tenants", tenants, 1, gpus, "at least one GPU each")
        switches = [self.add_fabric_switch(f"s{plane + 1}", plane) for plane in range(planes)]
        for index in range(gpus):
            gpu = self.add_gpu(tenant=_share(index, gpus, tenants) + 1)
            for plane, switch in enumerate(switches):
                self.addLink(gpu, switch, port1=plane, port2=index + 1)


class LeafSpine(FabricTopo):
    """Spread GPUs over leaves, and link every leaf to every spine: two tiers, one port per GPU."""

    def build(self, gpus: int = 8, leaves: int = 2, spines: int = 2, tenants: int = 1) -> None:
        """Add the GPUs, leaves and spines; raise TopologyError for numbers that make no fabric."""
        _check("gpus", gpus, 1, MAX_GPU_ID, "ids end there")
        _check("leaves", leaves, 1, min(gpus, MAX_SWITCH_PORT), "at least one GPU each, one port of each spine")
        _check("spines", spines, 1, MAX_SWITCH_PORT - 1, "one port of each leaf")
        _check("tenants", tenants, 1, gpus, "at least one GPU each")
        _check("leaves + spines", leaves + spines, 2, MAX_SWITCH_ID - FIRST_SWITCH_ID, "switch ids end there")
        per_leaf = -(-gpus // leaves)
        _check("GPUs per leaf + spines", per_leaf + spines, 2, MAX_SWITCH_PORT, "the ports of a leaf")
        leaf_names = [self.add_fabric_switch(f"leaf{n + 1}", 0) for n in range(leaves)]
        spine_names = [self.add_fabric_switch(f"spine{n + 1}", 0) for n in range(spines)]
        next_port = dict.fromkeys(leaf_names, 1)
        for index in range(gpus):
            gpu = self.add_gpu(tenant=_share(index, gpus, tenants) + 1)
            leaf = leaf_names[_share(index, gpus, leaves)]
            self.addLink(gpu, leaf, port1=0, port2=next_port[leaf])
            next_port[leaf] += 1
        for leaf_number, leaf in enumerate(leaf_names):
            for spine in spine_names:
                self.addLink(leaf, spine, port1=next_port[leaf], port2=leaf_number + 1)
                next_port[leaf] += 1


TOPOS: Final[dict[str, type[FabricTopo]]] = {"planes": Planes, "leafspine": LeafSpine}
"""What `TOPO=` and `mn --custom topologies/custom.py --topo` accept."""


def parse_topo(text: str) -> FabricTopo:
    """Build the topology that `text` names, as `mn --topo` writes it: `planes,8,2` or `leafspine,gpus=16,spines=4`.

    Raises TopologyError, naming the parameter, its value and its range.
    """
    name, *words = [word.strip() for word in text.split(",")]
    topo_class = TOPOS.get(name)
    if topo_class is None:
        raise TopologyError(f"TOPO={text}: no topology is called {name!r}.", f"Choose one of: {_usage()}")
    names = [p for p in inspect.signature(topo_class.build).parameters if p != "self"]
    usage = f"Write it as: TOPO={_signature(name)}"
    values: dict[str, int] = {}
    for position, word in enumerate(words):
        key, equals, number = word.rpartition("=")
        if not equals:
            if position >= len(names):
                raise TopologyError(f"TOPO={text}: {name} takes at most {len(names)} numbers.", usage)
            key = names[position]
        if key not in names:
            raise TopologyError(f"TOPO={text}: {name} has no parameter {key!r}; it has {', '.join(names)}.", usage)
        if key in values:
            raise TopologyError(f"TOPO={text}: {key} is given twice.", usage)
        if not (number.isascii() and number.isdecimal()):
            raise TopologyError(f"TOPO={text}: {key} must be a whole number, not {number!r}.", usage)
        values[key] = int(number)
    try:
        return topo_class(**values)
    except TopologyError as error:
        raise TopologyError(f"TOPO={text}: {error.message}", usage) from None


def _check(name: str, value: int, low: int, high: int, why: str) -> None:
    if not low <= value <= high:
        raise TopologyError(f"{name} is {value}, but must be {low} to {high} ({why}).")


def _share(index: int, count: int, shares: int) -> int:
    """Return which of `shares` equal runs of neighbours item `index` of `count` falls into."""
    return index * shares // count


def _signature(name: str) -> str:
    parameters = inspect.signature(TOPOS[name].build).parameters.values()
    return ",".join([name, *(f"{p.name}={p.default}" for p in parameters if p.name != "self")])


def _usage() -> str:
    return "; ".join(_signature(name) for name in TOPOS)
