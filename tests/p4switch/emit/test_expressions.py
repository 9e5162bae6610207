"""Generated C against a reference evaluator in Python: random operators at random widths, word arrays included."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from p4switch import ir
from p4switch.emit.expressions import Expressions
from p4switch.emit.layout import Layout, bit_width, word_literals, words
from p4switch.emit.packing import Item, Slot, pack, unpack

RUNTIME = Path(__file__).parents[3] / "p4switch" / "runtime"
WIDTHS = (1, 3, 7, 8, 9, 16, 17, 31, 32, 33, 48, 63, 64, 65, 100, 127, 128, 129, 191, 192, 193, 256, 300)


def signed(value: int, width: int) -> int:
    return value - (1 << width) if value >> (width - 1) else value


def clamp(value: int, t: ir.Bits) -> int:
    low, high = (-(1 << (t.width - 1)), (1 << (t.width - 1)) - 1) if t.signed else (0, (1 << t.width) - 1)
    return max(low, min(high, value))


def evaluate(e: ir.Expr) -> int:
    """Compute the pattern of an expression, with P4's definitions and none of the emitter's code."""
    width = bit_width(e.type)
    mask = (1 << width) - 1

    def number(operand: ir.Expr) -> int:
        t = operand.type
        value = evaluate(operand)
        return signed(value, t.width) if isinstance(t, ir.Bits) and t.signed else value

    match e:
        case ir.Const():
            return e.value
        case ir.Slice():
            return evaluate(e.base) >> e.lo & mask
        case ir.Unary():
            value = evaluate(e.operand)
            return {"~": ~value, "-": -value, "!": 1 - value}[e.op] & mask
        case ir.Mux():
            return evaluate(e.then) if evaluate(e.condition) else evaluate(e.otherwise)
        case ir.Cast():
            return (int(evaluate(e.operand) != 0) if isinstance(e.type, ir.Bool) else number(e.operand)) & mask
        case ir.Binary():
            a, b = number(e.left), number(e.right)
            t = e.left.type
            match e.op:
                case "<<":
                    return (a << min(b, 1000)) & mask
                case ">>":
                    return (a >> min(b, 1000)) & mask
                case "++":
                    return evaluate(e.left) << bit_width(e.right.type) | evaluate(e.right)
                case "|+|" | "|-|":
                    assert isinstance(t, ir.Bits)
                    return clamp(a + b if e.op == "|+|" else a - b, t) & mask
                case "/" | "%":
                    return 0 if b == 0 else a // b if e.op == "/" else a % b
                case "+" | "-" | "*" | "&" | "|" | "^":
                    return eval(f"a {e.op} b", {"a": a, "b": b}) & mask
                case _:
                    return int(eval(f"a {e.op} b", {"a": a, "b": b}))
    raise AssertionError(e)


class Maker:
    """Random typed expressions."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def constant(self, t: ir.Type) -> ir.Const:
        width = bit_width(t)
        corner = self.random.choice((0, 1, (1 << width) - 1, 1 << (width - 1), (1 << (width - 1)) - 1))
        value = corner if self.random.random() < 0.4 else self.random.getrandbits(width)
        return ir.Const(t, value & ((1 << width) - 1))

    def make(self, t: ir.Type, depth: int) -> ir.Expr:
        r = self.random
        if depth == 0:
            return self.constant(t)
        if isinstance(t, ir.Bool):
            operand = ir.Bits(r.choice(WIDTHS), r.random() < 0.5)
            op = r.choice(("==", "!=", "<", "<=", ">", ">="))
            return ir.Binary(t, op, self.make(operand, depth - 1), self.make(operand, depth - 1))
        assert isinstance(t, ir.Bits)
        kind = r.choice(("arith", "arith", "bitwise", "shift", "sat", "cast", "slice", "concat", "unary", "mux", "div"))
        unsigned = not t.signed
        if kind == "div" and unsigned:
            return ir.Binary(t, r.choice(("/", "%")), self.make(t, depth - 1), self.make(t, depth - 1))
        if kind == "shift":
            amount = ir.Bits(r.choice((3, 8, 9, 70, 140)))
            distance = min(r.randrange(2 * t.width), (1 << amount.width) - 1)
            by: ir.Expr = ir.Const(amount, distance)
            if r.random() < 0.5:
                by = ir.Cast(amount, ir.Const(ir.Bits(256), distance))  # not a constant to the emitter
            return ir.Binary(t, r.choice(("<<", ">>")), self.make(t, depth - 1), by)
        if kind == "cast":
            return ir.Cast(t, self.make(ir.Bits(r.choice(WIDTHS), r.random() < 0.5), depth - 1))
        if kind == "slice" and unsigned:
            base = ir.Bits(t.width + r.randrange(150))
            lo = r.randrange(base.width - t.width + 1)
            return ir.Slice(t, self.make(base, depth - 1), lo + t.width - 1, lo)
        if kind == "concat" and unsigned and t.width > 1:
            low = r.randrange(1, t.width)
            return ir.Binary(t, "++", self.make(ir.Bits(t.width - low), depth - 1), self.make(ir.Bits(low), depth - 1))
        if kind == "unary":
            return ir.Unary(t, r.choice("~-"), self.make(t, depth - 1))
        if kind == "mux":
            return ir.Mux(t, self.make(ir.Bool(), depth - 1), self.make(t, depth - 1), self.make(t, depth - 1))
        ops = {"bitwise": "& | ^", "sat": "|+| |-|"}.get(kind, "+ - *").split()
        return ir.Binary(t, r.choice(ops), self.make(t, depth - 1), self.make(t, depth - 1))


def run_c(tmp_path: Path, layout: Layout, body: list[str]) -> str:
    """Compile and run a main() of these lines; give what it prints."""
    source = tmp_path / "t.c"
    source.write_text(
        '#include <stdio.h>\n#include "p4rt_values.h"\n'
        + layout.declarations()
        + "\nstatic void show(const uint64_t *w, int n) {\n"
        + 'while (n-- > 0) printf("%016llx", (unsigned long long)w[n]);\nputs("");\n}\n'
        + "int main(void) {\n"
        + "\n".join(body)
        + "\nreturn 0;\n}\n"
    )
    subprocess.run(
        ["cc", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-Wno-unused-variable", "-Wno-type-limits",
         "-fsanitize=undefined", "-fno-sanitize-recover", f"-I{RUNTIME}", source, "-o", tmp_path / "t"],
        check=True,
    )  # fmt: skip
    return subprocess.run([tmp_path / "t"], check=True, capture_output=True, text=True, timeout=60).stdout


@pytest.mark.parametrize("seed", range(3))
def test_random_expressions(tmp_path: Path, seed: int) -> None:
    maker = Maker(seed)
    expressions = []
    for _ in range(150):
        t: ir.Type = ir.Bits(maker.random.choice(WIDTHS), maker.random.random() < 0.4)
        if maker.random.random() < 0.2:
            t = ir.Bool()
        expressions.append(maker.make(t, maker.random.choice((1, 1, 2, 3))))
    layout = Layout()
    compiler = Expressions(layout, {})
    body = []
    for e in expressions:
        width = bit_width(e.type)
        stores = compiler.to_words(e, "w", 0)
        body.append(f"{{ uint64_t w[{words(width)}]; {' '.join(stores)} show(w, {words(width)}); }}")
    printed = run_c(tmp_path, layout, body).split()
    for e, text in zip(expressions, printed, strict=True):
        assert int(text, 16) == evaluate(e), e


def test_pack_and_unpack_agree_with_big_integers(tmp_path: Path) -> None:
    r = random.Random(7)
    layout = Layout()
    compiler = Expressions(layout, {})
    body: list[str] = []
    expected: list[int] = []
    for _ in range(40):
        widths = [r.choice((1, 2, 3, 4, 8, 12, 16, 20, 48, 64, 65, 100, 128, 192)) for _ in range(r.randrange(1, 9))]
        values = [r.getrandbits(w) for w in widths]
        size = (sum(widths) + 7) // 8
        stream = 0
        for value, width in zip(values, widths, strict=True):
            stream = stream << width | value
        stream <<= size * 8 - sum(widths)
        items = [Item(compiler.value(ir.Const(ir.Bits(w), v)), w) for v, w in zip(values, widths, strict=True)]
        body.append(f"{{ uint8_t b[{size}]; {' '.join(pack(items, 'b'))}")
        body.append(f'for (int i = 0; i < {size}; i++) {{ printf("%02x", b[i]); }} puts("");')
        expected.append(stream)
        names = [f"v{i}" for i in range(len(widths))]
        body += [f"{layout.c_type(ir.Bits(w))} {n};" for n, w in zip(names, widths, strict=True)]
        body += unpack([Slot(n, w) for n, w in zip(names, widths, strict=True)], "b", "run")
        for name, value, width in zip(names, values, widths, strict=True):
            stores = Expressions.text_to_words(name, width, "w", 0)
            body.append(f"{{ uint64_t w[{words(width)}]; {' '.join(stores)} show(w, {words(width)}); }}")
            expected.append(value)
        body.append("}")
    assert [int(x, 16) for x in run_c(tmp_path, layout, body).split()] == expected


def test_slices_as_targets(tmp_path: Path) -> None:
    r = random.Random(11)
    layout = Layout()
    compiler = Expressions(layout, {}, local="")
    body, expected = [], []
    for width in (8, 20, 33, 64, 100, 128, 192, 300):
        for _ in range(4):
            lo = r.randrange(width)
            hi = r.randrange(lo, width)
            old, new = r.getrandbits(width), r.getrandbits(hi - lo + 1)
            var = ir.Var(ir.Bits(width), "x")
            value = compiler.value(ir.Const(ir.Bits(hi - lo + 1), new))
            body.append(f"{{ {layout.c_type(var.type)} x = {compiler.value(ir.Const(var.type, old))};")
            body.append(compiler.assign_slice(ir.Slice(ir.Bits(hi - lo + 1), var, hi, lo), value))
            stores = compiler.to_words(var, "w", 0)
            body.append(f"uint64_t w[{words(width)}]; {' '.join(stores)} show(w, {words(width)}); }}")
            hole = ((1 << (hi - lo + 1)) - 1) << lo
            expected.append(old & ~hole | new << lo)
    assert [int(x, 16) for x in run_c(tmp_path, layout, body).split()] == expected


def test_decimal_digits_of_wide_values(tmp_path: Path) -> None:
    values = [0, 7, 10**19, 2**64, 2**192 - 1]
    body = []
    for value in values:
        literals = ", ".join(word_literals(value, 192))
        body.append(f"{{ const uint64_t w[] = {{{literals}}}; char t[80]; t[p4_put_decimal(t, w, 3)] = 0; puts(t); }}")
    assert run_c(tmp_path, Layout(), body).split() == [str(v) for v in values]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("op", ["+", "/", "|+|", ">>", "++", "~", "cast", "slice", "mux", "<"])
def test_text_grows_with_the_depth_of_an_expression(op: str) -> None:
    """Written once per operand: twice would be two to the power of the depth."""
    width = 100 if op in ("cast", "slice", "++") else 32
    t = ir.Bits(width)
    sizes = []
    for depth in (20, 40):
        e: ir.Expr = ir.Var(t, "x")
        for _ in range(depth):
            match op:
                case "~":
                    e = ir.Unary(t, "~", e)
                case "cast":
                    e = ir.Cast(t, ir.Cast(ir.Bits(200), e))
                case "slice":
                    e = ir.Slice(t, ir.Binary(ir.Bits(200), "++", e, ir.Var(t, "y")), 149, 50)
                case "++":
                    e = ir.Slice(t, ir.Binary(ir.Bits(200), "++", ir.Var(t, "y"), e), 99, 0)
                case "mux":
                    condition = ir.Binary(ir.Bool(), "==", ir.Var(t, "y"), ir.Var(t, "z"))
                    e = ir.Mux(t, condition, e, ir.Var(t, "y"))
                case "<":
                    e = ir.Cast(t, ir.Cast(ir.Bits(1), ir.Binary(ir.Bool(), "<", ir.Var(t, "y"), e)))
                case _:
                    e = ir.Binary(t, op, ir.Var(t, "y"), e)
        sizes.append(len(Expressions(Layout(), {}).value(e)))
    assert sizes[1] < 3 * sizes[0]
