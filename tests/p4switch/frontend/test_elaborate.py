"""What elaboration makes of a program: inlining, evaluation order, copy-in and copy-out, folding, as printed IR."""

from __future__ import annotations

from pathlib import Path

import pytest

from p4switch import ir
from p4switch.frontend import CompileError, compile_p4
from p4switch.frontend.preprocess import INCLUDE_DIR
from p4switch.ir_text import expr_text, print_ir
from tests.p4switch.frontend.programs import compiled, source


def ingress(program: ir.Program) -> list[str]:
    """Give the lines of the ingress block, without indentation, notes on calls and declarations of locals."""
    text = print_ir(program)
    body = text[text.index("\ningress ") :].split("\n}")[0].splitlines()[2:]
    names = {item.name for item in program.ingress.locals}
    body = [line for line in body if not line.lstrip().startswith("//")]
    return [line.strip() for line in body if line.strip(" ;").split(" ")[-1] not in names or "=" in line]


def test_constants_fold(tmp_path: Path) -> None:
    program = compiled(
        tmp_path,
        declarations="const bit<8> A = 3; const int N = 2 * 5 - 1;"
        "const bit<16> B = (A ++ 8w1 == 16w0x301) ? 16w7 : 16w9;",
        apply="meta.w = B + N; meta.m = 8w250 |+| 8w10; meta.s = 8s127 + 1; meta.flag = N < 10 && A != 4;",
    )
    assert ingress(program) == [
        "meta.w = 16w0x10;",
        "meta.m = 8w0xff;",
        "meta.s = 8s0x80;",
        "meta.flag = true;",
    ]


def test_constant_conditions_leave_one_branch(tmp_path: Path) -> None:
    program = compiled(tmp_path, apply="if (1 == 2) { meta.m = 1; } else { meta.m = 2; }")
    assert ingress(program) == ["meta.m = 8w0x2;"]


def test_function_is_inlined_with_its_result(tmp_path: Path) -> None:
    program = compiled(
        tmp_path,
        declarations="bit<8> twice(in bit<8> x) { return x + x; }",
        apply="meta.m = twice(hdr.h.a) + 1;",
    )
    assert ingress(program) == [
        "twice_result = (hdr.h.a + hdr.h.a);",
        "meta.m = (twice_result + 8w0x1);",
    ]


def test_early_return_leaves_a_scope(tmp_path: Path) -> None:
    program = compiled(
        tmp_path,
        declarations="bit<8> f(in bit<8> x) { if (x == 0) { return 1; } return x; }",
        apply="meta.m = f(hdr.h.a);",
    )
    assert ingress(program) == [
        "scope f_end {",
        "if ((hdr.h.a == 8w0x0)) {",
        "f_result = 8w0x1;",
        "leave f_end;",
        "}",
        "f_result = hdr.h.a;",
        "}",
        "meta.m = f_result;",
    ]


def test_left_operand_is_read_before_a_call_that_changes_it(tmp_path: Path) -> None:
    program = compiled(
        tmp_path,
        declarations="bit<8> bump(inout bit<8> x) { x = x + 1; return x; }",
        apply="meta.m = hdr.h.a + bump(hdr.h.a);",
    )
    assert ingress(program) == [
        "t = hdr.h.a;",
        "hdr.h.a = (hdr.h.a + 8w0x1);",
        "bump_result = hdr.h.a;",
        "meta.m = (t + bump_result);",
    ]


def test_right_side_of_and_runs_only_if_the_left_holds(tmp_path: Path) -> None:
    program = compiled(
        tmp_path,
        declarations="bool bump(inout bit<8> x) { x = x + 1; return x == 3; }",
        apply="if (meta.flag && bump(hdr.h.a)) { meta.m = 1; }",
    )
    lines = ingress(program)
    assert lines[:3] == ["t = meta.flag;", "if (t) {", "hdr.h.a = (hdr.h.a + 8w0x1);"]
    assert lines[-3:] == ["if (t) {", "meta.m = 8w0x1;", "}"]


def test_overlapping_arguments_are_copied_in_and_out(tmp_path: Path) -> None:
    program = compiled(
        tmp_path,
        declarations="void swap(inout bit<8> x, inout bit<8> y) { bit<8> old = x; x = y; y = old; }",
        apply="swap(hdr.h.a, hdr.h.a); swap(hdr.h.a, meta.m);",
    )
    assert ingress(program) == [
        "x = hdr.h.a;",
        "y = hdr.h.a;",
        "old = x;",
        "x = y;",
        "y = old;",
        "hdr.h.a = x;",
        "hdr.h.a = y;",
        # Different places: the parameters stand for them.
        "old_1 = hdr.h.a;",
        "hdr.h.a = meta.m;",
        "meta.m = old_1;",
    ]


def test_inout_argument_is_saved_before_later_arguments_change_it(tmp_path: Path) -> None:
    program = compiled(
        tmp_path,
        declarations="""bit<8> g(inout bit<8> z) { z = z + 1; return z; }
            void f(inout bit<8> x, in bit<8> y) { x = x + y; }""",
        apply="f(hdr.h.a, g(hdr.h.a));",
    )
    assert ingress(program) == [
        "t = hdr.h.a;",
        "hdr.h.a = (hdr.h.a + 8w0x1);",
        "g_result = hdr.h.a;",
        "x = t;",
        "x = (x + g_result);",
        "hdr.h.a = x;",
    ]


def test_run_time_index_of_an_argument_is_read_once(tmp_path: Path) -> None:
    program = compiled(
        tmp_path,
        declarations="void set(out bit<8> x, inout bit<8> i) { i = i + 1; x = i; }",
        apply="set(hdr.stack[meta.m].n, meta.m);",
    )
    lines = ingress(program)
    assert lines[0] == "t = meta.m;"
    assert lines[-1] == "hdr.stack[t].n = x;"


def test_exit_copies_out_of_all_open_calls(tmp_path: Path) -> None:
    program = compiled(
        tmp_path,
        locals="action stop(inout bit<8> x) { x = 5; exit; }",
        apply="stop(hdr.h.a);",
    )
    assert ingress(program) == ["x = hdr.h.a;", "x = 8w0x5;", "hdr.h.a = x;", "exit;", "hdr.h.a = x;"]


def test_exit_in_a_table_s_action_copies_out_of_the_controls_around(tmp_path: Path) -> None:
    program = compiled(
        tmp_path,
        after_types="""control Sub(inout bit<8> x, inout bit<8> y) {
            action a() { x = 9; exit; }
            table t { key = { y : exact; } actions = { a; } default_action = a; }
            apply { t.apply(); }
        }""",
        locals="Sub() s;",
        apply="s.apply(hdr.h.a, hdr.h.a);",  # one place twice: the parameters are copies
    )
    (action,) = program.actions
    assert [expr_text(s.target) for s in action.body if isinstance(s, ir.Assign)] == ["x", "hdr.h.a", "hdr.h.a"]
    assert isinstance(action.body[-1], ir.Exit)


def test_list_assignment_reads_before_it_writes(tmp_path: Path) -> None:
    program = compiled(
        tmp_path,
        after_types="struct pair_t { bit<8> x; bit<8> y; }",
        locals="pair_t p;",
        apply="p = { 1, 2 }; p = { p.y, p.x };",
    )
    assert ingress(program) == [
        "p.x = 8w0x1;",
        "p.y = 8w0x2;",
        "t = p.y;",
        "t_1 = p.x;",
        "p.x = t;",
        "p.y = t_1;",
    ]


def test_headers_compare_by_validity_and_fields(tmp_path: Path) -> None:
    program = compiled(tmp_path, apply="meta.flag = hdr.h == hdr.k;")
    (line,) = ingress(program)
    assert line == (
        "meta.flag = ((!hdr.h.isValid() && !hdr.k.isValid()) || "
        "((hdr.h.isValid() && hdr.k.isValid()) && ((hdr.h.a == hdr.k.a) && (hdr.h.b == hdr.k.b))));"
    )


def test_header_literals_set_validity(tmp_path: Path) -> None:
    program = compiled(tmp_path, apply="hdr.h = { 1, 2 }; hdr.k = {#}; hdr.h = { b = 3, ... };")
    assert ingress(program) == [
        "hdr.h.setValid();",
        "hdr.h.a = 8w0x1;",
        "hdr.h.b = 16w0x2;",
        "hdr.k.setInvalid();",
        "hdr.h.setValid();",
        "hdr.h.a = 8w0x0;",
        "hdr.h.b = 16w0x3;",
    ]


def test_header_union_has_one_valid_member(tmp_path: Path) -> None:
    program = compiled(
        tmp_path,
        after_types="header_union u_t { h_t x; n_t y; }",
        locals="u_t u;",
        apply="u.x.setValid(); u.y = hdr.stack[0]; meta.flag = u.isValid();",
    )
    assert ingress(program)[2:] == [
        "u.y.setInvalid();",
        "u.x.setValid();",
        "if (hdr.stack[32w0x0].isValid()) {",
        "u.x.setInvalid();",
        "}",
        "u.y = hdr.stack[32w0x0];",
        "meta.flag = (u.x.isValid() || u.y.isValid());",
    ]


def test_sub_control_instances_have_objects_of_their_own(tmp_path: Path) -> None:
    program = compiled(
        tmp_path,
        after_types="""control Sub(inout h_t h)(bit<8> value) {
            counter(4, CounterType.bytes) c;
            action a(bit<8> x) { h.a = x + value; c.count(0); }
            table t { key = { h.b : exact; } actions = { a; } }
            apply { t.apply(); }
        }""",
        locals="Sub(7) one; Sub(9) two;",
        apply="one.apply(hdr.h); two.apply(hdr.k);",
    )
    assert [t.identity.name for t in program.tables] == ["I.one.t", "I.two.t"]
    assert [c.identity.name for c in program.counters] == ["I.one.c", "I.two.c"]
    assert [expr_text(t.keys[0].expr) for t in program.tables] == ["hdr.h.b", "hdr.k.b"]
    bodies = {a.identity.name: a.body[0] for a in program.actions if a.body}
    assert isinstance(bodies["I.two.a"], ir.Assign)
    assert expr_text(bodies["I.two.a"].value) == "(x + 8w0x9)"


def test_instance_applied_twice_keeps_its_parameters(tmp_path: Path) -> None:
    program = compiled(
        tmp_path,
        after_types="""control Sub(inout h_t h) {
            table t { key = { h.b : exact; } actions = { NoAction; } }
            apply { t.apply(); h.a = 1; }
        }""",
        locals="Sub() s;",
        apply="s.apply(hdr.h); s.apply(hdr.k);",
    )
    assert len(program.tables) == 1
    assert expr_text(program.tables[0].keys[0].expr) == "h.b"
    assert ingress(program) == [
        "h = hdr.h;",
        "apply I_s_t;",
        "h.a = 8w0x1;",
        "hdr.h = h;",
        "h = hdr.k;",
        "apply I_s_t;",
        "h.a = 8w0x1;",
        "hdr.k = h;",
    ]


def test_hit_and_action_run(tmp_path: Path) -> None:
    program = compiled(
        tmp_path,
        locals="action a() { } action b() { } table t { key = { hdr.h.a : exact; } actions = { a; b; NoAction; } }",
        apply="""if (!t.apply().hit) { meta.m = 1; }
            switch (t.apply().action_run) { b: { meta.m = 2; } a: default: { meta.m = 3; } }""",
    )
    text = "\n".join(ingress(program))
    assert "apply I_t -> hit=I_t_hit;\nif (!I_t_hit) {" in text
    assert "apply I_t -> action=I_t_action;\nswitch (I_t_action) {\n1: {\nmeta.m = 8w0x2;\n}\ndefault: {" in text


def test_directional_parameters_are_bound_per_table(tmp_path: Path) -> None:
    program = compiled(
        tmp_path,
        locals="""action add(inout bit<8> to, in bit<8> x, bit<8> y) { to = to + x + y; }
            table t {
                key = { hdr.h.b : exact; }
                actions = { add(hdr.h.a, meta.m); }
                default_action = add(hdr.h.a, meta.m, 4);
            }""",
        apply="t.apply();",
    )
    (action,) = program.actions
    assert [p.name for p in action.params] == ["y"]
    assert program.tables[0].default_args == (4,)
    assert [item.name for item in action.locals] == ["to", "x"]


def test_switch_on_a_value_merges_labels(tmp_path: Path) -> None:
    program = compiled(tmp_path, apply="switch (hdr.h.a) { 1: 2: { meta.m = 1; } default: { meta.m = 2; } }")
    assert ingress(program)[:2] == ["switch (hdr.h.a) {", "1, 2: {"]


def test_loops(tmp_path: Path) -> None:
    program = compiled(
        tmp_path,
        apply="for (bit<8> i = 0; i < hdr.h.a; i += 2) {"
        " if (i == 6) { break; } if (i == 4) { continue; } meta.m += i; }",
    )
    assert ingress(program) == [
        "i = 8w0x0;",
        "loop loop_end {",
        "if (!(i < hdr.h.a)) {",
        "leave loop_end;",
        "}",
        "scope loop_next {",
        "if ((i == 8w0x6)) {",
        "leave loop_end;",
        "}",
        "if ((i == 8w0x4)) {",
        "leave loop_next;",
        "}",
        "meta.m = (meta.m + i);",
        "}",
        "i = (i + 8w0x2);",
        "}",
    ]


def test_generic_function(tmp_path: Path) -> None:
    program = compiled(
        tmp_path,
        declarations="T pick<T>(in bool first, in T x, in T y) { return first ? x : y; }",
        apply="meta.m = pick(meta.flag, hdr.h.a, 8w1); meta.w = pick<bit<16>>(meta.flag, 5, hdr.h.b);",
    )
    assert ingress(program)[0] == "pick_result = (meta.flag ? hdr.h.a : 8w0x1);"
    assert "pick_result_1 = (meta.flag ? 16w0x5 : hdr.h.b);" in ingress(program)


def test_sub_parser_states_join_the_parser(tmp_path: Path) -> None:
    program = compiled(
        tmp_path,
        after_types="""parser Sub(packet_in p, out h_t h) {
            state start { p.extract(h); transition select(h.a) { 1: more; default: accept; } }
            state more { p.advance(8); transition accept; }
        }""",
        parser_locals="Sub() sub;",
        start="sub.apply(packet, hdr.h); sub.apply(packet, hdr.k); transition accept;",
    )
    names = [s.name for s in program.parser.states]
    assert names[0] == "start"
    assert len(names) == 7  # start, two copies of two states, and what follows each copy
    targets = {c.target for s in program.parser.states for c in s.transition.cases}
    assert targets <= {*names, "accept", "reject"}


def test_sub_parser_inside_of_if_becomes_a_choice_of_states(tmp_path: Path) -> None:
    program = compiled(
        tmp_path,
        after_types="parser Sub(packet_in p, out h_t h) { state start { p.extract(h); transition accept; } }",
        parser_locals="Sub() sub;",
        start="packet.extract(hdr.h); if (hdr.h.a == 1) { sub.apply(packet, hdr.k); } meta.m = 1; transition accept;",
    )
    start = program.parser.states[0]
    assert expr_text(start.transition.subjects[0]) == "(hdr.h.a == 8w0x1)"
    assert [c.target for c in start.transition.cases] == ["start_then", "start_else"]
    assert program.parser.states[-1].name == "start_after"


def test_select_with_tuples_masks_ranges_and_enums(tmp_path: Path) -> None:
    program = compiled(
        tmp_path,
        declarations="enum bit<16> type_t { IPV4 = 0x800 }",
        start="""packet.extract(hdr.h);
            transition select(hdr.h.a, hdr.h.b) {
                (1, type_t.IPV4): accept; (0x10 &&& 0xF0, _): reject; (5..9, default): accept; default: reject; }""",
    )
    keysets = [c.keysets for c in program.parser.states[0].transition.cases]
    assert keysets[0] == (ir.Keyset("value", 1), ir.Keyset("value", 0x800))
    assert keysets[1] == (ir.Keyset("mask", 0x10, 0xF0), ir.Keyset("any"))
    assert keysets[2] == (ir.Keyset("range", 5, 9), ir.Keyset("any"))
    assert keysets[3] == (ir.Keyset("any"),)


def test_entries_and_their_priorities(tmp_path: Path) -> None:
    program = compiled(
        tmp_path,
        locals="""action a(bit<8> x) { meta.m = x; }
            table t {
                key = { hdr.h.a : ternary; hdr.h.b : lpm; }
                actions = { a; }
                const entries = { (1 &&& 0x0F, 0x0A00 &&& 0xFF00) : a(1); (_, _) : a(2); (3, 5) : a(3); }
            }""",
        apply="t.apply();",
    )
    entries = program.tables[0].const_entries
    assert [e.priority for e in entries] == [3, 2, 1]
    assert entries[0].matches == (ir.KeyMatch(1, 0x0F), ir.KeyMatch(0x0A00, 0, 8))
    assert entries[1].matches[1].wildcard
    assert entries[2].matches == (ir.KeyMatch(3, 0xFF), ir.KeyMatch(5, 0, 16))
    assert [e.args for e in entries] == [(1,), (2,), (3,)]


def test_field_lists(tmp_path: Path) -> None:
    program = compiled(
        tmp_path,
        meta="@field_list(1, 2) bit<9> port; @field_list(2) bit<4> kind;",
        apply="clone_preserving_field_list(CloneType.I2E, 5, 2);"
        "clone3(CloneType.I2E, 6, { meta.m, hdr.h.a, sm.ingress_port });",
    )
    lists = {number: [expr_text(e) for e in fields] for number, fields in program.field_lists.items()}
    assert lists == {
        1: ["meta.port"],
        2: ["meta.port", "meta.kind"],
        256: ["meta.m", "standard_metadata.ingress_port"],
    }


def test_names_of_locals_do_not_collide(tmp_path: Path) -> None:
    program = compiled(
        tmp_path,
        locals="action a(bit<8> x) { meta.m = x; } table t { key = { hdr.h.a : exact; } actions = { a; } }",
        apply="bit<8> x = 1; { bit<8> x = 2; meta.m = x; } t.apply(); meta.m = x;",
    )
    names = [item.name for item in program.ingress.locals]
    assert len(names) == len(set(names))
    assert "x" not in names  # that is the action's parameter


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("meta.m = nothing;", "'nothing' is not declared"),
        ("hdr.h.c = 1;", "header h_t has no field or method 'c'"),
        ("meta.m = hdr.h.b;", "expected a value of type bit<8>, found a value of type bit<16>"),
    ],
)
def test_several_errors_in_one_run(tmp_path: Path, body: str, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        compiled(tmp_path, apply=body + " meta.flag = 5; " + body)
    messages = [d.message for d in caught.value.diagnostics]
    assert messages == [message, "expected a value of type bool, found the integer 5", message]


def test_foreign_extern_is_an_error_but_not_for_p4info(tmp_path: Path) -> None:
    path = tmp_path / "foreign.p4"
    path.write_text(source(declarations="extern bit<8> magic(in bit<8> x);", apply="meta.m = magic(hdr.h.a);"))
    with pytest.raises(CompileError, match="extern function 'magic' is not part of v1model"):
        compile_p4(path)
    assert compile_p4(path, control_plane_only=True).ingress.name == "I"


def test_unknown_table_property_is_a_warning(tmp_path: Path) -> None:
    program = compiled(
        tmp_path,
        locals="table t { key = { hdr.h.a : exact; } actions = { NoAction; } vendor_hint = 5; }",
        apply="t.apply();",
    )
    (warning,) = program.warnings
    assert "warning: table property 'vendor_hint' is not known" in warning


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("bit<65> wide;", "field 'wide' added to standard metadata has type bit<65>"),
        ("".join(f"bit<8> f{i};" for i in range(9)), "field 'f8' of standard metadata is one too many"),
    ],
)
def test_own_v1model_with_too_much_more_metadata(tmp_path: Path, more: str, message: str) -> None:
    text = (INCLUDE_DIR / "v1model.p4").read_text()
    (tmp_path / "v1model.p4").write_text(text.replace("bit<3>  priority;", f"bit<3>  priority; {more}"))
    with pytest.raises(CompileError, match=message):
        path = tmp_path / "program.p4"
        path.write_text(source())
        compile_p4(path, include_dirs=[tmp_path])
