"""A topology in which frames can go both ways round."""

from __future__ import annotations

from topologies.topos import FabricTopo


class RingTopo(FabricTopo):
    """One switch per GPU, in a ring: port 1 to the next one, port 2 to the one before, port 3 to the GPU."""

    def build(self, gpus: int = 5) -> None:
        """Make the switches, their GPUs and the cables."""
        names = [self.add_fabric_switch(f"s{n + 1}", plane=0) for n in range(gpus)]
        for n, name in enumerate(names):
            self.addLink(self.add_gpu(), name, port1=0, port2=3)
            self.addLink(name, names[(n + 1) % gpus], port1=1, port2=2)
