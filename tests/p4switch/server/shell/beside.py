"""A role of its own beside another controller, which has pushed the pipeline: both write and read at once."""

import sys

from p4runtime_sh import shell

ADDRESS, ROUNDS = sys.argv[1], int(sys.argv[2])

shell.setup(device_id=1, grpc_addr=ADDRESS, election_id=(0, 1), role_name="shell", verbose=False)
try:
    for number in range(ROUNDS):
        entry = shell.TableEntry("exact_table")(action="counted_forward")
        entry.match["hdr.ethernet.dst"] = f"00:00:00:01:00:{number:02x}"
        entry.action["port"] = "5"
        entry.insert()
        mine = [e for e in shell.TableEntry("exact_table").read() if e.action["port"].value == b"\x05"]
        assert len(mine) == number + 1, (number, mine)
    others = [e for e in shell.TableEntry("exact_table").read() if e.action["port"].value != b"\x05"]
    assert others, "nothing of the other controller"
finally:
    shell.teardown()
print("done")
