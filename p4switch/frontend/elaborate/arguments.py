"""Arguments: matching them to parameters, inferring type arguments, and passing them with copy-in and copy-out."""

from __future__ import annotations

from dataclasses import dataclass

from p4switch import ir
from p4switch.frontend import ast
from p4switch.frontend import types as ty
from p4switch.frontend.elaborate.scope import Scope
from p4switch.frontend.elaborate.typedecls import Types
from p4switch.frontend.elaborate.values import (
    BlockVal,
    ExternVal,
    IntVal,
    ListVal,
    Operand,
    TypeVal,
    UnknownVal,
    Value,
)
from p4switch.frontend.errors import did_you_mean
from p4switch.ir import Loc


@dataclass
class Passed:
    """One parameter with its argument; value is None for '_' given to an out parameter or an optional one left out.

    saved: the value of an inout argument before the arguments after it were evaluated, where those may change it."""

    param: ast.Parameter
    loc: Loc
    value: Operand | None
    saved: Operand | None = None


def path_of(expr: ir.Expr) -> tuple[str | int, ...] | None:
    """Name the storage that an expression denotes, as a path; None when it depends on run-time values."""
    if isinstance(expr, ir.Var):
        return (expr.name,)
    if isinstance(expr, ir.Field):
        base = path_of(expr.base)
        return None if base is None else (*base, expr.name)
    if isinstance(expr, ir.Index) and isinstance(expr.index, ir.Const):
        base = path_of(expr.base)
        return None if base is None else (*base, expr.index.value)
    return None


def overlap(a: tuple[str | int, ...], b: tuple[str | int, ...]) -> bool:
    shorter = min(len(a), len(b))
    return a[:shorter] == b[:shorter]


class Arguments(Types):
    """Everything about parameters."""

    def check_params(self, params: tuple[ast.Parameter, ...]) -> None:
        """Check what holds for the parameters of any action or function by themselves."""
        seen: set[str] = set()
        directionless: str | None = None
        for param in params:
            if param.name in seen:
                self.errors.error(param.loc, f"parameter '{param.name}' is declared twice")
            seen.add(param.name)
            if (
                param.direction
                and isinstance(param.type, ast.BaseType)
                and param.type.kind == "int"
                and param.type.width is None
            ):
                hint = "int is for values known at compile time: leave the direction out, or give it a width"
                self.errors.error(param.loc, f"parameter '{param.name}' of type int has a direction", hint)
            if not param.direction:
                directionless = param.name
            elif directionless is not None:
                hint = "parameters without direction come last: the control plane gives them"
                self.errors.error(param.loc, f"parameter '{param.name}' stands behind '{directionless}'", hint)

    # ---------------------------------------------------------------------------------------------------- matching

    def accepts(self, params: tuple[ast.Parameter, ...], args: tuple[ast.Argument, ...]) -> bool:
        """Whether an argument list fits a parameter list by number and names."""
        names = [a.name for a in args if a.name is not None]
        if names:
            known = {p.name for p in params}
            needed = {p.name for p in params if not self.optional(p)}
            return set(names) <= known and needed <= set(names)
        needed_count = sum(not self.optional(p) for p in params)
        return needed_count <= len(args) <= len(params)

    def optional(self, param: ast.Parameter) -> bool:
        return param.default is not None or any(a.name == "optional" for a in param.annotations)

    def match(
        self, what: str, params: tuple[ast.Parameter, ...], args: tuple[ast.Argument, ...], loc: Loc
    ) -> list[tuple[ast.Parameter, ast.Expr | None, Loc]]:
        """Pair each parameter with its argument's expression (None: left out)."""
        if any(a.name is None for a in args) and any(a.name is not None for a in args):
            self.fail(loc, "arguments with and without names are mixed", "name all arguments or none")
        if args and args[0].name is not None:
            given: dict[str, ast.Argument] = {}
            for arg in args:
                assert arg.name is not None
                if arg.name in given:
                    self.fail(arg.loc, f"argument '{arg.name}' is given twice")
                if all(p.name != arg.name for p in params):
                    hint = did_you_mean(arg.name, [p.name for p in params], "parameters")
                    self.fail(arg.loc, f"{what} has no parameter '{arg.name}'", hint)
                given[arg.name] = arg
        else:
            if len(args) > len(params):
                names = ", ".join(p.name for p in params) or "none"
                self.fail(
                    args[len(params)].loc,
                    f"{what} takes {len(params)} arguments, {len(args)} given",
                    f"parameters: {names}",
                )
            given = {p.name: a for p, a in zip(params, args, strict=False)}
        result: list[tuple[ast.Parameter, ast.Expr | None, Loc]] = []
        for param in params:
            if param.name in given:
                result.append((param, given[param.name].value, given[param.name].loc))
            elif param.default is not None:
                result.append((param, param.default, param.default.loc))
            elif self.optional(param):
                result.append((param, None, loc))
            else:
                self.fail(loc, f"no argument for parameter '{param.name}' of {what}")
        return result

    def evaluate(self, pairs: list[tuple[ast.Parameter, ast.Expr | None, Loc]]) -> list[Passed]:
        """Elaborate arguments from left to right; later side effects do not change earlier values."""
        passed: list[Passed] = []
        for param, node, loc in pairs:
            if node is None:
                passed.append(Passed(param, loc, None))
                continue
            if isinstance(node, ast.AnyExpr):
                if param.direction != "out":
                    self.fail(node.loc, f"'_' for parameter '{param.name}'", "only out parameters can be ignored")
                passed.append(Passed(param, node.loc, None))
                continue
            mark = len(self.out)
            operand = self.expr(node)
            if param.direction in ("out", "inout"):
                operand = self.freeze(self.lvalue_operand(operand, node, param), node.loc)
            if len(self.out) != mark:
                self.save_arguments(passed, mark, node.loc)
            passed.append(Passed(param, ast.start_of(node), operand))
        return passed

    def save_arguments(self, passed: list[Passed], mark: int, loc: Loc) -> None:
        """Fix the values of earlier arguments in front of the statements since `mark` (P4_16 section 6.8, step 4)."""
        earlier = [p for p in passed if p.value is not None and p.param.direction != "out"]
        values = self.keep_order([p.saved or p.value for p in earlier if p.value is not None], mark, loc)
        for entry, value in zip(earlier, values, strict=True):
            if entry.param.direction == "inout":
                entry.saved = value
            else:
                entry.value = value

    def lvalue_operand(self, operand: Operand, node: ast.Expr, param: ast.Parameter) -> Operand:
        if isinstance(operand, UnknownVal | ExternVal):
            return operand
        if not isinstance(operand, Value) or not operand.lvalue:
            reason = operand.readonly if isinstance(operand, Value) else ""
            self.fail(
                node.loc,
                f"argument of {param.direction} parameter '{param.name}' cannot be assigned to",
                reason or "use a variable",
            )
        return operand

    def freeze(self, operand: Operand, loc: Loc) -> Operand:
        """Evaluate the run-time indices of an lvalue once, so that what it denotes does not move."""
        if not isinstance(operand, Value):
            return operand
        expr = self.frozen(operand.expr, loc)
        return operand if expr is operand.expr else Value(operand.type, expr, operand.lvalue, operand.readonly)

    def frozen(self, expr: ir.Expr, loc: Loc) -> ir.Expr:
        if isinstance(expr, ir.Field):
            base = self.frozen(expr.base, loc)
            return expr if base is expr.base else ir.Field(expr.type, base, expr.name)
        if isinstance(expr, ir.Slice):
            base = self.frozen(expr.base, loc)
            return expr if base is expr.base else ir.Slice(expr.type, base, expr.hi, expr.lo)
        if isinstance(expr, ir.Index):
            base = self.frozen(expr.base, loc)
            index = expr.index
            if not isinstance(index, ir.Const):
                kind = index.type
                assert isinstance(kind, ir.Bits)
                copy = self.temp(ty.bits(kind.width, kind.signed))
                self.emit(ir.Assign(loc, copy.expr, index))
                index = copy.expr
            return expr if base is expr.base and index is expr.index else ir.Index(expr.type, base, index)
        return expr

    # --------------------------------------------------------------------------------------------------- inference

    def infer(self, ref: ast.TypeRef, actual: ty.Type, bound: dict[str, ty.Type | None], loc: Loc) -> None:
        """Bind the type parameters in `bound` that `ref` mentions to the parts of `actual`."""
        if actual is ty.UNKNOWN:
            return
        if isinstance(ref, ast.NamedType):
            if ref.args is None and not ref.absolute and ref.name in bound:
                known = bound[ref.name]
                if known is None or known is ty.INT:
                    bound[ref.name] = actual
                elif known is not actual and actual not in (ty.INT, ty.LIST, ty.INVALID):
                    if isinstance(actual, ty.SerEnum) and actual.base is known:
                        return
                    if isinstance(known, ty.SerEnum) and known.base is actual:
                        bound[ref.name] = actual
                        return
                    self.fail(loc, f"{ref.name} would be {known} by one argument and {actual} by another")
            elif ref.args:
                args: tuple[ty.Type, ...] = getattr(actual, "args", ())
                if len(args) == len(ref.args):
                    for sub, arg in zip(ref.args, args, strict=True):
                        self.infer(sub, arg, bound, loc)
        elif isinstance(ref, ast.StackTypeRef) and isinstance(actual, ty.Stack):
            self.infer(ref.element, actual.element, bound, loc)
        elif isinstance(ref, ast.TupleTypeRef) and isinstance(actual, ty.Struct) and actual.kind == "tuple":
            for sub, arg in zip(ref.args, actual.fields.values(), strict=False):
                self.infer(sub, arg, bound, loc)

    def type_of(self, operand: Operand) -> ty.Type:
        """Give the type that an operand has by itself; a list whose items have types is a tuple."""
        if isinstance(operand, ListVal):
            kinds = tuple(self.type_of(i) for i in operand.items)
            return self.tuple_of(kinds) if all(k.is_data for k in kinds) else ty.LIST
        return operand.type

    def type_scope(
        self,
        decl: ast.FunctionDecl | ast.ParserDecl | ast.ControlDecl,
        type_args: tuple[ast.TypeRef, ...] | None,
        passed: list[Passed],
        loc: Loc,
        parent: Scope,
    ) -> Scope:
        """Bind a generic declaration's type parameters, given or inferred from the arguments, in a new scope."""
        if not decl.type_params:
            if type_args:
                self.fail(loc, f"'{decl.name}' takes no type arguments")
            return parent
        scope = Scope(parent)
        bound: dict[str, ty.Type | None] = dict.fromkeys(decl.type_params)
        if type_args is not None:
            if len(type_args) != len(decl.type_params):
                given = len(type_args)
                self.fail(loc, f"'{decl.name}' takes {len(decl.type_params)} type arguments, {given} given")
            for name, ref in zip(decl.type_params, type_args, strict=True):
                kind = self.resolve_type(ref, allow_void=True)
                bound[name] = None if kind is ty.UNKNOWN else kind
        if type_args is None or any(t is None for t in bound.values()):
            explicit = {n: t for n, t in bound.items() if t is not None}
            for entry in passed:
                if entry.value is not None:
                    self.infer(entry.param.type, self.type_of(entry.value), bound, entry.loc)
            bound |= explicit
        for name, found in bound.items():
            scope.names[name] = TypeVal(found if found is not None else ty.UNKNOWN)
        return scope

    # ----------------------------------------------------------------------------------------------------- passing

    def bind(
        self, passed: list[Passed], scope: Scope, names: dict[str, Operand], by_reference: bool
    ) -> list[tuple[Value, Value]]:
        """Give each parameter of an inlined call its operand in `names`; return (argument, copy) pairs to copy out.

        by_reference: the callee reaches its arguments through its parameters only, so that a parameter may stand for
        its argument itself where no other argument overlaps with it. Else, and for what has no fixed place, parameters
        are copies."""
        paths: list[tuple[str | int, ...] | None] = []
        for entry in passed:
            value = entry.value
            paths.append(path_of(value.expr) if isinstance(value, Value) else None)
        writes = [
            p for p, e in zip(paths, passed, strict=True) if p is not None and e.param.direction in ("out", "inout")
        ]
        copies: list[tuple[Value, Value]] = []
        for entry, path in zip(passed, paths, strict=True):
            with self.scoped(scope):
                kind = self.resolve_type(entry.param.type)
            free = (
                by_reference
                and entry.saved is None
                and path is not None
                and sum(overlap(path, w) for w in writes) <= (1 if entry.param.direction in ("out", "inout") else 0)
            )
            names[entry.param.name] = self.pass_one(entry, kind, free, copies)
        return copies

    def pass_one(self, entry: Passed, kind: ty.Type, free: bool, copies: list[tuple[Value, Value]]) -> Operand:
        value, param = entry.value, entry.param
        if isinstance(value, ExternVal | BlockVal):
            if isinstance(kind, ty.Extern | ty.Callable) and kind.decl is not getattr(value.type, "decl", None):
                self.fail(entry.loc, f"parameter '{param.name}' expects {kind}, found {value.what}")
            return value
        if value is not None and (isinstance(value, UnknownVal) or value.type is ty.UNKNOWN):
            return UnknownVal()
        if kind is ty.UNKNOWN and value is not None:
            kind = self.type_of(value)
        if param.direction in ("out", "inout"):
            if value is None:
                if not kind.is_data:
                    return UnknownVal()
                return self.uninitialized(param.name, kind, entry.loc)
            assert isinstance(value, Value)
            if value.type is not kind:
                self.fail(
                    entry.loc,
                    f"{param.direction} parameter '{param.name}' needs a variable of type {kind}, found {value.what}",
                )
            if free:
                if param.direction == "out" and ty.contains_header(kind):
                    self.set_invalid(value, entry.loc)
                return Value(kind, value.expr, True)
            copy = self.local(param.name, kind)
            if param.direction == "inout":
                before = entry.saved if isinstance(entry.saved, Value) else value
                self.emit(ir.Assign(entry.loc, copy.expr, before.expr))
            elif ty.contains_header(kind):
                self.set_invalid(copy, entry.loc)
            copies.append((value, copy))
            return copy
        readonly = f"'{param.name}' is an in parameter: copy it to a variable first"
        if value is None:
            return UnknownVal()
        converted = self.convert(value, kind, entry.loc)
        if isinstance(converted, IntVal) or not converted.type.is_data:
            return converted
        if isinstance(converted, Value) and (free or isinstance(converted.expr, ir.Const)):
            return Value(kind, converted.expr, False, readonly)
        copy = self.local(param.name, kind)
        self.store(copy, converted, entry.loc)
        return Value(kind, copy.expr, False, readonly)

    def uninitialized(self, name: str, kind: ty.Type, loc: Loc) -> Value:
        """Make a local without a value; headers inside are invalid each time its declaration is reached."""
        local = self.local(name, kind)
        if ty.contains_header(kind):
            self.set_invalid(local, loc)
        return local
