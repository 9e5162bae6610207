"""Members and one shots that depend on port 3, by both fields that there have been for it."""

from p4runtime_sh import shell
from p4runtime_sh.p4runtime import P4RuntimeWriteException
from setup import connected


def refused(action, message):
    try:
        action()
    except P4RuntimeWriteException as error:
        assert message in str(error), error
        return
    raise AssertionError("not refused")


def mark(value):
    action = shell.Action("mark")
    action["value"] = str(value)
    return action


with connected():
    for number in (1, 2):
        member = shell.ActionProfileMember("paths")(member_id=number, action=mark(number))
        member.insert()
    group = shell.ActionProfileGroup("paths")(group_id=1)
    group.add(1, weight=2, watch_port=b"\x03").add(2, watch=3)
    group.insert()
    (read,) = shell.ActionProfileGroup("paths").read()
    assert [(m.watch_port, m.watch) for m in read.members] == [(b"\x03", 0), (b"", 3)], read
    group.clear()
    group.add(1, weight=0)
    refused(group.modify, "weight 0 is not above 0")
    group.clear()
    group.add(1, watch_port=b"\x09")
    refused(group.modify, "there is no port 9 to watch; there is 3")
    group.delete()
    for number in (1, 2):
        shell.ActionProfileMember("paths")(member_id=number).delete()

    entry = shell.TableEntry("third")
    entry.match["hdr.ethernet.dst"] = "00:00:00:00:00:0a"
    entry.oneshot = shell.Oneshot("third").add(mark(1), weight=2, watch_port=b"\x03").add(mark(1)).add(mark(2), watch=3)
    entry.insert()
    (read,) = shell.TableEntry("third").read()
    assert [(a.weight, a.watch_port, a.watch) for a in read.oneshot.actions] == [
        (2, b"\x03", 0),
        (1, b"", 0),
        (1, b"", 3),
    ]
    refused(shell.ActionProfileMember("paths")(member_id=1, action=mark(1)).insert, "are one shots")
    entry.oneshot = shell.Oneshot("third").add(mark(1), weight=0)
    refused(entry.modify, "weight 0 is not above 0")
    entry.delete()
