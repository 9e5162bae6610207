"""P4 expressions to C expressions.

A C expression for a bit<W> or int<W> always has the bits above W clear. Expressions have no side effects (the front end
hoists calls). Each operand is written once, so that the C grows with the P4 however deeply it nests.
"""

from __future__ import annotations

from collections.abc import Callable

from p4switch import ir
from p4switch.emit.errors import EmitError
from p4switch.emit.layout import (
    Layout,
    bit_width,
    c_name,
    compute_type,
    compute_width,
    is_scalar,
    literal,
    masked,
    member,
    native,
    word_literals,
    words,
)

_COMPARISONS = frozenset(("==", "!=", "<", "<=", ">", ">="))
_WIDE_OPERATORS = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "|+|": "sat_add",
    "|-|": "sat_sub",
}
_WIDE_BITWISE = {"&": "and", "|": "or", "^": "xor"}


class Expressions:
    """Compile expressions inside one C function.

    roots maps the names of Var nodes that are not plain locals (hdr, meta, standard_metadata, parameters) to C text;
    `local` prefixes all others.
    """

    def __init__(self, layout: Layout, roots: dict[str, str], local: str = "L->") -> None:
        self.layout = layout
        self.roots = roots
        self.local = local
        self.loc: ir.Loc | None = None  # of the statement being compiled, for errors
        self._methods: dict[type, Callable[..., str]] = {
            ir.Const: self._const,
            ir.Var: self._var,
            ir.Field: lambda e: f"{self.value(e.base)}.{member(e.base.type, e.name)}",
            ir.Index: lambda e: self._index(e, self.value(e.base), self.layout.zero(e.type)),
            ir.StackNext: self._stack_next,
            ir.StackLast: self._stack_last,
            ir.StackLastIndex: lambda e: f"({self.value(e.base)}.next_ - 1u)",
            ir.IsValid: lambda e: f"{self.value(e.base)}.valid_",
            ir.Slice: self._slice,
            ir.Unary: self._unary,
            ir.Binary: self._binary,
            ir.Mux: lambda e: f"({self.value(e.condition)} ? {self.value(e.then)} : {self.value(e.otherwise)})",
            ir.Cast: self._cast,
            ir.PacketLength: lambda e: "pkt->len",
        }

    def value(self, e: ir.Expr) -> str:
        """C text of an expression's value."""
        method = self._methods.get(type(e))
        if method is None:
            raise EmitError(self.loc, f"the C emitter does not know the expression {type(e).__name__}")
        return method(e)

    def place(self, e: ir.Expr) -> str:
        """C text of an expression that can be assigned to (not a slice)."""
        match e:
            case ir.Field():
                return f"{self.place(e.base)}.{member(e.base.type, e.name)}"
            case ir.Index():
                return self._index(e, self.place(e.base), self.layout.scratch(e.type))
            case ir.Var() | ir.StackNext() | ir.StackLast():
                return self.value(e)
        raise EmitError(self.loc, f"a {type(e).__name__} cannot be assigned to")

    def native_value(self, e: ir.Expr) -> str:
        """C text of a value of at most 128 bits, in a type that C does not promote to int."""
        return self._promoted(self.value(e), e.type)

    @staticmethod
    def _promoted(text: str, t: ir.Type) -> str:
        width = bit_width(t)
        return f"({compute_type(width)}){text}" if width <= 16 or isinstance(t, ir.Bool) else text

    def word_list(self, e: ir.Expr) -> tuple[str, int]:
        """C text of a pointer to a value's words, and their number."""
        width = bit_width(e.type)
        if isinstance(e, ir.Const):
            return f"(const uint64_t[]){{{', '.join(word_literals(e.value, width))}}}", words(width)
        return self._words_of(self.value(e), width)

    def words_of(self, text: str, width: int) -> str:
        """C text of a pointer to the words of the value of `width` bits whose C text is `text`."""
        return self._words_of(text, width)[0]

    @staticmethod
    def _words_of(text: str, width: int) -> tuple[str, int]:
        if not native(width):
            return f"({text}).w", words(width)
        if width <= 64:
            return f"(const uint64_t[]){{{text}}}", 1
        return f"p4_split({text}).w", 2

    def amount(self, e: ir.Expr) -> str:
        """C text of type uint64_t of an index or a shift distance; what is beyond 64 bits gives a huge number."""
        width = bit_width(e.type)
        text = self.value(e)
        if width <= 64:
            return text
        return f"p4_amount128({text})" if native(width) else f"p4_w{words(width)}_amount({text})"

    def from_words(self, t: ir.Type, pointer: str, at: int) -> str:
        """C text of the value of type `t` that stands in words from pointer[at] on."""
        width = bit_width(t)
        c_type = self.layout.c_type(t)
        if width <= 64:
            return f"({c_type}){pointer}[{at}]"
        if native(width):
            return f"P4_U128({pointer}[{at + 1}], {pointer}[{at}])"
        return f"{c_type}_from({pointer} + {at}, {words(width)}, {width})"

    def to_words(self, e: ir.Expr, array: str, at: int) -> list[str]:
        """C statements that put a value into words from array[at] on."""
        return self.text_to_words(self.value(e), bit_width(e.type), array, at)

    @staticmethod
    def text_to_words(text: str, width: int, array: str, at: int) -> list[str]:
        if width <= 64:
            return [f"{array}[{at}] = {text};"]
        if native(width):
            return [f"{array}[{at}] = (uint64_t)({text});", f"{array}[{at + 1}] = (uint64_t)(({text}) >> 64);"]
        return [f"memcpy({array} + {at}, ({text}).w, {8 * words(width)});"]

    def assign_slice(self, target: ir.Slice, value: str) -> str:
        """C statement that puts `value` (C text, of the slice's width) into a slice."""
        base: ir.Expr = target
        lo = 0
        while isinstance(base, ir.Slice):
            lo += base.lo
            base = base.base
        width, size = bit_width(base.type), bit_width(target.type)
        place = self.place(base)
        if not native(width):
            source, count = self._words_of(value, size)
            return f"p4_words_insert({place}.w, {lo}, {size}, {source}, {count});"
        hole = (2**width - 1) ^ ((2**size - 1) << lo)
        c_type, storage = compute_type(width), self.layout.c_type(base.type)
        return f"{place} = ({storage})((({c_type}){place} & {literal(hole, width)}) | (({c_type})({value}) << {lo}));"

    # ------------------------------------------------------------------------------------------------------- leaves

    def _const(self, e: ir.Const) -> str:
        if isinstance(e.type, ir.Bool):
            return "true" if e.value else "false"
        if isinstance(e.type, ir.Bits):
            self.layout.c_type(e.type)
        return literal(e.value, bit_width(e.type))

    def _var(self, e: ir.Var) -> str:
        return self.roots.get(e.name) or f"{self.local}{c_name(e.name)}"

    def _index(self, e: ir.Index, base: str, beyond: str) -> str:
        stack = e.base.type
        assert isinstance(stack, ir.StackType)
        if isinstance(e.index, ir.Const):
            return f"{base}.at[{e.index.value}]" if e.index.value < stack.size else beyond
        index = self.amount(e.index)
        return f"(*P4_AT({base}, {stack.size}, {index}, {beyond}))"

    def _stack_next(self, e: ir.StackNext) -> str:
        base = self.value(e.base)
        return f"{base}.at[{base}.next_]"

    def _stack_last(self, e: ir.StackLast) -> str:
        base = self.value(e.base)
        return f"{base}.at[{base}.next_ - 1]"

    # ---------------------------------------------------------------------------------------------------- operators

    def _slice(self, e: ir.Slice) -> str:
        width, size = bit_width(e.base.type), e.hi - e.lo + 1
        base = self.value(e.base)
        if not native(width):
            return self._cut_words(f"({base}).w", words(width), e.lo, size)
        shifted = f"(({compute_type(width)}){base} >> {e.lo})" if e.lo else f"({base})"
        return masked(f"({compute_type(size)}){shifted}", size)

    def _cut_words(self, pointer: str, count: int, lo: int, size: int) -> str:
        if size <= 64:
            return masked(f"({compute_type(size)})p4_words_at({pointer}, {count}, {lo})", size)
        if native(size):
            return masked(f"p4_words_at128({pointer}, {count}, {lo})", size)
        return f"{self.layout.wide(size)}_slice({pointer}, {count}, {lo}, {size})"

    def _unary(self, e: ir.Unary) -> str:
        operand = self.value(e.operand)
        if e.op == "!":
            return f"!({operand})"
        width = bit_width(e.type)
        if not native(width):
            return f"p4_w{words(width)}_{'not' if e.op == '~' else 'neg'}({operand}, {width})"
        operand = self._promoted(operand, e.operand.type)
        return masked(f"(~({operand}))" if e.op == "~" else f"(0u - ({operand}))", width)

    def _binary(self, e: ir.Binary) -> str:
        op = e.op
        if op in ("&&", "||"):
            return f"({self.value(e.left)} {op} {self.value(e.right)})"
        if isinstance(e.left.type, ir.Varbits) and op in ("==", "!="):
            sides = ", ".join(f"({x}).data, ({x}).bits" for x in (self.value(e.left), self.value(e.right)))
            return f"{'' if op == '==' else '!'}p4_equal_bits({sides})"
        if not is_scalar(e.left.type):
            raise EmitError(self.loc, f"operator {op} is not defined on {type(e.left.type).__name__}")
        if op in _COMPARISONS:
            return self._compare(e)
        if op == "++":
            return self._concat(e)
        if isinstance(e.type, ir.Bool) and op in ("&", "|", "^"):
            return f"(({self.value(e.left)}) {op} ({self.value(e.right)}))"
        if not isinstance(e.type, ir.Bits):
            raise EmitError(self.loc, f"operator {op} is not defined on {type(e.type).__name__}")
        if op in ("<<", ">>"):
            return self._shift(e, e.type)
        if not native(e.type.width):
            return self._wide_binary(e, e.type)
        return self._native_binary(e, e.type)

    def _native_binary(self, e: ir.Binary, t: ir.Bits) -> str:
        left, right, width = self.native_value(e.left), self.native_value(e.right), t.width
        match e.op:
            case "+" | "-" | "*":
                return masked(f"({left} {e.op} {right})", width)
            case "&" | "|" | "^":
                return f"({left} {e.op} {right})"
            case "/" | "%":
                if t.signed:
                    raise EmitError(
                        self.loc, f"{e.op} is not defined on int<{width}>", "P4 divides unsigned values only"
                    )
                if isinstance(e.right, ir.Const) and e.right.value:
                    return f"({left} {e.op} {right})"
                return f"p4_{'div' if e.op == '/' else 'mod'}{compute_width(width)}({left}, {right})"
            case "|+|" | "|-|" if t.signed:
                function = "p4_sat_adds" if e.op == "|+|" else "p4_sat_subs"
                return masked(f"({compute_type(width)}){function}({left}, {right}, {width})", width)
            case "|+|":
                size = 64 if width <= 64 else 128
                return f"({compute_type(width)})p4_sat_add{size}({left}, {right}, {literal(2**width - 1, width)})"
            case "|-|":
                return f"({compute_type(width)})p4_sat_sub{64 if width <= 64 else 128}({left}, {right})"
        raise EmitError(self.loc, f"the C emitter does not know the operator {e.op}")

    def _wide_binary(self, e: ir.Binary, t: ir.Bits) -> str:
        left, right, c_type = self.value(e.left), self.value(e.right), self.layout.wide(t.width)
        if e.op in _WIDE_BITWISE:
            return f"{c_type}_{_WIDE_BITWISE[e.op]}({left}, {right})"
        if e.op in _WIDE_OPERATORS:
            suffix = "s" if t.signed and e.op.startswith("|") else ""
            return f"{c_type}_{_WIDE_OPERATORS[e.op]}{suffix}({left}, {right}, {t.width})"
        if e.op in ("/", "%") and not t.signed:
            return f"{c_type}_divmod({left}, {right}, {t.width}, {'true' if e.op == '%' else 'false'})"
        raise EmitError(self.loc, f"{e.op} is not defined on {'int' if t.signed else 'bit'}<{t.width}>")

    def _shift(self, e: ir.Binary, t: ir.Bits) -> str:
        width, left = t.width, e.op == "<<"
        distance = self.amount(e.right)
        if not native(width):
            function = "shl" if left else "sar" if t.signed else "shr"
            return f"{self.layout.wide(width)}_{function}({self.value(e.left)}, {distance}, {width})"
        operand, c_type, size = self.native_value(e.left), compute_type(width), compute_width(width)
        if not left and t.signed:
            return masked(f"({c_type})p4_sar{max(size, 64)}({operand}, {distance}, {width})", width)
        if isinstance(e.right, ir.Const):
            if e.right.value >= width:
                return literal(0, width)
            shifted = f"({operand} {e.op} {e.right.value})"
        else:
            shifted = f"p4_{'shl' if left else 'shr'}{size}({operand}, {distance})"
        return masked(shifted, width) if left else shifted

    def _compare(self, e: ir.Binary) -> str:
        t = e.left.type
        left, right, width = self.value(e.left), self.value(e.right), bit_width(t)
        signed = isinstance(t, ir.Bits) and t.signed and e.op not in ("==", "!=")
        if not native(width):
            c_type = self.layout.wide(width)
            compared = f"{c_type}_cmps({left}, {right}, {width})" if signed else f"{c_type}_cmp({left}, {right})"
            return f"({compared} {e.op} 0)"
        if signed:
            function = "p4_signed64" if width <= 64 else "p4_signed128"
            return f"({function}({left}, {width}) {e.op} {function}({right}, {width}))"
        return f"({left} {e.op} {right})"

    def _concat(self, e: ir.Binary) -> str:
        width, low = bit_width(e.type), bit_width(e.right.type)
        if native(width):
            c_type = compute_type(width)
            high = f"({c_type}){self.value(e.left)}"
            return (
                f"(({high} << {low}) | ({c_type}){self.value(e.right)})" if low < width else f"({self.value(e.right)})"
            )
        left, left_words = self.word_list(e.left)
        right, right_words = self.word_list(e.right)
        return (
            f"{self.layout.wide(width)}_concat({left}, {left_words}, {bit_width(e.left.type)}, "
            f"{right}, {right_words}, {low})"
        )

    def _cast(self, e: ir.Cast) -> str:
        source, target = e.operand.type, e.type
        operand = self.value(e.operand)
        if isinstance(target, ir.Bool):
            return operand if isinstance(source, ir.Bool) else f"({operand} != 0)"
        if not (is_scalar(source) and is_scalar(target)):
            if source == target:
                return operand
            raise EmitError(self.loc, f"no cast from {type(source).__name__} to {type(target).__name__}")
        have, want = bit_width(source), bit_width(target)
        extends = isinstance(source, ir.Bits) and source.signed and want > have
        if not native(want):
            c_type = self.layout.wide(want)
            pointer, count = self._words_of(operand, have)
            if extends:
                return f"{c_type}_sext({pointer}, {count}, {have}, {want})"
            return f"{c_type}_from({pointer}, {count}, {want})"
        if not native(have):
            return self._cut_words(f"({operand}).w", words(have), 0, want)
        c_type = compute_type(want)
        if extends:
            function = "p4_signed64" if want <= 64 else "p4_signed128"
            return masked(f"({c_type}){function}({operand}, {have})", want)
        return masked(f"({c_type})({operand})", want) if want < have else f"(({c_type})({operand}))"
