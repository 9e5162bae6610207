"""What every part of the emitter shares: the program's objects by name, and the C function being written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields

from p4switch import ir
from p4switch.emit.errors import EmitError
from p4switch.emit.expressions import Expressions
from p4switch.emit.layout import Layout, bit_width, c_name, words
from p4switch.emit.writer import Writer

BLOCKS = ("parser", "verify", "ingress", "egress", "compute", "deparser")


@dataclass(frozen=True)
class WordField:
    """A value inside a word array: its first word."""

    name: str
    width: int
    word: int


def word_fields(items: Iterable[tuple[str, int]]) -> tuple[list[WordField], int]:
    """Lay out (name, width) one after the other, each from a word of its own; also give the total in words."""
    result, at = [], 0
    for name, width in items:
        result.append(WordField(name, width, at))
        at += max(words(width), 1)
    return result, at


class Unit:
    """The program with its objects indexed as the descriptors of the C file index them."""

    def __init__(self, program: ir.Program) -> None:
        self.program = program
        self.layout = Layout()
        self.actions = {a.ir_name: a for a in program.actions}
        self.action_index = {a.ir_name: i for i, a in enumerate(program.actions)}
        self.tables = {t.ir_name: t for t in program.tables}
        self.table_index = {t.ir_name: i for i, t in enumerate(program.tables)}
        self.registers = {r.ir_name: r for r in program.registers}
        self.register_index = {r.ir_name: i for i, r in enumerate(program.registers)}
        self.counter_index = {c.ir_name: i for i, c in enumerate(program.counters)}
        self.meter_index = {m.ir_name: i for i, m in enumerate(program.meters)}
        self.profile_index = {p.ir_name: i for i, p in enumerate(program.action_profiles)}
        self.digests = {d.ir_name: d for d in program.digests}
        self.digest_index = {d.ir_name: i for i, d in enumerate(program.digests)}
        self.value_sets = {v.ir_name: v for v in program.value_sets}
        self.value_set_index = {v.ir_name: i for i, v in enumerate(program.value_sets)}
        self.result_names = result_names(program)

    def locals_of(self, block: str) -> tuple[ir.Local, ...]:
        """Give the locals of a block; top-level actions (block '') have none."""
        return getattr(self.program, block).locals if block else ()

    def error_index(self, name: str) -> int:
        """Give the index of an error of core.p4."""
        return self.program.errors.index(name)

    def action_exits(self, action: ir.Action) -> bool:
        """Tell whether running the action may end the block."""
        return any(isinstance(s, ir.Exit) for s in all_statements(action.body))

    def param_fields(self, action: ir.Action) -> tuple[list[WordField], int]:
        return word_fields((p.name, p.type.width) for p in action.params)

    def key_fields(self, table: ir.Table) -> tuple[list[WordField], int]:
        return word_fields((k.name, k.width) for k in table.keys)

    def digest_fields(self, digest: ir.Digest) -> tuple[list[WordField], int]:
        return word_fields((name, bit_width(t)) for name, t in digest.fields)


class Function:
    """One C function being written: where its lines go and how its expressions are compiled.

    block is one of BLOCKS ('' for top-level actions); end is the label at the end of the function's body.
    """

    def __init__(self, unit: Unit, block: str, out: Writer, action: ir.Action | None = None) -> None:
        self.unit = unit
        self.block = block
        self.out = out
        roots = {"hdr": "phv->hdr", "meta": "phv->meta", "standard_metadata": "pkt->std"}
        if action is not None:  # its parameters and its own locals are C variables
            roots |= {p.variable: f"a_{c_name(p.variable)}" for p in action.params}
            roots |= {v.name: f"v_{c_name(v.name)}" for v in action.locals}
        self.expressions = Expressions(unit.layout, roots)
        self.labels: dict[str, list[str]] = {}  # open scopes: the C labels of a Scope label, innermost last
        self.exit_statement = "goto end;"
        self._fresh = 0

    def fresh(self, prefix: str) -> str:
        """Make a name that is new in this function."""
        self._fresh += 1
        return f"{prefix}_{self._fresh}"

    def at(self, loc: ir.Loc) -> None:
        """Note the statement being compiled."""
        self.expressions.loc = loc

    def error(self, message: str, hint: str = "") -> EmitError:
        return EmitError(self.expressions.loc, message, hint)

    def value(self, e: ir.Expr) -> str:
        return self.expressions.value(e)

    def place(self, e: ir.Expr) -> str:
        return self.expressions.place(e)

    def assign(self, target: ir.Expr, text: str) -> None:
        """Write target = text, where text is C text of target's type."""
        if isinstance(target, ir.Slice):
            self.out.line(self.expressions.assign_slice(target, text))
        else:
            self.out.line(f"{self.place(target)} = {text};")


def all_statements(body: Iterable[ir.Stmt]) -> Iterator[ir.Stmt]:
    """Walk statements and those inside them."""
    for statement in body:
        yield statement
        match statement:
            case ir.If():
                yield from all_statements(statement.then)
                yield from all_statements(statement.otherwise)
            case ir.Switch():
                for case in statement.cases:
                    yield from all_statements(case.body)
            case ir.Scope() | ir.Loop():
                yield from all_statements(statement.body)
            case ir.ApplyTable():
                yield from all_statements(statement.on_exit)


def result_names(program: ir.Program) -> dict[str, str]:
    """Give what traces call the locals that hold results of tables."""
    names: dict[str, str] = {}
    of = {table.ir_name: table.identity.name for table in program.tables}
    for block in (program.verify, program.ingress, program.egress, program.compute):
        for s in all_statements(block.body):
            if isinstance(s, ir.ApplyTable):
                if s.hit is not None:
                    names[s.hit.name] = f"{of[s.table]}.hit"
                if s.action is not None:
                    names[s.action.name] = f"{of[s.table]}.action_run"
    return names


def all_expressions(node: object) -> Iterator[ir.Expr]:
    """Walk the expressions of a statement, an expression or a tuple of such, without those of nested statements."""
    if isinstance(node, ir.Expr):
        yield node
    if isinstance(node, ir.Expr | ir.Stmt | ir.FieldList | ir.Transition):
        for part in fields(node):
            value = getattr(node, part.name)
            if not isinstance(value, ir.Type | ir.Loc | str | int):
                yield from all_expressions(value)
    elif isinstance(node, tuple):
        for item in node:
            if isinstance(item, ir.Expr | ir.FieldList | tuple):
                yield from all_expressions(item)
