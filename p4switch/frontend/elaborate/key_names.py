"""Control-plane names of table keys that have no @name: the key expression as it is written, where it is simple."""

from __future__ import annotations

from p4switch.frontend import ast
from p4switch.frontend import types as ty
from p4switch.frontend.elaborate.entries import Entries
from p4switch.frontend.elaborate.objects import annotation, text_of


class KeyNames(Entries):
    """Names keys as p4c does."""

    def key_name(self, expr: ast.Expr) -> str:
        """Write a key expression as P4Info names it. Fails for expressions that need an @name annotation."""
        if isinstance(expr, ast.Name):
            return f".{expr.name}" if expr.absolute else expr.name
        if isinstance(expr, ast.Member):
            return self.member_name(expr)
        if isinstance(expr, ast.IndexExpr):
            return f"{self.key_name(expr.base)}[{self.key_name(expr.index)}]"
        if isinstance(expr, ast.SliceExpr):
            return f"{self.key_name(expr.base)}[{self.key_name(expr.hi)}:{self.key_name(expr.lo)}]"
        if isinstance(expr, ast.CallExpr) and isinstance(expr.callee, ast.Member) and not expr.args:
            name = self.key_name(expr.callee)
            if name.endswith("$valid$"):
                return name
        if isinstance(expr, ast.IntLit):
            return expr.text
        if isinstance(expr, ast.TypeExpr) and isinstance(expr.type, ast.NamedType):
            return expr.type.name
        if isinstance(expr, ast.BinaryExpr) and expr.op == "&":
            return f"{self.key_name(expr.left)} & {self.key_name(expr.right)}"
        hint = 'give it one: @name("...") after the match kind'
        self.fail(expr.loc, "this key expression has no name for the control plane", hint)

    def member_name(self, expr: ast.Member) -> str:
        """Name base.field; a field's @name replaces its name, and with a leading dot the base as well."""
        name = expr.name
        with self.capture():
            kind = self.expr(expr.base).type
        if isinstance(kind, ty.Struct):
            if name == "isValid" and name not in kind.fields:
                name = "$valid$"
            for field in kind.decl.fields if kind.decl is not None else ():
                found = annotation(field.annotations, "name") if field.name == name else None
                if found is not None:
                    name = text_of(found)
        if name.startswith("."):
            return name[1:]
        return f"{self.key_name(expr.base)}.{name}"
