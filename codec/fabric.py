"""Describe a fabric: which GPUs and switches there are, and which port is wired to which.

The launcher writes the description (`Fabric.save`), the controller and the endpoints read it (`Fabric.load`). A
`Fabric` that exists is valid: the constructor checks ids, names and wiring and raises `FabricError`, which lists every
fault.

    {"topology": "planes", "tenants": {"1": "default"},
     "gpus": [{"id": 1, "name": "g1", "tenant": 1, "incarnation": 1,
               "ports": [{"plane": 0, "iface": "g1-eth0", "switch": "s1", "switch_port": 1}]}],
     "switches": [{"id": 3841, "name": "s1", "plane": 0, "device_id": 1, "grpc": "127.0.0.1:50051", "log": "s1.log",
                   "ports": [{"port": 1, "iface": "s1-eth1", "role": "endpoint", "peer": "g1", "mode": "open"},
                             {"port": 9, "iface": "s1-eth9", "role": "fabric", "peer": "s3", "peer_port": 1}]}]}
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self

from codec.constants import FIRST_SWITCH_ID, MAX_GPU_ID, MAX_SWITCH_ID
from codec.files import write_whole
from codec.profile import LinkProfile, ProfileError

MAX_TENANT: Final = 0xFFFF
MAX_PLANE: Final = 255
MAX_SWITCH_PORT: Final = 503
"""Ports above it are the switch's own: 504 and 507 to 509 inside, 510 CPU, 511 drop. Port 0 is never used."""
MAX_INCARNATION: Final = 0xFFFF
MAX_IFACE: Final = 15
"""Longest name of an interface on Linux."""
ROLES: Final = ("endpoint", "fabric")
MODES: Final = ("open", "managed")
DEFAULT_PROFILE: Final = "default"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")  # names become parts of file names


class FabricError(ValueError):
    """A fabric description is wrong; `problems` names each fault, one line each."""

    def __init__(self, problems: Iterable[str], source: str = "fabric description") -> None:
        self.problems = tuple(problems)
        self.source = source
        super().__init__(f"{source}: " + "; ".join(self.problems))


@dataclass(frozen=True, slots=True)
class GpuPort:
    """One port of a GPU: its plane, its interface, and where its cable ends.

    A port without a switch (`switch` None) is cabled to whatever is at the other end of its interface, such as a
    second GPU back to back.
    """

    plane: int
    iface: str
    switch: str | None = None
    switch_port: int | None = None


@dataclass(frozen=True, slots=True)
class GpuNode:
    """A GPU: an endpoint id (0 to 0xEFF), a tenant, the number of its next start, and one port per plane."""

    id: int
    name: str
    tenant: int = 1
    incarnation: int = 1
    ports: tuple[GpuPort, ...] = ()


@dataclass(frozen=True, slots=True)
class SwitchPort:
    """One port of a switch: number (1 to 503), interface, role ("endpoint", "fabric"), peer, mode ("open", "managed").

    `peer` is the name of the GPU or switch at the other end; `peer_port` is the peer's port number on a fabric link,
    which may be left out when only one link joins the two switches. `profile` is the name of the link profile by which
    both ends run a managed link.
    """

    port: int
    iface: str
    role: str
    peer: str
    mode: str = "open"
    peer_port: int | None = None
    profile: str = DEFAULT_PROFILE


@dataclass(frozen=True, slots=True)
class SwitchNode:
    """A switch: endpoint id (0xF00 to 0xFFE), plane, P4Runtime device id and address, log file, ports."""

    id: int
    name: str
    plane: int = 0
    device_id: int = 1
    grpc: str = ""
    log: str = ""
    ports: tuple[SwitchPort, ...] = ()

    def port_to(self, peer: str) -> list[SwitchPort]:
        """Return the ports whose peer is the node named `peer`."""
        return [port for port in self.ports if port.peer == peer]


@dataclass(frozen=True)
class Fabric:
    """A whole fabric. Raises FabricError when it contradicts itself."""

    topology: str
    gpus: tuple[GpuNode, ...]
    switches: tuple[SwitchNode, ...] = ()
    tenants: Mapping[int, str] = field(default_factory=lambda: {1: "default"})
    profiles: Mapping[str, LinkProfile] = field(default_factory=lambda: {DEFAULT_PROFILE: LinkProfile()})

    def __post_init__(self) -> None:
        problems = list(_problems(self))
        if problems:
            raise FabricError(problems)

    @cached_property
    def _gpu_by_id(self) -> dict[int, GpuNode]:
        return {gpu.id: gpu for gpu in self.gpus}

    @cached_property
    def _by_name(self) -> dict[str, GpuNode | SwitchNode]:
        nodes: tuple[GpuNode | SwitchNode, ...] = (*self.gpus, *self.switches)
        return {node.name: node for node in nodes}

    def gpu(self, which: int | str) -> GpuNode:
        """Return a GPU by id or by name. Raises KeyError that names the GPUs there are."""
        found = self._gpu_by_id.get(which) if isinstance(which, int) else self._by_name.get(which)
        if not isinstance(found, GpuNode):
            known = ", ".join(f"{gpu.name} (id {gpu.id})" for gpu in self.gpus)
            raise KeyError(f"no GPU {which!r} in the fabric; there are {known or 'none'}")
        return found

    def switch(self, name: str) -> SwitchNode:
        """Return a switch by name. Raises KeyError that names the switches there are."""
        found = self._by_name.get(name)
        if not isinstance(found, SwitchNode):
            known = ", ".join(switch.name for switch in self.switches)
            raise KeyError(f"no switch {name!r} in the fabric; there are {known or 'none'}")
        return found

    def tenant_gpus(self, tenant: int) -> tuple[GpuNode, ...]:
        """Return the GPUs of a tenant, by ascending id."""
        return tuple(sorted((gpu for gpu in self.gpus if gpu.tenant == tenant), key=lambda gpu: gpu.id))

    def to_json(self) -> dict[str, Any]:
        """Return the description as plain JSON values."""
        return {
            "topology": self.topology,
            "tenants": {str(number): name for number, name in sorted(self.tenants.items())},
            "profiles": {name: profile.to_json() for name, profile in sorted(self.profiles.items())},
            "gpus": [dataclasses.asdict(gpu) for gpu in self.gpus],
            "switches": [dataclasses.asdict(switch) for switch in self.switches],
        }

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Make a fabric from JSON values. Raises FabricError, which says where something is missing or wrong."""
        faults: list[str] = []
        optional: dict[str, type] = {"switches": list, "tenants": dict, "profiles": dict}
        top = _record(data, "top level", {"topology": str, "gpus": list}, optional, faults)
        tenants: dict[int, str] = {}
        for key, name in top.get("tenants", {"1": "default"}).items():
            if key.isdecimal() and isinstance(name, str):
                tenants[int(key)] = name
            else:
                faults.append(f"tenants: {key!r}: {name!r} is not a number with a name")
        profiles = {DEFAULT_PROFILE: LinkProfile()}
        for name, settings in top.get("profiles", {}).items():
            try:
                profiles[name] = LinkProfile.from_json(settings)
            except ProfileError as error:
                faults.append(f"profiles.{name}: {error}")
        gpus = _nodes(top.get("gpus", []), "gpus", _GPU, _GPU_PORT, faults)
        switches = _nodes(top.get("switches", []), "switches", _SWITCH, _SWITCH_PORT, faults)
        if faults:
            raise FabricError(faults)
        return cls(
            topology=top["topology"],
            tenants=tenants,
            profiles=profiles,
            gpus=tuple(GpuNode(**gpu, ports=tuple(GpuPort(**port) for port in ports)) for gpu, ports in gpus),
            switches=tuple(
                SwitchNode(**switch, ports=tuple(SwitchPort(**port) for port in ports)) for switch, ports in switches
            ),
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a description from a JSON file. Raises FabricError that names the file."""
        try:
            text = Path(path).read_text()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not text"
            raise FabricError([f"cannot be read: {reason}"], str(path)) from error
        try:
            return cls.from_json(json.loads(text))
        except json.JSONDecodeError as error:
            place = f"line {error.lineno} column {error.colno}"
            raise FabricError([f"not JSON: {error.msg} at {place}"], str(path)) from error
        except FabricError as error:
            raise FabricError(error.problems, str(path)) from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the description as JSON; a reader sees the old file or the new one, never a part."""
        write_whole(path, json.dumps(self.to_json(), indent=1) + "\n")


_Members = tuple[Mapping[str, type], Mapping[str, type]]
"""The members of a JSON object with their types: those that it must have, and those that it may have."""
_GPU: Final[_Members] = {"id": int, "name": str, "ports": list}, {"tenant": int, "incarnation": int}
_GPU_PORT: Final[_Members] = {"plane": int, "iface": str}, {"switch": str, "switch_port": int}
_SWITCH: Final[_Members] = (
    {"id": int, "name": str, "ports": list},
    {"plane": int, "device_id": int, "grpc": str, "log": str},
)
_SWITCH_PORT: Final[_Members] = (
    {"port": int, "iface": str, "role": str, "peer": str},
    {"mode": str, "peer_port": int, "profile": str},
)


def _nodes(
    items: list[Any], what: str, members: _Members, port_members: _Members, faults: list[str]
) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Return the members of each node but its ports, and of each of its ports; append to `faults` what is wrong."""
    nodes = []
    for index, item in enumerate(items):
        name = item.get("name") if isinstance(item, dict) else None
        where = f"{what}[{index}]" + (f" ({name})" if isinstance(name, str) else "")
        node = _record(item, where, *members, faults)
        ports = [
            _record(port, f"{where}.ports[{number}]", *port_members, faults)
            for number, port in enumerate(node.pop("ports", []))
        ]
        nodes.append((node, ports))
    return nodes


def _record(
    item: Any, where: str, required: Mapping[str, type], optional: Mapping[str, type], faults: list[str]
) -> dict[str, Any]:
    """Return the known members of a JSON object, and append to `faults` what is missing, unknown or of a wrong type."""
    if not isinstance(item, dict):
        faults.append(f"{where}: expected an object, got {item!r}")
        return {}
    wanted = {**required, **optional}
    faults.extend(f"{where}: {name!r} is missing" for name in required if name not in item)
    kept: dict[str, Any] = {}
    for name, value in item.items():
        if name not in wanted:
            faults.append(f"{where}: unknown member {name!r}; known are {', '.join(wanted)}")
        elif value is None and name in optional:
            continue
        elif not isinstance(value, wanted[name]) or isinstance(value, bool):
            faults.append(f"{where}: {name} = {value!r} is not of type {wanted[name].__name__}")
        else:
            kept[name] = value
    return kept


def _repeated(values: Iterable[Any]) -> list[Any]:
    return [value for value, count in Counter(values).items() if count > 1]


def _problems(fabric: Fabric) -> Iterable[str]:
    """Yield everything that is wrong with a fabric, one line each."""
    nodes: tuple[GpuNode | SwitchNode, ...] = (*fabric.gpus, *fabric.switches)
    for node in nodes:
        if not _NAME.fullmatch(node.name):
            yield f"{node.name!r} is no name: letters, digits, '_', '-' and '.', beginning with a letter or digit"
        for iface in (port.iface for port in node.ports):
            if not 0 < len(iface) <= MAX_IFACE or "/" in iface or any(letter.isspace() for letter in iface):
                yield f"{node.name}: {iface!r} is no interface name: 1 to {MAX_IFACE} characters without '/' and spaces"
    for repeated in _repeated(node.name for node in nodes):
        yield f"the name {repeated!r} is used more than once"
    for repeated in _repeated(node.id for node in nodes):
        names = ", ".join(node.name for node in nodes if node.id == repeated)
        yield f"id {repeated} is used more than once: {names}"
    for number in fabric.tenants:
        if not 1 <= number <= MAX_TENANT:
            yield f"tenant {number}: out of range, 1 to {MAX_TENANT}"
    gpus = {gpu.name: gpu for gpu in fabric.gpus}
    switches = {switch.name: switch for switch in fabric.switches}
    for gpu in fabric.gpus:
        yield from _gpu_problems(gpu, fabric.tenants, switches)
    for repeated in _repeated((s.device_id, s.grpc) for s in fabric.switches if s.grpc):
        yield f"device id {repeated[0]} at {repeated[1]} belongs to more than one switch"
    for switch in fabric.switches:
        yield from _switch_problems(switch, gpus, switches)
        for port in switch.ports:
            if port.profile not in fabric.profiles:
                here, known = f"switch {switch.name}, port {port.port}", ", ".join(fabric.profiles)
                yield f"{here}: unknown link profile {port.profile!r}; there are {known}"


def _gpu_problems(gpu: GpuNode, tenants: Mapping[int, str], switches: Mapping[str, SwitchNode]) -> Iterable[str]:
    where = f"GPU {gpu.name}"
    if not 0 <= gpu.id <= MAX_GPU_ID:
        yield f"{where}: id {gpu.id} is out of range, 0 to {MAX_GPU_ID}"
    if gpu.tenant not in tenants:
        yield f"{where}: tenant {gpu.tenant} is not declared; declared are {', '.join(map(str, sorted(tenants)))}"
    if not 0 <= gpu.incarnation <= MAX_INCARNATION:
        yield f"{where}: incarnation {gpu.incarnation} is out of range, 0 to {MAX_INCARNATION}"
    if not gpu.ports:
        yield f"{where}: has no port"
    for repeated in _repeated(port.plane for port in gpu.ports):
        yield f"{where}: two ports on plane {repeated}"
    for repeated in _repeated(port.iface for port in gpu.ports):
        yield f"{where}: interface {repeated} is used twice"
    for port in gpu.ports:
        here = f"{where}, port {port.iface}"
        if not 0 <= port.plane <= MAX_PLANE:
            yield f"{here}: plane {port.plane} is out of range, 0 to {MAX_PLANE}"
        if port.switch is None:
            continue
        switch = switches.get(port.switch)
        if switch is None:
            yield f"{here}: unknown switch {port.switch!r}; there are {', '.join(switches) or 'none'}"
            continue
        if switch.plane != port.plane:
            yield f"{here}: on plane {port.plane}, but switch {switch.name} is on plane {switch.plane}"
        if not any(p.port == port.switch_port and p.peer == gpu.name for p in switch.ports):
            yield f"{here}: switch {switch.name} has no port {port.switch_port} with peer {gpu.name}"


def _switch_problems(
    switch: SwitchNode, gpus: Mapping[str, GpuNode], switches: Mapping[str, SwitchNode]
) -> Iterable[str]:
    where = f"switch {switch.name}"
    if not FIRST_SWITCH_ID <= switch.id <= MAX_SWITCH_ID:
        yield f"{where}: id {switch.id} is out of range, {FIRST_SWITCH_ID} to {MAX_SWITCH_ID}"
    if not 0 <= switch.plane <= MAX_PLANE:
        yield f"{where}: plane {switch.plane} is out of range, 0 to {MAX_PLANE}"
    for repeated in _repeated(port.port for port in switch.ports):
        yield f"{where}: port {repeated} is used twice"
    for repeated in _repeated(port.iface for port in switch.ports):
        yield f"{where}: interface {repeated} is used twice"
    for port in switch.ports:
        here = f"{where}, port {port.port}"
        if not 1 <= port.port <= MAX_SWITCH_PORT:
            yield f"{here}: out of range, 1 to {MAX_SWITCH_PORT}"
        if port.mode not in MODES:
            yield f"{here}: mode {port.mode!r} is unknown; choose {' or '.join(MODES)}"
        if port.role == "endpoint":
            gpu = gpus.get(port.peer)
            if gpu is None:
                yield f"{here}: peer {port.peer!r} is not a GPU of this fabric"
            elif not any(p.switch == switch.name and p.switch_port == port.port for p in gpu.ports):
                yield f"{here}: GPU {gpu.name} has no port wired to it"
        elif port.role == "fabric":
            peer = switches.get(port.peer)
            if peer is None:
                yield f"{here}: peer {port.peer!r} is not a switch of this fabric"
            else:
                yield from _link_problems(here, switch, port, peer)
        else:
            yield f"{here}: role {port.role!r} is unknown; choose {' or '.join(ROLES)}"


def _link_problems(here: str, switch: SwitchNode, port: SwitchPort, peer: SwitchNode) -> Iterable[str]:
    """Yield what is wrong with one end of a link between switches."""
    back = peer.port_to(switch.name)
    if port.peer_port is None:
        if len(back) != 1 or len(switch.port_to(peer.name)) != 1:
            yield f"{here}: several links join {switch.name} and {peer.name}, or none comes back: give peer_port"
    elif not any(p.port == port.peer_port and p.peer_port in (None, port.port) for p in back):
        yield f"{here}: port {port.peer_port} of {peer.name} is not wired back to it"
