"""A hand-built program with every kind of statement: its C must compile without a warning."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from p4switch import ir
from p4switch.emit import EmitError, emit_c

RUNTIME = Path(__file__).parents[3] / "p4switch" / "runtime"
LOC = ir.Loc("test.p4", 1, 1)
B8, B16, B32, B192 = ir.Bits(8), ir.Bits(16), ir.Bits(32), ir.Bits(192)
BOOL, ERROR = ir.Bool(), ir.ErrorType()
ERRORS = (
    "NoError",
    "PacketTooShort",
    "NoMatch",
    "StackOutOfBounds",
    "HeaderTooShort",
    "ParserTimeout",
    "ParserInvalidArgument",
)
ALGORITHMS = ir.EnumType("HashAlgorithm", ("crc32", "crc16", "csum16", "xor16", "identity", "random"))

OUTER = ir.HeaderType("outer_t", (("kind", B8), ("flag", ir.Bits(1)), ("default", ir.Bits(7)), ("wide", B192)))
LABEL = ir.HeaderType("label_t", (("value", ir.Bits(20)), ("rest", ir.Bits(12))))
OPTIONS = ir.HeaderType("options_t", (("length", B8), ("data", ir.Varbits(320)), ("tail", B8)))
LABELS = ir.StackType(LABEL, 3)
HEADERS = ir.StructType("headers_t", (("outer", OUTER), ("labels", LABELS), ("options", OPTIONS)))
META = ir.StructType("meta_t", (("count", B32), ("seen", BOOL), ("sum", B16)))
STANDARD = ir.StructType(
    "standard_metadata_t",
    (
        ("ingress_port", ir.Bits(9)),
        ("egress_spec", ir.Bits(9)),
        ("parser_error", ERROR),
        ("checksum_error", ir.Bits(1)),
    ),
)

HDR, META_VAR, STD = ir.Var(HEADERS, "hdr"), ir.Var(META, "meta"), ir.Var(STANDARD, "standard_metadata")
OUTER_EXPR = ir.Field(OUTER, HDR, "outer")
LABELS_EXPR = ir.Field(LABELS, HDR, "labels")
OPTIONS_EXPR = ir.Field(OPTIONS, HDR, "options")
COUNT, SUM = ir.Field(B32, META_VAR, "count"), ir.Field(B16, META_VAR, "sum")
KIND, WIDE = ir.Field(B8, OUTER_EXPR, "kind"), ir.Field(B192, OUTER_EXPR, "wide")


def const(value: int, t: ir.Type = B32) -> ir.Const:
    return ir.Const(t, value)


def local(name: str, t: ir.Type) -> ir.Var:
    return ir.Var(t, name)


def call(function: str, *args: ir.Expr | ir.FieldList | ir.Text, instance: str | None = None) -> ir.ExternCall:
    return ir.ExternCall(LOC, function, instance, args)


def identity(name: str, number: int) -> ir.Identity:
    return ir.Identity(name, number, name)


def parser() -> ir.ParserBlock:
    last = ir.Field(ir.Bits(20), ir.StackLast(LABEL, LABELS_EXPR), "value")
    return ir.ParserBlock(
        "P",
        (ir.Local("peek", B16),),
        (
            ir.State(
                "start",
                (ir.Lookahead(LOC, local("peek", B16)), ir.Extract(LOC, OUTER_EXPR)),
                ir.Transition(
                    (KIND,),
                    (
                        ir.SelectCase((ir.Keyset("value", 1),), "labels"),
                        ir.SelectCase((ir.Keyset("value", 2),), "options"),
                        ir.SelectCase((ir.Keyset("any"),), "accept"),
                    ),
                ),
            ),
            ir.State(
                "labels",
                (ir.Extract(LOC, ir.StackNext(LABEL, LABELS_EXPR)),),
                ir.Transition(
                    (last, local("peek", B16)),
                    (
                        ir.SelectCase((ir.Keyset("mask", 1, 0xF), ir.Keyset("range", 3, 9)), "labels"),
                        ir.SelectCase((ir.Keyset("value_set", value_set="vs"), ir.Keyset("any")), "accept"),
                    ),
                ),
            ),
            ir.State(
                "options",
                (
                    ir.Extract(LOC, OPTIONS_EXPR, ir.Binary(B32, "*", COUNT, const(8))),
                    ir.Advance(LOC, const(8)),
                    ir.Verify(LOC, ir.Binary(BOOL, "!=", KIND, const(0, B8)), const(2, ERROR)),
                ),
                ir.Transition((), (ir.SelectCase((), "accept"),)),
            ),
        ),
    )


def ingress() -> ir.ControlBlock:
    hit, run, tmp = local("hit", BOOL), local("run", B32), local("tmp", B192)
    every = ir.FieldList((KIND, WIDE, ir.Field(ir.Varbits(320), OPTIONS_EXPR, "data"), const(5, B16), SUM))
    fixed = ir.FieldList((KIND, WIDE, SUM))
    hashes = [
        call("hash", SUM, const(i, ALGORITHMS), const(1, B16), fixed if i % 2 else every, const(9, B16))
        for i in range(len(ALGORITHMS.members))
    ]
    body: list[ir.Stmt] = [
        ir.ApplyTable(LOC, "t", hit, run),
        ir.Switch(LOC, run, (ir.SwitchCase((0,), (ir.Exit(LOC),)), ir.SwitchCase(None, ()))),
        ir.Switch(LOC, tmp, (ir.SwitchCase((7, 2**100), (ir.Assign(LOC, SUM, const(1, B16)),)),)),
        ir.If(LOC, ir.Unary(BOOL, "!", hit), (ir.Assign(LOC, tmp, WIDE),), (ir.SetValid(LOC, OUTER_EXPR, True),)),
        ir.Loop(LOC, "loop", (ir.If(LOC, hit, (ir.Leave(LOC, "loop"),)), ir.Assign(LOC, hit, const(1, BOOL)))),
        ir.Scope(LOC, "f", (ir.If(LOC, hit, (ir.Leave(LOC, "f"),)), ir.SetValid(LOC, OPTIONS_EXPR, False))),
        call("register.read", tmp, COUNT, instance="r"),
        call("register.write", COUNT, ir.Binary(B192, "+", tmp, WIDE), instance="r"),
        call("counter.count", COUNT, instance="c"),
        call("meter.execute_meter", COUNT, local("color", B8), instance="m"),
        *hashes,
        call("random", COUNT, const(3), const(5)),
        call("clone", const(0, ir.EnumType("CloneType", ("I2E", "E2E"))), const(9)),
        call("clone_preserving_field_list", const(0, ir.EnumType("CloneType", ("I2E", "E2E"))), const(9), const(1, B8)),
        call("recirculate_preserving_field_list", const(1, B8)),
        call("truncate", const(64)),
        call("digest", const(1), ir.FieldList((KIND, WIDE)), instance="d"),
        call("log_msg", ir.Text('a "{}" is {}\n'), ir.FieldList((KIND, WIDE))),
        call("assert", hit),
        call("mark_to_drop", STD),
        ir.PushFront(LOC, LABELS_EXPR, 1),
        ir.PopFront(LOC, LABELS_EXPR, 2),
        ir.Assign(LOC, ir.Slice(ir.Bits(70), tmp, 99, 30), ir.Slice(ir.Bits(70), WIDE, 70, 1)),
        ir.Assign(LOC, ir.Field(ir.Bits(20), ir.Index(LABEL, LABELS_EXPR, COUNT), "value"), const(3, ir.Bits(20))),
        ir.Assign(LOC, COUNT, ir.Cast(B32, ir.Field(ir.Bits(20), ir.Index(LABEL, LABELS_EXPR, COUNT), "value"))),
        ir.Assign(LOC, ir.Index(LABEL, LABELS_EXPR, const(1)), ir.Index(LABEL, LABELS_EXPR, const(0))),
    ]
    names = (("hit", BOOL), ("run", B32), ("tmp", B192), ("color", B8))
    return ir.ControlBlock("I", tuple(ir.Local(n, t) for n, t in names), tuple(body))


def whole_program() -> ir.Program:
    empty = ir.ControlBlock("empty", (), ())
    checksum = call(
        "verify_checksum_with_payload", const(1, BOOL), ir.FieldList((KIND, WIDE)), SUM, const(2, ALGORITHMS)
    )
    update = call("update_checksum", ir.IsValid(BOOL, OUTER_EXPR), ir.FieldList((KIND,)), SUM, const(0, ALGORITHMS))
    deparser = tuple(ir.Emit(LOC, h) for h in (OUTER_EXPR, ir.Index(LABEL, LABELS_EXPR, const(0)), OPTIONS_EXPR))
    forward = ir.Action(
        "forward",
        identity("I.forward", 1),
        (ir.Param("port", "port", ir.Bits(9), 1), ir.Param("value", "value", B192, 2)),
        (
            ir.Assign(LOC, ir.Field(ir.Bits(9), STD, "egress_spec"), local("port", ir.Bits(9))),
            ir.Assign(LOC, WIDE, local("value", B192)),
            ir.Assign(LOC, local("tmp", B192), WIDE),
            ir.Assign(LOC, local("mine", B32), COUNT),
            ir.If(LOC, ir.Field(BOOL, META_VAR, "seen"), (ir.Exit(LOC),)),
        ),
        "ingress",
        (ir.Local("mine", B32),),
    )
    table = ir.Table(
        "t",
        identity("I.t", 2),
        "ingress",
        (
            ir.Key(KIND, ir.MatchKind.EXACT, "kind", 1, 8),
            ir.Key(WIDE, ir.MatchKind.TERNARY, "wide", 2, 192),
            ir.Key(ir.IsValid(BOOL, OUTER_EXPR), ir.MatchKind.EXACT, "valid", 3, 1),
        ),
        (ir.TableAction("forward"), ir.TableAction("nothing")),
        "nothing",
        (),
        False,
        16,
        (ir.ConstEntry((ir.KeyMatch(1), ir.KeyMatch(2, 3), ir.KeyMatch(1)), "forward", (7, 2**191), 1),),
    )
    return ir.Program(
        "test.p4",
        HEADERS,
        META,
        STANDARD,
        ERRORS,
        parser(),
        replace(empty, body=(checksum,)),
        ingress(),
        empty,
        replace(empty, body=(update,)),
        replace(empty, body=deparser),
        actions=(forward, ir.Action("nothing", identity("NoAction", 3), (), (), "")),
        tables=(table,),
        registers=(ir.Register("r", identity("I.r", 4), B192, 16),),
        counters=(ir.Counter("c", identity("I.c", 5), "packets", 16),),
        meters=(ir.Meter("m", identity("I.m", 6), "bytes", 16),),
        digests=(ir.Digest("d", identity("I.d", 7), (("kind", B8), ("wide", B192)), "d_t"),),
        value_sets=(ir.ValueSet("vs", identity("P.vs", 8), (20,), 4),),
        field_lists={1: (COUNT, ir.Field(ir.Bits(9), STD, "ingress_port"))},
    )


def test_every_statement_compiles_without_warnings(tmp_path: Path) -> None:
    source = tmp_path / "program.c"
    source.write_text(emit_c(whole_program()))
    warnings = ["-Wall", "-Wextra", "-Werror", "-Wno-unused", "-Wno-type-limits", "-Wno-missing-field-initializers"]
    subprocess.run(
        ["cc", "-O2", "-std=gnu11", *warnings, f"-I{RUNTIME}", "-c", source, "-o", tmp_path / "p.o"], check=True
    )


def test_emitting_a_header_of_odd_width_is_a_located_error() -> None:
    odd = ir.HeaderType("odd_t", (("three", ir.Bits(3)),))
    headers = ir.StructType("headers_t", (("odd", odd),))
    emit = ir.Emit(ir.Loc("odd.p4", 9, 5), ir.Field(odd, ir.Var(headers, "hdr"), "odd"))
    program = whole_program()
    empty = ir.ControlBlock("empty", (), ())
    trivial = ir.ParserBlock("P", (), (ir.State("start", (), ir.Transition((), (ir.SelectCase((), "accept"),))),))
    bad = replace(
        program, headers=headers, parser=trivial, verify=empty, ingress=empty, compute=empty,
        deparser=replace(empty, body=(emit,)), actions=(), tables=(), field_lists={},
    )  # fmt: skip
    with pytest.raises(EmitError, match=r"odd\.p4:9:5: error: header odd_t has 3 bits"):
        emit_c(bad)


def test_an_unknown_extern_names_the_known_ones() -> None:
    program = whole_program()
    bad = replace(program, ingress=replace(program.ingress, body=(call("teleport"),)))
    with pytest.raises(EmitError, match=r"extern teleport is not supported(.|\n)*register\.read"):
        emit_c(bad)
