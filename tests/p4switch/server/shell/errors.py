"""What a person at the shell reads when an edit is wrong."""

from p4runtime_sh import shell
from p4runtime_sh.p4runtime import P4RuntimeWriteException
from setup import connected


def refused(action):
    try:
        action()
    except P4RuntimeWriteException as error:
        print(error)
        return
    raise AssertionError("not refused")


with connected():
    entry = shell.TableEntry("ternary_table")(action="rated")
    entry.match["hdr.ethernet.type"] = "0x800"
    refused(entry.insert)
    entry.priority = 1
    entry.insert()
    refused(entry.insert)
