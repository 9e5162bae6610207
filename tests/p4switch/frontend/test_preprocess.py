"""Preprocessor: macros, conditionals, includes, and the map back to the source."""

from __future__ import annotations

from pathlib import Path

import pytest

from p4switch.frontend.errors import Failure
from p4switch.frontend.preprocess import Preprocessor
from p4switch.frontend.source import Preprocessed
from p4switch.ir import Loc


def run(tmp_path: Path, text: str, **defines: str) -> Preprocessed:
    path = tmp_path / "main.p4"
    path.write_text(text)
    return Preprocessor([tmp_path / "include"], defines).run(path)


def words(tmp_path: Path, text: str, **defines: str) -> list[str]:
    return run(tmp_path, text, **defines).text.split()


def test_object_and_function_macros(tmp_path: Path) -> None:
    text = "#define N 4\n#define ADD(a, b) ((a) + (b))\n#define TWICE(x) ADD(x, x)\nN ADD(1, (2, 3)) TWICE(N)\n"
    assert words(tmp_path, text) == ["4", "((1)", "+", "((2,", "3)))", "((4)", "+", "(4))"]


def test_macros_are_not_expanded_in_strings_or_in_themselves(tmp_path: Path) -> None:
    assert words(tmp_path, '#define A A + B\n#define B A\n"A" A\n') == ['"A"', "A", "+", "A"]


def test_function_macro_without_arguments_is_a_name(tmp_path: Path) -> None:
    assert words(tmp_path, "#define F(x) [x]\nF F(1) F (2)\n") == ["F", "[1]", "[2]"]


def test_stringize_and_paste(tmp_path: Path) -> None:
    text = "#define S(x) #x\n#define P(a, b) a ## b\nS(a b) P(h, 1)\n"
    assert run(tmp_path, text).text.strip() == '"a b" h1'


def test_invocation_over_several_lines(tmp_path: Path) -> None:
    assert words(tmp_path, "#define F(a, b) a-b\nF(1,\n  2)\nend\n") == ["1-2", "end"]


def test_continuation_and_undef(tmp_path: Path) -> None:
    assert words(tmp_path, "#define A 1 + \\\n  2\nA\n#undef A\nA\n") == ["1", "+", "2", "A"]


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("1", True),
        ("0", False),
        ("A", True),
        ("UNKNOWN", False),
        ("defined(A) && !defined B", True),
        ("A == 3 && (A + 1) * 2 == 8", True),
        ("A > 3 || A >= 3", True),
        ("A << 2 == 12 && 0x10 == 16 && ~0 == -1", True),
        ("A ? 0 : 1", False),
        ("(A & 1) | (4 ^ 4)", True),
        ("7 / 2 == 3 && 7 % 4 == 3", True),
    ],
)
def test_conditions(tmp_path: Path, condition: str, holds: bool) -> None:
    assert words(tmp_path, f"#if {condition}\nyes\n#else\nno\n#endif\n", A="3") == ["yes" if holds else "no"]


def test_elif_takes_the_first_that_holds(tmp_path: Path) -> None:
    text = "#if 0\na\n#elif 1\nb\n#elif 1\nc\n#else\nd\n#endif\n"
    assert words(tmp_path, text) == ["b"]


def test_skipped_branches_are_not_evaluated(tmp_path: Path) -> None:
    text = "#if 0\n#error no\n#include <missing.p4>\n#if 1 / 0\n#endif\n#else\nok\n#endif\n"
    assert words(tmp_path, text) == ["ok"]


def test_include_beside_and_by_path(tmp_path: Path) -> None:
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "far.p4").write_text("far\n")
    (tmp_path / "near.p4").write_text("near\n")
    result = run(tmp_path, '#include "near.p4"\n#include <far.p4>\nmain\n')
    assert result.text.split() == ["near", "far", "main"]
    assert [Path(f).name for f in result.files] == ["main.p4", "near.p4", "far.p4"]


def test_lines_and_columns_lead_back_to_their_files(tmp_path: Path) -> None:
    (tmp_path / "near.p4").write_text("// comment\n  near\n")
    result = run(tmp_path, '/* two\nlines */ #include "near.p4"\n#define N 1234\nx = N + y;\n'.replace(" #", "\n#"))
    lines = result.text.split("\n")
    near = next(i for i, line in enumerate(lines) if "near" in line)
    assert result.loc(near, 2) == Loc(str(tmp_path / "near.p4"), 2, 3)
    use = next(i for i, line in enumerate(lines) if "1234" in line)
    assert lines[use] == "x = 1234 + y;"
    main = str(tmp_path / "main.p4")
    assert [result.loc(use, c).column for c in (0, 4, 6, 9, 11)] == [1, 5, 5, 7, 9]
    assert result.loc(use, 0).file == main
    assert result.sources.line(main, result.loc(use, 0).line) == "x = N + y;"


def test_comments_keep_columns(tmp_path: Path) -> None:
    assert run(tmp_path, "a /* b */ c // d\n").text == "a         c     \n"


def test_a_string_in_an_annotation_may_span_lines_and_hold_slashes(tmp_path: Path) -> None:
    text = '@rule("\n  // kept\n  a; b\n")\nconst bit<8> x = 1; // gone\n'
    assert run(tmp_path, text).text == '@rule("\n  // kept\n  a; b\n")\nconst bit<8> x = 1;        \n'


def test_blanks_in_a_string_over_lines_are_as_cpp_leaves_them(tmp_path: Path) -> None:
    text = '@rule("  a   == \t1;  \n\tb   ==  \\"in  side\\"   ;  \n    \te  /* f  g */  ;\t\n  ")\n'
    seen = '@rule("  a   == \t1;  \n b == \\"in  side\\"   ;  \n     e /* f  g */ ;\n  ")\n'
    assert run(tmp_path, text).text == seen


def test_endless_expansion_is_stopped(tmp_path: Path) -> None:
    layers = "".join(f"#define A{i} A{i + 1} A{i + 1} A{i + 1} A{i + 1}\n" for i in range(20))
    with pytest.raises(Failure, match=r"expands without end|more than"):
        run(tmp_path, layers + "A0\n")


def test_v1model_version_selects_the_interface(tmp_path: Path) -> None:
    new = run(tmp_path, "#define V1MODEL_VERSION 20200408\n#include <v1model.p4>\n").text
    old = run(tmp_path, "#include <v1model.p4>\n").text
    assert "extern register<T, I>" in new
    assert "extern register<T>" in old


def test_programs_for_several_targets_take_bmv2_s_branch(tmp_path: Path) -> None:
    assert words(tmp_path, "#ifdef __TARGET_BMV2__\nbmv2\n#else\nother\n#endif\n") == ["bmv2"]
