"""The abstract syntax tree: what the author wrote, with locations, names not yet resolved.

All nodes are frozen and compared by identity. Every node but Program carries `loc`, the place of its first (for
binary operators: its operator's) token.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from p4switch.ir import Loc


@dataclass(frozen=True, eq=False, repr=False)
class Node:
    loc: Loc


@dataclass(frozen=True, eq=False, repr=False)
class Annotation(Node):
    """@name, @name(body) or @name[...]. `tokens` are (kind, text) of the body; `structured` tells the bracket form."""

    name: str
    tokens: tuple[tuple[str, str], ...] = ()
    has_body: bool = False
    structured: bool = False
    body_loc: Loc | None = None
    expressions: tuple[Expr, ...] = ()
    pairs: tuple[tuple[str, Expr], ...] = ()


# ------------------------------------------------------------------------------------------------------------ types


@dataclass(frozen=True, eq=False, repr=False)
class TypeRef(Node):
    pass


@dataclass(frozen=True, eq=False, repr=False)
class BaseType(TypeRef):
    """bool, error, string, match_kind, void, int (no width), bit/int/varbit<width>, or '_' (to be inferred)."""

    kind: str
    width: int | Expr | None = None


@dataclass(frozen=True, eq=False, repr=False)
class NamedType(TypeRef):
    name: str
    args: tuple[TypeRef, ...] | None = None
    absolute: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class StackTypeRef(TypeRef):
    element: TypeRef
    size: Expr


@dataclass(frozen=True, eq=False, repr=False)
class TupleTypeRef(TypeRef):
    args: tuple[TypeRef, ...]


@dataclass(frozen=True, eq=False, repr=False)
class ListTypeRef(TypeRef):
    element: TypeRef


# ------------------------------------------------------------------------------------------------------ expressions


@dataclass(frozen=True, eq=False, repr=False)
class Expr(Node):
    pass


@dataclass(frozen=True, eq=False, repr=False)
class IntLit(Expr):
    """An integer; text is how the control plane names it in keys: without width, its base kept."""

    value: int
    width: int | None = None
    signed: bool = False
    text: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class BoolLit(Expr):
    value: bool


@dataclass(frozen=True, eq=False, repr=False)
class StringLit(Expr):
    value: str


@dataclass(frozen=True, eq=False, repr=False)
class Name(Expr):
    name: str
    absolute: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class This(Expr):
    pass


@dataclass(frozen=True, eq=False, repr=False)
class TypeExpr(Expr):
    """A type where an expression stands: the base of Enum.member or Type.method(), or the callee of Type(...)."""

    type: TypeRef


@dataclass(frozen=True, eq=False, repr=False)
class Member(Expr):
    base: Expr
    name: str


@dataclass(frozen=True, eq=False, repr=False)
class IndexExpr(Expr):
    base: Expr
    index: Expr


@dataclass(frozen=True, eq=False, repr=False)
class SliceExpr(Expr):
    base: Expr
    hi: Expr
    lo: Expr


@dataclass(frozen=True, eq=False, repr=False)
class PartExpr(Expr):
    """base[low +: width]."""

    base: Expr
    low: Expr
    width: Expr


@dataclass(frozen=True, eq=False, repr=False)
class UnaryExpr(Expr):
    op: str
    operand: Expr


@dataclass(frozen=True, eq=False, repr=False)
class BinaryExpr(Expr):
    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, eq=False, repr=False)
class MuxExpr(Expr):
    condition: Expr
    then: Expr
    otherwise: Expr


@dataclass(frozen=True, eq=False, repr=False)
class CastExpr(Expr):
    type: TypeRef
    operand: Expr


@dataclass(frozen=True, eq=False, repr=False)
class ListExpr(Expr):
    """{a, b, ...}; has_rest when it ends in '...'."""

    items: tuple[Expr, ...]
    has_rest: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class StructExpr(Expr):
    """{name = value, ...}."""

    fields: tuple[tuple[str, Expr], ...]
    has_rest: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class InvalidExpr(Expr):
    """{#}: an invalid header or header union."""


@dataclass(frozen=True, eq=False, repr=False)
class RestExpr(Expr):
    """'...': the default value of the type that the context asks for."""


@dataclass(frozen=True, eq=False, repr=False)
class AnyExpr(Expr):
    """'_' or 'default' in a keyset, '_' as an argument."""


@dataclass(frozen=True, eq=False, repr=False)
class MaskExpr(Expr):
    value: Expr
    mask: Expr


@dataclass(frozen=True, eq=False, repr=False)
class RangeExpr(Expr):
    lo: Expr
    hi: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Argument(Node):
    name: str | None
    value: Expr


@dataclass(frozen=True, eq=False, repr=False)
class CallExpr(Expr):
    callee: Expr
    type_args: tuple[TypeRef, ...] | None
    args: tuple[Argument, ...]


# ------------------------------------------------------------------------------------------------------- statements


@dataclass(frozen=True, eq=False, repr=False)
class Stmt(Node):
    pass


@dataclass(frozen=True, eq=False, repr=False)
class EmptyStmt(Stmt):
    pass


@dataclass(frozen=True, eq=False, repr=False)
class AssignStmt(Stmt):
    """target op= value; op is '' for a plain assignment."""

    target: Expr
    value: Expr
    op: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class CallStmt(Stmt):
    call: CallExpr


@dataclass(frozen=True, eq=False, repr=False)
class BlockStmt(Stmt):
    body: tuple[Stmt, ...]
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class IfStmt(Stmt):
    condition: Expr
    then: Stmt
    otherwise: Stmt | None


@dataclass(frozen=True, eq=False, repr=False)
class SwitchLabel(Node):
    value: Expr | None  # None: default


@dataclass(frozen=True, eq=False, repr=False)
class SwitchCase(Node):
    label: SwitchLabel
    body: BlockStmt | None  # None: falls through to the next label


@dataclass(frozen=True, eq=False, repr=False)
class SwitchStmt(Stmt):
    subject: Expr
    cases: tuple[SwitchCase, ...]


@dataclass(frozen=True, eq=False, repr=False)
class ReturnStmt(Stmt):
    value: Expr | None


@dataclass(frozen=True, eq=False, repr=False)
class ExitStmt(Stmt):
    pass


@dataclass(frozen=True, eq=False, repr=False)
class BreakStmt(Stmt):
    pass


@dataclass(frozen=True, eq=False, repr=False)
class ContinueStmt(Stmt):
    pass


@dataclass(frozen=True, eq=False, repr=False)
class ForStmt(Stmt):
    init: tuple[Stmt, ...]
    condition: Expr
    update: tuple[Stmt, ...]
    body: Stmt


@dataclass(frozen=True, eq=False, repr=False)
class ForInStmt(Stmt):
    """for (type name in collection) body; type is None when the variable is declared before."""

    type: TypeRef | None
    name: str
    collection: Expr
    body: Stmt


# ----------------------------------------------------------------------------------------------------- declarations


@dataclass(frozen=True, eq=False, repr=False)
class Decl(Stmt):
    """A declaration; `name_loc` is where its name stands."""

    name: str
    annotations: tuple[Annotation, ...]


@dataclass(frozen=True, eq=False, repr=False)
class VarDecl(Decl):
    type: TypeRef
    init: Expr | None


@dataclass(frozen=True, eq=False, repr=False)
class ConstDecl(Decl):
    type: TypeRef
    value: Expr


@dataclass(frozen=True, eq=False, repr=False)
class Instantiation(Decl):
    type: TypeRef
    args: tuple[Argument, ...]
    initializer: tuple[Decl, ...] | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Parameter(Node):
    name: str
    annotations: tuple[Annotation, ...]
    direction: str  # '', 'in', 'out', 'inout'
    type: TypeRef
    default: Expr | None


@dataclass(frozen=True, eq=False, repr=False)
class TypedefDecl(Decl):
    """typedef type name, or type type name when distinct."""

    type: TypeRef | Decl
    distinct: bool


@dataclass(frozen=True, eq=False, repr=False)
class FieldDecl(Node):
    name: str
    annotations: tuple[Annotation, ...]
    type: TypeRef


@dataclass(frozen=True, eq=False, repr=False)
class StructDecl(Decl):
    kind: str  # 'struct', 'header', 'header_union'
    type_params: tuple[str, ...]
    fields: tuple[FieldDecl, ...]


@dataclass(frozen=True, eq=False, repr=False)
class EnumMember(Node):
    name: str
    value: Expr | None
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class EnumDecl(Decl):
    type: TypeRef | None
    members: tuple[EnumMember, ...]


@dataclass(frozen=True, eq=False, repr=False)
class ErrorDecl(Decl):
    members: tuple[EnumMember, ...]


@dataclass(frozen=True, eq=False, repr=False)
class MatchKindDecl(Decl):
    members: tuple[EnumMember, ...]


@dataclass(frozen=True, eq=False, repr=False)
class FunctionDecl(Decl):
    """A function, an extern function, or a method prototype; body is None for the latter two."""

    type_params: tuple[str, ...]
    return_type: TypeRef | None  # None: constructor
    params: tuple[Parameter, ...]
    body: BlockStmt | None
    abstract: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class ExternDecl(Decl):
    type_params: tuple[str, ...]
    methods: tuple[FunctionDecl, ...]


@dataclass(frozen=True, eq=False, repr=False)
class ActionDecl(Decl):
    params: tuple[Parameter, ...]
    body: BlockStmt


@dataclass(frozen=True, eq=False, repr=False)
class KeyElement(Node):
    expr: Expr
    match_kind: str
    annotations: tuple[Annotation, ...]


@dataclass(frozen=True, eq=False, repr=False)
class ActionRef(Node):
    name: str
    absolute: bool
    args: tuple[Argument, ...] | None
    annotations: tuple[Annotation, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Entry(Node):
    is_const: bool
    priority: Expr | None
    keysets: tuple[Expr, ...]
    action: ActionRef
    annotations: tuple[Annotation, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Property(Node):
    name: str
    is_const: bool
    value: Expr
    annotations: tuple[Annotation, ...]


@dataclass(frozen=True, eq=False, repr=False)
class TableDecl(Decl):
    keys: tuple[KeyElement, ...]
    has_key: bool
    actions: tuple[ActionRef, ...]
    has_actions: bool
    entries: tuple[Entry, ...] | None
    entries_const: bool
    properties: tuple[Property, ...]


@dataclass(frozen=True, eq=False, repr=False)
class ValueSetDecl(Decl):
    type: TypeRef
    size: Expr


@dataclass(frozen=True, eq=False, repr=False)
class SelectCase(Node):
    keysets: tuple[Expr, ...]
    target: str


@dataclass(frozen=True, eq=False, repr=False)
class TransitionStmt(Node):
    """transition target; or transition select (subjects) { cases }."""

    target: str | None
    subjects: tuple[Expr, ...] = ()
    cases: tuple[SelectCase, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class StateDecl(Decl):
    body: tuple[Stmt, ...]
    transition: TransitionStmt | None


@dataclass(frozen=True, eq=False, repr=False)
class ParserDecl(Decl):
    """A parser, or a parser type when states is None. `applied`: names on which .apply( is called, once per call."""

    type_params: tuple[str, ...]
    params: tuple[Parameter, ...]
    ctor_params: tuple[Parameter, ...]
    locals: tuple[Decl, ...]
    states: tuple[StateDecl, ...] | None
    applied: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class ControlDecl(Decl):
    """A control, or a control type when body is None. `applied`: as in ParserDecl."""

    type_params: tuple[str, ...]
    params: tuple[Parameter, ...]
    ctor_params: tuple[Parameter, ...]
    locals: tuple[Decl, ...]
    body: BlockStmt | None
    applied: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class PackageDecl(Decl):
    type_params: tuple[str, ...]
    params: tuple[Parameter, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Program:
    declarations: tuple[Decl, ...]


def start_of(node: Node) -> Loc:
    """Give where an expression's text begins: `loc` of a.b is that of b."""
    while True:
        if isinstance(node, Member | IndexExpr | SliceExpr | PartExpr):
            node = node.base
        elif isinstance(node, BinaryExpr):
            node = node.left
        elif isinstance(node, MuxExpr):
            node = node.condition
        elif isinstance(node, CallExpr):
            node = node.callee
        else:
            return node.loc


def dump(node: Any, indent: int = 0) -> str:
    """Print a tree, one node a line with its location; scalars beside the node's name."""
    if isinstance(node, tuple):
        return "".join(dump(item, indent) for item in node)
    if not hasattr(node, "__dataclass_fields__"):
        return f"{'  ' * indent}{node!r}\n"
    scalars = []
    children = []
    for field in fields(node):
        value = getattr(node, field.name)
        if field.name == "loc" or value is None or value == ():
            continue
        if isinstance(value, tuple) or hasattr(value, "__dataclass_fields__"):
            children.append((field.name, value))
        else:
            scalars.append(f"{field.name}={value!r}")
    where = f" @{node.loc.line}:{node.loc.column}" if hasattr(node, "loc") else ""
    text = f"{'  ' * indent}{type(node).__name__} {' '.join(scalars)}{where}\n"
    for name, value in children:
        text += f"{'  ' * (indent + 1)}{name}:\n" + dump(value, indent + 2)
    return text
