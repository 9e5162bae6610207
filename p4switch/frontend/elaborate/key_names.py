"""Control-plane names of table keys that have no @name: the key expression as it is written, where it is simple."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from p4switch.frontend import ast


def key_name(expr: ast.Expr, fail: Callable[..., NoReturn]) -> str:
    """Write a key expression as P4Info names it. Fails for expressions that need an @name annotation."""
    if isinstance(expr, ast.Name):
        return f".{expr.name}" if expr.absolute else expr.name
    if isinstance(expr, ast.Member):
        return f"{key_name(expr.base, fail)}.{expr.name}"
    if isinstance(expr, ast.IndexExpr):
        return f"{key_name(expr.base, fail)}[{key_name(expr.index, fail)}]"
    if isinstance(expr, ast.SliceExpr):
        return f"{key_name(expr.base, fail)}[{key_name(expr.hi, fail)}:{key_name(expr.lo, fail)}]"
    if isinstance(expr, ast.CallExpr) and isinstance(expr.callee, ast.Member) and not expr.args:
        if expr.callee.name == "isValid":
            return f"{key_name(expr.callee.base, fail)}.$valid$"
    if isinstance(expr, ast.IntLit):
        return str(expr.value)
    if isinstance(expr, ast.TypeExpr) and isinstance(expr.type, ast.NamedType):
        return expr.type.name
    if isinstance(expr, ast.BinaryExpr) and expr.op == "&":
        if isinstance(expr.right, ast.IntLit):  # a masked field is named like the field
            return key_name(expr.left, fail)
        if isinstance(expr.left, ast.IntLit):
            return key_name(expr.right, fail)
    fail(
        expr.loc,
        "this key expression has no name for the control plane",
        'give it one: @name("...") after the match kind',
    )
