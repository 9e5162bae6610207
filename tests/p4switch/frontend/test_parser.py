"""Lexer and parser: literals, precedence, generics, and what depends on which names are types."""

from __future__ import annotations

from pathlib import Path

import pytest

from p4switch.frontend import CompileError, ast, dump
from p4switch.frontend.errors import ErrorList, Failure
from p4switch.frontend.lexer import lex, parse_int
from p4switch.frontend.parser import parse
from p4switch.frontend.preprocess import Preprocessor
from p4switch.ir import Loc
from tests.p4switch.frontend.programs import source

HERE = Loc("x.p4", 1, 1)


def program(text: str) -> ast.Program:
    errors = ErrorList()
    tree = parse(lex(Preprocessor().run(Path("x.p4"), text)), errors)
    assert not errors.diagnostics, errors.diagnostics
    return tree


def expression(text: str) -> str:
    """Parse the value of a constant and write it with all parentheses."""
    decl = program(f"enum E {{ A }} typedef bit<8> T; const bit<8> x = {text};").declarations[-1]
    assert isinstance(decl, ast.ConstDecl)
    return shape(decl.value)


def shape(node: ast.Expr) -> str:
    if isinstance(node, ast.IntLit):
        return str(node.value)
    if isinstance(node, ast.Name):
        return node.name
    if isinstance(node, ast.BinaryExpr):
        return f"({shape(node.left)} {node.op} {shape(node.right)})"
    if isinstance(node, ast.UnaryExpr):
        return f"{node.op}{shape(node.operand)}"
    if isinstance(node, ast.MuxExpr):
        return f"({shape(node.condition)} ? {shape(node.then)} : {shape(node.otherwise)})"
    if isinstance(node, ast.CastExpr):
        return f"cast({shape(node.operand)})"
    if isinstance(node, ast.Member):
        return f"{shape(node.base)}.{node.name}"
    if isinstance(node, ast.TypeExpr) and isinstance(node.type, ast.NamedType):
        return node.type.name
    if isinstance(node, ast.CallExpr):
        types = "" if node.type_args is None else f"<{len(node.type_args)}>"
        return f"{shape(node.callee)}{types}({', '.join(shape(a.value) for a in node.args)})"
    if isinstance(node, ast.SliceExpr):
        return f"{shape(node.base)}[{shape(node.hi)}:{shape(node.lo)}]"
    return type(node).__name__


@pytest.mark.parametrize(
    ("text", "value", "width", "signed"),
    [
        ("10", 10, None, False),
        ("0x1_F", 31, None, False),
        ("0b10_10", 10, None, False),
        ("0o17", 15, None, False),
        ("0d19", 19, None, False),
        ("8w0x1F", 31, 8, False),
        ("4s0b0111", 7, 4, True),
        ("16w65_535", 65535, 16, False),
    ],
)
def test_integer_literals(text: str, value: int, width: int | None, signed: bool) -> None:
    assert parse_int(text, HERE) == (value, width, signed)


@pytest.mark.parametrize("text", ["0b", "0x", "8w", "12ab", "0b12", "8w_"])
def test_malformed_literals(text: str) -> None:
    with pytest.raises(Failure):
        parse_int(text, HERE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a + b * c - d", "((a + (b * c)) - d)"),
        ("a & b == c", "((a & b) == c)"),  # unlike C
        ("a | b ^ c & d", "(a | (b ^ (c & d)))"),
        ("a < b == c > d", "((a < b) == (c > d))"),
        ("a || b && c", "(a || (b && c))"),
        ("a << 1 + 2", "(a << (1 + 2))"),
        ("a >> 1 >> 2", "((a >> 1) >> 2)"),
        ("a ++ b |+| c", "((a ++ b) |+| c)"),
        ("-a + ~b", "(-a + ~b)"),
        ("!a && b", "(!a && b)"),
        ("a ? b : c ? d : e", "((a ? b : c) ? d : e)"),
        ("(T)a + b", "(cast(a) + b)"),
        ("(T)(a + b)", "cast((a + b))"),
        ("(a) + b", "(a + b)"),
        ("E.A", "E.A"),
        ("(E.A)", "E.A"),
        ("a[7:4]", "a[7:4]"),
        ("f<T>(a)", "f<1>(a)"),
        ("f<bit<8>, tuple<bit<8>, bit<4>>>(a)", "f<2>(a)"),
        ("a < b", "(a < b)"),
        ("a < (T)b", "(a < cast(b))"),
        ("a.b.c(d).e", "a.b.c(d).e"),
    ],
)
def test_precedence_and_generics(text: str, expected: str) -> None:
    assert expression(text) == expected


def test_nested_type_arguments_close_with_shift_like_brackets() -> None:
    decl = program("extern register<T> { register(bit<32> n); } register<bit<8>>(4) r;").declarations[-1]
    assert isinstance(decl, ast.Instantiation)
    assert isinstance(decl.type, ast.NamedType)
    assert decl.type.args is not None


def test_a_parameter_may_hide_a_type() -> None:
    program("typedef bit<8> t; control c(inout bit<8> t) { apply { t = t + 1; } }")


def test_keywords_that_are_names_elsewhere() -> None:
    program("struct s { bit<8> key; bit<8> type; bit<8> state; bit<8> priority; bit<8> actions; bit<8> entries; }")


def test_annotations_of_all_forms() -> None:
    (decl,) = program(
        '@plain @text("a") @words(a + (b, c) "d") @list[1, "x"] @pairs[k=1] @pragma old way\nconst bit<8> x = 1;'
    ).declarations
    assert [a.name for a in decl.annotations] == ["plain", "text", "words", "list", "pairs", "old"]
    assert [text for _, text in decl.annotations[2].tokens] == ["a", "+", "(", "b", ",", "c", ")", '"d"']
    assert decl.annotations[3].structured


def test_lines_are_counted_behind_a_string_of_several_lines() -> None:
    first, second = program('@rule("\n\n") const bit<8> x = 1;\nconst bit<8> y = 2;').declarations
    assert first.annotations[0].tokens == (("STR", '"\n\n"'),)
    assert (first.loc.line, second.loc.line) == (3, 4)


def test_every_stage_dumps(tmp_path: Path) -> None:
    path = tmp_path / "p.p4"
    path.write_text(source(apply="meta.m = hdr.h.a |+| 8w1;"))
    assert "|+|\t|+|" in dump(path, "tokens")
    assert "BinaryExpr op='|+|'" in dump(path, "ast")
    assert "meta.m = (hdr.h.a |+| 8w0x1);" in dump(path, "ir")
    assert "#include" not in dump(path, "source")


def test_errors_of_several_declarations_are_reported_together(tmp_path: Path) -> None:
    path = tmp_path / "p.p4"
    path.write_text("const bit<8> a = ;\nconst bit<8> b = 1;\nstruct s { bit<8> x }\nconst bit<8> c 5;\n")
    with pytest.raises(CompileError) as caught:
        dump(path, "ast")
    assert [d.loc.line for d in caught.value.diagnostics] == [1, 3, 4]
