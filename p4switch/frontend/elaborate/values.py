"""What an expression or a name stands for while a program is elaborated.

`Value` has an IR expression; the others exist at compile time only and disappear on the way: integers of arbitrary
precision, strings, aggregates that are not stored yet, types, instances, callables.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from p4switch import ir
from p4switch.frontend import ast
from p4switch.frontend import types as ty

if TYPE_CHECKING:
    from p4switch.frontend.elaborate.scope import Scope


class Operand:
    """Base: `type` is never None."""

    type: ty.Type

    @property
    def what(self) -> str:
        """How an error calls it."""
        return f"a value of type {self.type}"


@dataclass(slots=True)
class Value(Operand):
    """A run-time value. lvalue: it may be assigned to. readonly: why not, for the error's hint."""

    type: ty.Type
    expr: ir.Expr
    lvalue: bool = False
    readonly: str = ""

    @property
    def constant(self) -> int | None:
        return self.expr.value if isinstance(self.expr, ir.Const) else None


@dataclass(slots=True)
class IntVal(Operand):
    value: int
    type: ty.Type = ty.INT

    @property
    def what(self) -> str:
        return f"the integer {self.value}"


@dataclass(slots=True)
class StrVal(Operand):
    text: str
    type: ty.Type = ty.STRING

    @property
    def what(self) -> str:
        return "a string"


@dataclass(slots=True)
class ListVal(Operand):
    """{a, b}, not converted to a type yet."""

    items: list[Operand]
    rest: bool = False
    type: ty.Type = ty.LIST

    @property
    def what(self) -> str:
        return f"a list of {len(self.items)} values"


@dataclass(slots=True)
class NamedVal(Operand):
    """{x = a, y = b}, not converted to a type yet."""

    fields: dict[str, Operand]
    locs: dict[str, ir.Loc]
    rest: bool = False
    type: ty.Type = ty.LIST

    @property
    def what(self) -> str:
        return f"a struct of {', '.join(self.fields)}"


@dataclass(slots=True)
class Aggregate(Operand):
    """A struct, header, tuple or stack given by its parts, in order, each converted to its type."""

    type: ty.Type
    parts: list[Operand]


@dataclass(slots=True)
class InvalidVal(Operand):
    """{#}."""

    type: ty.Type = ty.INVALID

    @property
    def what(self) -> str:
        return "{#}"


@dataclass(slots=True)
class RestVal(Operand):
    """'...': the default value of whatever type is wanted."""

    type: ty.Type = ty.REST


@dataclass(slots=True)
class UnknownVal(Operand):
    """Stands for what was reported as an error."""

    type: ty.Type = ty.UNKNOWN


@dataclass(slots=True)
class VoidVal(Operand):
    """The result of a call that has none."""

    type: ty.Type = ty.VOID

    @property
    def what(self) -> str:
        return "a call without a result"


@dataclass(slots=True)
class TypeVal(Operand):
    """A type. decl: of a generic one whose arguments are not given."""

    type: ty.Type
    decl: ast.Decl | None = None

    @property
    def what(self) -> str:
        return f"type {self.type}"


@dataclass(slots=True)
class FunctionSet(Operand):
    """Functions or extern functions of one name, told apart by their parameters."""

    name: str
    decls: list[ast.FunctionDecl]
    type: ty.Type = field(default_factory=lambda: ty.Special("function"))

    @property
    def what(self) -> str:
        return f"function '{self.name}'"


@dataclass(slots=True)
class ActionVal(Operand):
    """An action as seen from `scope`; `prefix` is the control-plane path of its control."""

    decl: ast.ActionDecl
    scope: Scope
    prefix: str | None
    position: tuple[int, ...] = ()
    type: ty.Type = field(default_factory=lambda: ty.Special("action"))

    @property
    def what(self) -> str:
        return f"action '{self.decl.name}'"


@dataclass(slots=True)
class TableVal(Operand):
    """A table of a control instance. action_names: source names of its actions, in order. exits_elsewhere: an action
    exits, and what it has to write back before it depends on where the table is applied."""

    decl: ast.TableDecl
    ir_name: str
    type: ty.Type = field(default_factory=lambda: ty.Special("table"))
    action_names: list[str] = field(default_factory=list)
    run_type: ty.ActionRun | None = None
    key_statements: list[ir.Stmt] = field(default_factory=list)
    exits_elsewhere: bool = False

    @property
    def what(self) -> str:
        return f"table '{self.decl.name}'"


@dataclass(slots=True)
class ApplyResult(Operand):
    """table.apply(): its hit, miss and action_run are made when asked for."""

    table: TableVal
    statement: int  # position of the ApplyTable in `out`
    out: list[ir.Stmt]
    type: ty.Type = field(default_factory=lambda: ty.Special("apply_result"))

    @property
    def what(self) -> str:
        return f"the result of {self.table.decl.name}.apply()"


@dataclass(slots=True)
class StateVal(Operand):
    name: str
    type: ty.Type = field(default_factory=lambda: ty.Special("state"))

    @property
    def what(self) -> str:
        return f"state '{self.name}'"


@dataclass(slots=True)
class ExternVal(Operand):
    """An extern object. ir_name names its IR object ('' for packet_in and packet_out)."""

    type: ty.Type
    name: str
    ir_name: str = ""
    args: list[Operand] = field(default_factory=list)

    @property
    def what(self) -> str:
        return f"'{self.name}' of type {self.type}"


@dataclass(slots=True)
class ValueSetVal(Operand):
    name: str
    ir_name: str
    element: ty.Type
    type: ty.Type = field(default_factory=lambda: ty.Special("value_set"))

    @property
    def what(self) -> str:
        return f"value set '{self.name}'"


@dataclass(slots=True)
class BlockVal(Operand):
    """An instance of a parser, control or package: declaration, constructor arguments, control-plane path.

    `members` is filled when its local declarations are elaborated, once; `calls` is how often it is applied."""

    type: ty.Type
    decl: ast.ParserDecl | ast.ControlDecl | ast.PackageDecl
    name: str
    prefix: str
    args: dict[str, Operand]
    loc: ir.Loc
    scope: Scope | None = None
    calls: int = 1
    position: tuple[int, ...] = ()
    params: dict[str, Operand] | None = None

    @property
    def what(self) -> str:
        return f"'{self.name}' of type {self.type}"


@dataclass(slots=True)
class MethodVal(Operand):
    """base.name where name is a method; the base may be a value, a type, an extern object, a table or a block."""

    base: Operand
    name: str
    type: ty.Type = field(default_factory=lambda: ty.Special("method"))

    @property
    def what(self) -> str:
        return f"method '{self.name}'"
