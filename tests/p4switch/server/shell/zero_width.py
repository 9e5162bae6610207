"""Action data of no bits. P4Info gives it no width, so that the shell takes it for a string: its one value is empty."""

from p4runtime_sh import shell
from setup import connected

with connected():
    entry = shell.TableEntry("t")(action="send")
    entry.match["hdr.h.a"] = "5"
    entry.action["nothing"] = ""
    entry.action["port"] = "3"
    entry.insert()
    (read,) = shell.TableEntry("t").read()
    assert (read.action["nothing"].value, read.action["port"].value) == (b"\x00", b"\x03"), read
