"""The back end: a typed program (p4switch.ir) to one C file over the runtime's ABI (runtime/p4rt.h).

layout        P4 types as C types, names, literals
expressions   expressions; packing: values to bytes and back
statements    assignments, control flow, tables; externs, field_lists: v1model's externs
headers       extraction and emission of headers; parsing: the parser and the deparser
descriptors   what the program says of itself to the runtime and the control plane
program       the whole file
"""

from p4switch.emit.errors import EmitError
from p4switch.emit.program import emit_c

__all__ = ["EmitError", "emit_c"]
