"""Bad input gives located errors: never a traceback, never without end (pytest's time-out tells)."""

from __future__ import annotations

from pathlib import Path

import pytest

from p4switch.frontend import CompileError, compile_p4
from tests.p4switch.frontend.programs import source


def compile_text(path: Path, text: str) -> None:
    """Compile; every error must have a place and a text."""
    path.write_text(text)
    try:
        compile_p4(path)
    except CompileError as error:
        assert str(error)
        for diagnostic in error.diagnostics:
            assert diagnostic.message
            assert diagnostic.loc.file
            assert diagnostic.loc.line >= 1
            assert diagnostic.loc.column >= 1


@pytest.mark.parametrize("depth", [100, 1_000, 20_000])
@pytest.mark.parametrize(
    "shape",
    [
        "({})",
        "-{}",
        "~{}",
        "{} + 1",
        "1 + {}",
        "{} ++ 8w1",
        "(bit<8>){}",
        "meta.flag ? {} : 1",
        "f({})",
        "{{ {} }}",
        "{}[7:0]",
    ],
)
def test_deep_expressions(tmp_path: Path, shape: str, depth: int) -> None:
    before, after = shape.format("\0").split("\0")
    text = source(
        declarations="bit<8> f(in bit<8> x) { return x; }", apply=f"meta.m = {before * depth}hdr.h.a{after * depth};"
    )
    compile_text(tmp_path / "deep.p4", text)


@pytest.mark.parametrize("depth", [100, 5_000])
@pytest.mark.parametrize(
    ("before", "inside", "after"),
    [
        ("if (meta.flag) {", "meta.m = 1;", "}"),
        ("if (meta.flag) { meta.m = 1; } else ", "{ }", ""),
        ("{", "meta.m = 1;", "}"),
        ("switch (hdr.h.a) { 1: {", "meta.m = 1;", "} }"),
        ("for (bit<8> i in 8w0..8w1) {", "meta.m = 1;", "}"),
        ("tuple<", "bit<8>", "> x;"),
    ],
)
def test_deep_statements(tmp_path: Path, before: str, inside: str, after: str, depth: int) -> None:
    compile_text(tmp_path / "deep.p4", source(apply=before * depth + inside + after * depth))


@pytest.mark.parametrize(
    "apply",
    [
        "meta.m = (bit<8>)(1 << 1000000000);",
        "meta.m = (bit<8>)((1 << 500000) * (1 << 700000));",
        "bit<1000000000> x = 1;",
        "bit<(1 << 40)> x;",
        "h_t[1000000000] x;",
        "meta.m = 8w" + "9" * 10_000 + ";",
        "meta.m = " + "9" * 10_000 + ";",
        "meta.m = hdr.h.a << 0xFFFFFFFFFFFFFFFFFFFFFFFF;",
    ],
)
def test_huge_numbers(tmp_path: Path, apply: str) -> None:
    compile_text(tmp_path / "huge.p4", source(apply=apply))


def test_calls_that_multiply(tmp_path: Path) -> None:
    """Twenty functions that each call the one before twice would be a million copies of the first."""
    functions = "bit<8> f0(in bit<8> x) { return x + 1; }\n" + "\n".join(
        f"bit<8> f{i}(in bit<8> x) {{ return f{i - 1}(x) + f{i - 1}(x + 1); }}" for i in range(1, 40)
    )
    compile_text(tmp_path / "many.p4", source(declarations=functions, apply="meta.m = f39(hdr.h.a);"))


def test_long_programs(tmp_path: Path) -> None:
    """About 1,500 lines with core.p4 and v1model.p4."""
    tables = "\n".join(
        f"""action set{i}(bit<8> v, bit<9> port) {{
                meta.m = v + hdr.h.a;
                sm.egress_spec = port;
            }}
            table t{i} {{
                key = {{
                    hdr.h.a : exact;
                    hdr.h.b : ternary;
                }}
                actions = {{ set{i}; NoAction; }}
                size = 64;
            }}"""
        for i in range(70)
    )
    apply = "\n".join(
        f"""if (hdr.h.isValid() && hdr.h.b != {i}) {{
                if (t{i}.apply().hit) {{
                    hdr.h.b = (hdr.h.b << 1) ^ (hdr.h.a ++ meta.m);
                }}
            }}"""
        for i in range(70)
    )
    path = tmp_path / "long.p4"
    path.write_text(source(locals=tables, apply=apply))
    assert path.read_text().count("\n") > 1_200
    assert len(compile_p4(path).tables) == 70


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe\x00", b"\x00" * 100, b"#", b"\\", b"/*", b'"', b"@", b"#define", b"#if", b"#if (", b"#include"],
)
def test_odd_files(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "odd.p4"
    path.write_bytes(content)
    with pytest.raises(CompileError) as caught:
        compile_p4(path)
    assert str(caught.value)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="cannot read"):
        compile_p4(tmp_path / "none.p4")


def test_directory_in_place_of_a_file(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="cannot read"):
        compile_p4(tmp_path)
