"""STF, the test format of p4c's BMv2 tests: control-plane entries, packets in, packets expected out.

script   the statements and their parser
runner   runs a script over a native switch, without interfaces
"""

from p4switch.stf.runner import run_stf
from p4switch.stf.script import StfError, parse

__all__ = ["StfError", "parse", "run_stf"]
