"""The parser as a C function of labels and gotos, and the deparser.

Inside parse(): `at` is the cursor and `end` the end of the packet, both in bits. An error sets std.parser_error and
goes to `reject`; as on BMv2 the packet is not dropped, what follows the cursor is its payload.
"""

from __future__ import annotations

from collections.abc import Callable

from p4switch import ir
from p4switch.emit import tracing
from p4switch.emit.context import Function, Unit, all_expressions, all_statements, word_fields
from p4switch.emit.headers import HeaderFunctions, fixed_bits, header_places, max_bytes, scalar_leaves, varbit_of
from p4switch.emit.layout import bit_width, c_name, c_string, literal
from p4switch.emit.packing import total_bytes, unpack
from p4switch.emit.statements import write_body
from p4switch.ir_text import expr_text

HEAD_MAX = 9216  # P4_HEAD_MAX of p4rt.h
STEPS_MAX = 4096  # transitions back to an earlier state, per packet: a loop that extracts nothing must end
_DIRECT_CASES = ("value", "any")


class ParserWriter:
    """Write parse()."""

    def __init__(self, unit: Unit, function: Function, headers: HeaderFunctions) -> None:
        self.unit = unit
        self.f = function
        self.headers = headers
        self.block = unit.program.parser
        self._doing = ""  # what is being written, as traces call it
        self.unaligned = self._may_be_unaligned()
        self._back_edges = self._find_back_edges()
        self._extra: dict[type, Callable] = {
            ir.Stmt: self._check_stacks,
            ir.Extract: self._extract,
            ir.Advance: self._advance,
            ir.Lookahead: self._lookahead,
            ir.Verify: self._verify,
        }

    def write(self) -> None:
        """Write the body of parse(), between the function's braces."""
        out = self.f.out
        out.line("const uint8_t *const data = pkt->data;")
        out.line("const uint32_t end = pkt->len * 8;")
        out.line("uint32_t at = pkt->cursor_bits;")
        if self._back_edges:
            out.line("uint32_t steps = 0;")
        for state in self.block.states:
            out.label(self._label(state.name))
            with out.block():
                tracing.say(self.f, "state %s", c_string(state.name))
                write_body(self.f, state.body, self._extra)
                self._transition(state)
        out.label("reject")
        out.label("accept")
        out.line("pkt->cursor_bits = at;")

    # ------------------------------------------------------------------------------------------------- whole parser

    def _may_be_unaligned(self) -> bool:
        """Tell whether the cursor may stand inside a byte."""
        for state in self.block.states:
            for s in all_statements(state.body):
                if isinstance(s, ir.Advance) and not (isinstance(s.bits, ir.Const) and s.bits.value % 8 == 0):
                    return True
                if isinstance(s, ir.Extract):
                    header = s.header.type
                    assert isinstance(header, ir.HeaderType)
                    if varbit_of(header) or fixed_bits(header) % 8:
                        return True
        return False

    def _find_back_edges(self) -> set[tuple[str, str]]:
        """Give the transitions that go back to a state on the current path of a depth-first walk."""
        targets = {s.name: [c.target for c in s.transition.cases] for s in self.block.states}
        found: set[tuple[str, str]] = set()
        open_states: set[str] = set()
        done: set[str] = set()
        stack = [(self.block.states[0].name, iter(targets[self.block.states[0].name]))]
        open_states.add(self.block.states[0].name)
        while stack:
            name, pending = stack[-1]
            target = next(pending, None)
            if target is None:
                stack.pop()
                open_states.discard(name)
                done.add(name)
            elif target in open_states:
                found.add((name, target))
            elif target in targets and target not in done:
                open_states.add(target)
                stack.append((target, iter(targets[target])))
        return found

    @staticmethod
    def _label(state: str) -> str:
        return state if state in ("accept", "reject") else f"state_{c_name(state)}"

    def _fail(self, error: str) -> str:
        """C text that ends the parser with an error of core.p4."""
        told = f"{c_string(self._doing)}, {c_string(error)}, (unsigned)(end - at)"
        trace = f'P4_TRACE(p4_trace(pkt, "%s: %s with %u bits left", {told});)'
        return f"{{ {trace} pkt->std.parser_error = {self.unit.error_index(error)}u; goto reject; }}"

    # --------------------------------------------------------------------------------------------------- statements

    def _check_stacks(self, f: Function, statement: ir.Stmt) -> None:
        """Leave on stack.next past the end and on stack.last of an empty stack, before the statement uses them."""
        self._doing = tracing.brief(statement)
        self._check_stacks_in(statement)

    def _check_stacks_in(self, node: object) -> None:
        for e in all_expressions(node):
            if isinstance(e, ir.StackNext):
                stack = e.base.type
                assert isinstance(stack, ir.StackType)
                test = f"{self.f.value(e.base)}.next_ >= {stack.size}"
            elif isinstance(e, ir.StackLast):
                test = f"{self.f.value(e.base)}.next_ == 0"
            else:
                continue
            self.f.out.line(f"if ({test}) {self._fail('StackOutOfBounds')}")

    def _source(self, bits: int) -> str:
        """C text of a pointer to at most `bits` bits at the cursor, moved to a byte boundary when needed."""
        if not self.unaligned:
            return "data + (at >> 3)"
        copy, pointer = self.f.fresh("moved"), self.f.fresh("p")
        self.f.out.line(f"uint8_t {copy}[{(bits + 7) // 8}];")
        self.f.out.line(f"const uint8_t *{pointer} = data + (at >> 3);")
        with self.f.out.block("if (at & 7)"):
            self.f.out.line(f"p4_copy_bits({copy}, 0, data, at, end - at < {bits} ? end - at : {bits});")
            self.f.out.line(f"{pointer} = {copy};")
        return pointer

    def _extract(self, f: Function, s: ir.Extract) -> None:
        t = s.header.type
        assert isinstance(t, ir.HeaderType)
        place, bits = f.place(s.header), fixed_bits(t)
        varbit = varbit_of(t)
        function = self.headers.extract(t)
        with f.out.block():
            if varbit:
                amount = f.expressions.amount(s.varbit_bits) if s.varbit_bits is not None else "0"
                f.out.line(f"const uint64_t varbits = {amount};")
                # In BMv2's order: a size that is both too large and not there is PacketTooShort.
                f.out.line(f"if (varbits % 8) {self._fail('ParserInvalidArgument')}")
                f.out.line(f"if (end - at < {bits} + varbits) {self._fail('PacketTooShort')}")
                f.out.line(f"if (varbits > {varbit[1].max_width}) {self._fail('HeaderTooShort')}")
                f.out.line(f"{function}(&{place}, {self._source(max_bytes(t) * 8)}, (uint32_t)varbits);")
                f.out.line(f"at += {bits} + (uint32_t)varbits;")
            else:
                f.out.line(f"if (end - at < {bits}) {self._fail('PacketTooShort')}")
                f.out.line(f"{function}(&{place}, {self._source(bits)}, 0);")
                f.out.line(f"at += {bits};")
            for e in all_expressions(s.header):
                if isinstance(e, ir.StackNext):
                    f.out.line(f"{f.value(e.base)}.next_++;")

    def _advance(self, f: Function, s: ir.Advance) -> None:
        amount = f.expressions.amount(s.bits)
        f.out.line(f"if (end - at < {amount}) {self._fail('PacketTooShort')}")
        f.out.line(f"at += (uint32_t)({amount});")

    def _lookahead(self, f: Function, s: ir.Lookahead) -> None:
        t = s.target.type
        place = f.place(s.target)
        with f.out.block():
            slots = scalar_leaves(t, place)
            bits = sum(slot.width for slot in slots)
            f.out.line(f"if (end - at < {bits}) {self._fail('PacketTooShort')}")
            if bits:
                for line in unpack(slots, self._source(total_bytes([bits]) * 8)):
                    f.out.line(line)
            for header in header_places(t, place):
                f.out.line(f"{header}.valid_ = true;")

    def _verify(self, f: Function, s: ir.Verify) -> None:
        f.out.line(f"if (!{f.value(s.condition)}) {{ pkt->std.parser_error = {f.value(s.error)}; goto reject; }}")

    # --------------------------------------------------------------------------------------------------- transitions

    def _go(self, state: ir.State, target: str) -> str:
        go = f"goto {self._label(target)};"
        if (state.name, target) in self._back_edges:
            timeout = "ParserTimeout" if "ParserTimeout" in self.unit.program.errors else "NoMatch"
            return f"{{ if (++steps > {STEPS_MAX}) {self._fail(timeout)} {go} }}"
        return go

    def _transition(self, state: ir.State) -> None:
        transition, out = state.transition, self.f.out
        self._doing = "select"
        if not transition.subjects:
            out.line(self._go(state, transition.cases[0].target))
            return
        self._check_stacks_in(transition)
        subjects = []
        for e in transition.subjects:
            name = self.f.fresh("s")
            out.line(f"const {self.unit.layout.c_type(e.type)} {name} = {self.f.value(e)};")
            subjects.append(ir.Var(e.type, name))
            self.f.expressions.roots[name] = name
            tracing.show(self.f, f"select {expr_text(e)}", e.type, name)
        if not self._direct(state, subjects):
            for case in transition.cases:
                tests = self._tests(case, subjects)
                if not tests:
                    out.line(self._go(state, case.target))
                    return
                out.line(f"if ({' && '.join(tests)}) {self._go(state, case.target)}")
        out.line(self._fail("NoMatch"))

    def _direct(self, state: ir.State, subjects: list[ir.Var]) -> bool:
        """Write a C switch where the select is one over plain values; tell whether it was."""
        cases = state.transition.cases
        if len(subjects) != 1 or bit_width(subjects[0].type) > 64:
            return False
        if any(len(c.keysets) != 1 or c.keysets[0].kind not in _DIRECT_CASES for c in cases):
            return False
        seen: set[int] = set()
        with self.f.out.block(f"switch ({subjects[0].name})"):
            for case in cases:
                keyset = case.keysets[0]
                if keyset.kind == "any":
                    self.f.out.line(f"default: {self._go(state, case.target)}")
                    break
                if keyset.lo not in seen:
                    seen.add(keyset.lo)
                    value = literal(keyset.lo, bit_width(subjects[0].type))
                    self.f.out.line(f"case {value}: {self._go(state, case.target)}")
        return True

    def _tests(self, case: ir.SelectCase, subjects: list[ir.Var]) -> list[str]:
        """C texts of the conditions of a case; none when it always matches."""
        if len(case.keysets) == 1 and len(subjects) > 1:
            keyset = case.keysets[0]
            return [self._in_value_set(keyset.value_set, subjects)] if keyset.kind == "value_set" else []
        tests = []
        for keyset, subject in zip(case.keysets, subjects, strict=True):
            test = self._test(keyset, subject)
            if test:
                tests.append(test)
        return tests

    def _test(self, keyset: ir.Keyset, subject: ir.Var) -> str:
        t = subject.type
        lo, hi = ir.Const(t, keyset.lo), ir.Const(t, keyset.hi)

        def compare(op: str, left: ir.Expr, right: ir.Expr) -> str:
            return self.f.value(ir.Binary(ir.Bool(), op, left, right))

        match keyset.kind:
            case "any":
                return ""
            case "value":
                return compare("==", subject, lo)
            case "mask":
                masked = ir.Const(t, keyset.lo & keyset.hi)
                return compare("==", ir.Binary(t, "&", subject, hi), masked)
            case "range":
                return f"{compare('>=', subject, lo)} && {compare('<=', subject, hi)}"
            case "value_set":
                return self._in_value_set(keyset.value_set, [subject])
        raise self.f.error(f"the C emitter does not know the keyset kind {keyset.kind}")

    def _in_value_set(self, name: str, subjects: list[ir.Var]) -> str:
        places, total = word_fields((s.name, bit_width(s.type)) for s in subjects)
        key = self.f.fresh("key")
        self.f.out.line(f"uint64_t {key}[{total}];")
        for subject, place in zip(subjects, places, strict=True):
            for line in self.f.expressions.to_words(subject, key, place.word):
                self.f.out.line(line)
        return f"p4_value_set_match(pkt, {self.unit.value_set_index[name]}, {key})"


def write_deparser(unit: Unit, f: Function, headers: HeaderFunctions) -> None:
    """Write the body of deparse(), between the function's braces."""
    block = unit.program.deparser
    emitted = [s.header.type for s in all_statements(block.body) if isinstance(s, ir.Emit)]
    largest = sum(max_bytes(t) for t in emitted if isinstance(t, ir.HeaderType))
    f.out.line("uint8_t *const head = pkt->head;")
    f.out.line("uint32_t n = 0;")

    def emit(function: Function, s: ir.Emit) -> None:
        t = s.header.type
        assert isinstance(t, ir.HeaderType)
        if fixed_bits(t) % 8:
            raise function.error(
                f"header {t.name} has {fixed_bits(t)} bits, which is no whole number of bytes", "add a padding field"
            )
        header = function.value(s.header)
        if largest > HEAD_MAX:
            too_long = f"{header}.valid_ && n + {max_bytes(t)} > P4_HEAD_MAX"
            function.out.line(f"if ({too_long}) {{ n = P4_HEAD_MAX + 1; goto end; }}")
        function.out.line(f"if ({header}.valid_) n += {headers.emit(t)}(head + n, &{header});")

    write_body(f, block.body, {ir.Emit: emit})
    f.out.label("end")
    f.out.line("pkt->head_len = n;")
