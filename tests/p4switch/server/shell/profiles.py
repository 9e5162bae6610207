"""Members, groups and one shots."""

from p4runtime_sh import shell
from setup import connected

with connected():
    for number in (1, 2):
        member = shell.ActionProfileMember("paths")(member_id=number, action="mark")
        member.action["value"] = str(number)
        member.insert()
    assert len(list(shell.ActionProfileMember("paths").read())) == 2
    group = shell.ActionProfileGroup("paths")(group_id=1)
    group.add(1, weight=1).add(2, weight=3)
    group.insert()
    read = next(shell.ActionProfileGroup("paths")(group_id=1).read())
    assert [(m.member_id, m.weight) for m in read.members] == [(1, 1), (2, 3)], read

    entry = shell.TableEntry("third")
    entry.match["hdr.ethernet.dst"] = "00:00:00:00:00:0a"
    entry.group_id = 1
    entry.insert()
    assert next(shell.TableEntry("third").read()).group_id == 1
    entry.group_id = 0
    entry.member_id = 2
    entry.modify()
    assert next(shell.TableEntry("third").read()).member_id == 2
    entry.delete()
    group.delete()
    for number in (1, 2):
        shell.ActionProfileMember("paths")(member_id=number).delete()

    entry = shell.TableEntry("third")
    entry.match["hdr.ethernet.dst"] = "00:00:00:00:00:0a"
    action = shell.Action("mark")
    action["value"] = "7"
    entry.oneshot = shell.Oneshot("third").add(action, weight=2)
    entry.insert()
    assert len(next(shell.TableEntry("third").read()).oneshot.actions) == 1
