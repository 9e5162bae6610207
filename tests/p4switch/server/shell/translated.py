"""Types with @p4runtime_translation: ports as numbers of 32 bits and as strings, in keys, parameters and metadata."""

from p4runtime_sh import shell
from p4runtime_sh.p4runtime import P4RuntimeWriteException
from setup import connected


def entry(table, key, action, port):
    made = shell.TableEntry(table)(action=action)
    made.match[key] = port
    made.action["port"] = port
    return made


with connected():
    entry("by_number", "meta.number", "to_number", "300").insert()
    entry("by_name", "meta.name", "to_name", "12").insert()
    (number,) = shell.TableEntry("by_number").read()
    assert number.match["meta.number"].exact.value == number.action["port"].value == b"\x01\x2c", number
    (name,) = shell.TableEntry("by_name").read()
    assert name.match["meta.name"].exact.value == name.action["port"].value == b"12", name
    try:
        entry("by_number", "meta.number", "to_number", "512").insert()
    except P4RuntimeWriteException as error:
        assert "512 has no counterpart in the program" in str(error), error
    else:
        raise AssertionError("not refused")
    color = shell.TableEntry("by_color")(action="punt")
    color.match["meta.color"] = "red"
    color.insert()
    (read,) = shell.TableEntry("by_color").read()
    assert read.match["meta.color"].exact.value == b"red", read
    color.delete()

    packets = shell.PacketIn()
    packet = shell.PacketOut(bytes(14) + b"payload", egress_port="510", pad="0")
    packet.send()
    (received,) = packets.sniff(timeout=1)
    assert received.packet.payload.endswith(b"payload"), received
