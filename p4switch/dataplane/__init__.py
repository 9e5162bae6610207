"""Python's view of the native switch: ports, a traffic manager, and the program that is loaded into them.

    with DataPlane(SwitchOptions(cpu_port=510)) as switch:
        switch.load(build("ethlink.p4").library)
        switch.add_port(1, "veth1")
        switch.start()

Packets never pass through Python; the switch runs in a thread of its own, without the GIL. Every method may be called
from any thread, and returns when the change has taken effect for the next packet. Ids are P4Info ids, values are ints.
"""

from p4switch.dataplane.errors import (
    DataPlaneError,
    EndlessPacket,
    EntryExists,
    EntryMissing,
    InvalidArgument,
    ReadOnly,
    SystemFailure,
    TableFull,
    WrongState,
)
from p4switch.dataplane.native import checksum
from p4switch.dataplane.switch import DataPlane
from p4switch.dataplane.types import (
    DELETE,
    INSERT,
    MODIFY,
    EntryRecord,
    FieldMatch,
    MeterConfig,
    MeterCounts,
    PortStatus,
    SwitchOptions,
    TableEntry,
)

__all__ = [
    "DELETE",
    "INSERT",
    "MODIFY",
    "DataPlane",
    "DataPlaneError",
    "EndlessPacket",
    "EntryExists",
    "EntryMissing",
    "EntryRecord",
    "FieldMatch",
    "InvalidArgument",
    "MeterConfig",
    "MeterCounts",
    "PortStatus",
    "ReadOnly",
    "SwitchOptions",
    "SystemFailure",
    "TableEntry",
    "TableFull",
    "WrongState",
    "checksum",
]
