"""What the scripts share: the connection, from the command line's arguments."""

import sys
from contextlib import contextmanager

from p4runtime_sh import shell


@contextmanager
def connected(election_id=1):
    """Connect, push the pipeline, and hang up at the end."""
    address, p4info, blob = sys.argv[1:]
    shell.setup(
        device_id=1,
        grpc_addr=address,
        election_id=(0, election_id),
        config=shell.FwdPipeConfig(p4info, blob),
        verbose=False,
    )
    try:
        yield
    finally:
        shell.teardown()
    print("done")
