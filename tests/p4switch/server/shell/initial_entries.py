"""Entries that the program gives: a const one beside one that a controller may change."""

from p4runtime_sh import shell
from p4runtime_sh.p4runtime import P4RuntimeWriteException
from setup import connected

PERMISSION_DENIED = 7


def entry(a, port):
    made = shell.TableEntry("mixed")(action="set_port")
    made.match["hdr.h.a"], made.action["port"] = str(a), str(port)
    return made


def ports():
    return {e.match["hdr.h.a"].exact.value[0]: e.action["port"].value[0] for e in shell.TableEntry("mixed").read()}


with connected():
    assert ports() == {1: 11, 2: 12}
    for update in (entry(1, 5).modify, entry(1, 5).delete):
        try:
            update()
        except P4RuntimeWriteException as error:
            assert [each.canonical_code for _, each in error.errors] == [PERMISSION_DENIED], error
        else:
            raise AssertionError("not refused")
    counted = entry(1, 5)
    counted.clear_action()
    counted.counter_data.packet_count = 8
    counted.modify()
    assert max(c.packet_count for c in shell.DirectCounterEntry("hits").read()) == 8
    entry(2, 6).modify()
    entry(3, 7).insert()
    assert ports() == {1: 11, 2: 6, 3: 7}
    entry(2, 0).delete()
    assert ports() == {1: 11, 3: 7}
