r"""Offer the fabric's parts to Mininet's own command.

    sudo mn --custom topologies/custom.py --topo planes,8,2 \
            --host gpu --link ethlink --switch p4switch --controller none

`mn` executes this file rather than importing it, with Debian's Python and without the project on its path.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

_here = inspect.currentframe()
if _here is not None:
    sys.path.insert(0, str(Path(_here.f_code.co_filename).resolve().parent.parent))

from topologies.nodes import HOSTS, LINKS, SWITCHES  # noqa: E402
from topologies.topos import TOPOS  # noqa: E402

topos, hosts, links, switches = TOPOS, HOSTS, LINKS, SWITCHES
