"""Derive the fabric description from a topology: the one place where names, ids, ports and addresses meet."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from mininet.topo import Topo

from codec.fabric import DEFAULT_PROFILE, Fabric, FabricError, GpuNode, GpuPort, SwitchNode, SwitchPort
from codec.profile import LinkProfile
from topologies.errors import LaunchError
from topologies.nodes import grpc_address
from topologies.topos import parse_topo

DEFAULT = LinkProfile()


def describe(
    topo: Topo,
    name: str,
    log_path: Callable[[str], Path | str] = lambda switch: f"{switch}.log",
    mode: str = "open",
    profile: LinkProfile = DEFAULT,
) -> Fabric:
    """Return the description of `topo`, called `name`, with Mininet's interface names (g1-eth0, s1-eth1).

    `log_path` gives the log file of a switch by name; `mode` and `profile` are those of every link. Raises
    codec.fabric.FabricError when the topology contradicts itself.
    """
    gpus = {host: _gpu(topo, host) for host in topo.hosts()}
    switches = {switch: _switch(topo, switch, str(log_path(switch))) for switch in topo.switches()}
    for node1, node2, info in topo.links(sort=True, withInfo=True):
        ends = ((node1, info["port1"]), (node2, info["port2"]))
        for (node, port), (peer, peer_port) in (ends, ends[::-1]):
            iface = f"{node}-eth{port}"
            if node in gpus:
                plane = switches[peer].plane if peer in switches else port
                cable = GpuPort(plane, iface, *((peer, peer_port) if peer in switches else ()))
                gpus[node] = replace(gpus[node], ports=(*gpus[node].ports, cable))
            else:
                uplink = peer in switches
                end = SwitchPort(
                    port, iface, "fabric" if uplink else "endpoint", peer, mode, peer_port if uplink else None
                )
                switches[node] = replace(switches[node], ports=(*switches[node].ports, end))
    return Fabric(
        topology=name,
        profiles={DEFAULT_PROFILE: profile},
        tenants={tenant: f"tenant {tenant}" for tenant in sorted({gpu.tenant for gpu in gpus.values()})},
        gpus=tuple(
            replace(gpu, ports=tuple(sorted(gpu.ports, key=lambda p: (p.plane, p.iface)))) for gpu in gpus.values()
        ),
        switches=tuple(
            replace(switch, ports=tuple(sorted(switch.ports, key=lambda p: p.port))) for switch in switches.values()
        ),
    )


def _gpu(topo: Topo, name: str) -> GpuNode:
    info = topo.nodeInfo(name)
    return GpuNode(id=info["gpu_id"], name=name, tenant=info["tenant"])


def _switch(topo: Topo, name: str, log: str) -> SwitchNode:
    info = topo.nodeInfo(name)
    return SwitchNode(
        id=info["switch_id"],
        name=name,
        plane=info["plane"],
        device_id=info["device_id"],
        grpc=grpc_address(info["device_id"]),
        log=log,
    )


def main(argv: list[str] | None = None) -> int:
    """Write the description of a topology: `python -m topologies.describe planes,8,2 -o fabric.json`."""
    parser = argparse.ArgumentParser(
        prog="python -m topologies.describe", description="Write the fabric description of a topology."
    )
    parser.add_argument("topo", help="as for `mn --topo`: planes,8,2 or leafspine,16,4,2")
    parser.add_argument("-o", "--output", type=Path, help="file to write (default: standard output)")
    options = parser.parse_args(argv)
    try:
        fabric = describe(parse_topo(options.topo), options.topo.partition(",")[0])
        if options.output is not None:
            fabric.save(options.output)
            return 0
    except (LaunchError, FabricError) as error:
        print(f"describe: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"describe: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    print(json.dumps(fabric.to_json(), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
