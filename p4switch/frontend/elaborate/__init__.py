"""Elaboration: the syntax tree to the typed IR.

One walk resolves names, checks types, folds constants and lowers, from the package's six blocks inwards: every
sub-parser, sub-control, function and direct action call is inlined where it is applied. Bodies that the package does
not reach are elaborated afterwards on stand-ins, so that their errors are reported too.
"""

from p4switch.frontend.elaborate.program import elaborate

__all__ = ["elaborate"]
