"""Expressions, types and keysets: precedence climbing over a recursive descent."""

from __future__ import annotations

from p4switch.frontend import ast
from p4switch.frontend.errors import Failure
from p4switch.frontend.lexer import parse_int
from p4switch.frontend.parser.base import MAX_DEPTH, ParserBase
from p4switch.ir import Loc

# P4_16 binds & ^ | tighter than comparisons, unlike C.
_PRECEDENCE = {
    "||": 1,
    "&&": 2,
    "==": 3,
    "!=": 3,
    "<": 4,
    ">": 4,
    "<=": 4,
    ">=": 4,
    "|": 5,
    "^": 6,
    "&": 7,
    "<<": 8,
    ">>": 8,
    "++": 9,
    "+": 9,
    "-": 9,
    "|+|": 9,
    "|-|": 9,
    "*": 10,
    "/": 10,
    "%": 10,
}
_BASE_TYPES = frozenset(["bit", "int", "varbit", "bool", "error", "string", "match_kind", "void", "tuple", "list"])


class ExpressionParser(ParserBase):
    """Parses whatever has a value or is a type."""

    # ------------------------------------------------------------------------------------------------------- types

    def at_type(self) -> bool:
        """Whether the current token can only begin a type."""
        kind = self.kind
        if kind == "ID":
            return self.is_type(self.texts[self.index])
        if kind == ".":
            return self.peek() == "ID" and self.scopes[0].get(self.texts[self.index + 1]) == "type"
        if kind == "list":
            return self.peek() == "<"
        if kind == "error":
            return self.peek() != "."
        return kind in _BASE_TYPES

    def type_ref(self, what: str = "a type") -> ast.TypeRef:
        self.deeper()
        loc = self.loc()
        kind = self.kind
        result: ast.TypeRef
        if kind in ("bit", "int", "varbit"):
            self.advance()
            width: int | ast.Expr | None = 1 if kind == "bit" else None
            if self.accept("<"):
                width = self.width()
                self.close_angle("the width")
            elif kind == "varbit":
                self.unexpected("expected '<' after 'varbit'", "write varbit<N>, N being the largest width in bits")
            result = ast.BaseType(loc, kind, width)
        elif kind in ("bool", "error", "string", "match_kind", "void"):
            self.advance()
            result = ast.BaseType(loc, kind)
        elif kind == "tuple":
            self.advance()
            result = ast.TupleTypeRef(loc, self.type_args())
        elif kind == "list" and self.peek() == "<":
            self.advance()
            args = self.type_args()
            if len(args) != 1:
                raise Failure(loc, f"list<> takes one type, {len(args)} given")
            result = ast.ListTypeRef(loc, args[0])
        elif kind in ("ID", ".") or self.at_name():
            absolute = self.accept(".")
            if kind == "ID" and self.texts[self.index] == "_":
                self.advance()
                result = ast.BaseType(loc, "_")
            else:
                name, _ = self.name(what)
                args_given = self.type_args() if self.kind == "<" else None
                result = ast.NamedType(loc, name, args_given, absolute)
        else:
            self.unexpected(f"expected {what}")
        result = self.array_of(result)
        self.depth -= 1
        return result

    def array_of(self, element: ast.TypeRef) -> ast.TypeRef:
        """Parse the sizes that make a type an array or a stack, if any: behind the type or, as in C, behind a name."""
        while self.kind == "[":
            self.advance()
            size = self.expression()
            self.expect("]", "the stack's size")
            element = ast.StackTypeRef(element.loc, element, size)
        return element

    def width(self) -> int | ast.Expr:
        if self.accept("("):
            expr = self.expression()
            self.expect(")", "the width")
            return expr
        loc = self.loc()
        if self.kind == "INT":
            return parse_int(self.advance(), loc)[0]
        if self.kind == "ID":  # p4c wants parentheses around it; a constant's name alone is as clear
            return ast.Name(loc, self.advance())
        self.unexpected("expected a width", "write bit<8>, or bit<(EXPR)> for a constant expression")

    def close_angle(self, after: str) -> None:
        self.expect(">", after)

    def type_args(self) -> tuple[ast.TypeRef, ...]:
        """<T, ...>; a '>>' is two tokens '>', so that nested lists need nothing special."""
        self.expect("<", "the type's name")
        args = []
        while self.kind != ">":
            args.append(self.type_ref("a type argument"))
            if not self.accept(","):
                break
        self.close_angle("the type arguments")
        return tuple(args)

    # ------------------------------------------------------------------------------------------------- expressions

    def expression(self) -> ast.Expr:
        """An expression; a ? b : c ? d : e is (a ? b : c) ? d : e, as in p4c's grammar."""
        self.deeper()
        expr = self.binary(1)
        chain = 1
        while self.kind == "?":
            loc = self.loc()
            self.advance()
            then = self.expression()
            self.expect(":", "the first choice of '?'")
            expr = ast.MuxExpr(loc, expr, then, self.binary(1))
            chain += 1
            self.deeper()
        self.depth -= chain
        return expr

    def binary(self, minimum: int) -> ast.Expr:
        left = self.unary()
        chain = 0
        while True:
            op = self.kind
            if op == ">" and self.adjacent(">"):
                op = ">>"
            level = _PRECEDENCE.get(op, 0)
            if level < minimum or (op == ">" and self.adjacent(">=")):
                self.depth -= chain
                return left
            loc = self.loc()
            self.advance()
            if op == ">>":
                self.advance()
            right = self.binary(level + 1)
            left = ast.BinaryExpr(loc, op, left, right)
            chain += 1  # a chain grows the tree's depth as parentheses do
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise Failure(loc, f"nested more than {MAX_DEPTH} deep", "split the expression with variables")

    def adjacent(self, kind: str) -> bool:
        """Whether the next token is `kind` and touches the current one (of one character)."""
        tokens, i = self.tokens, self.index
        return (
            i + 1 < len(self.kinds)
            and self.kinds[i + 1] == kind
            and tokens.lines[i] == tokens.lines[i + 1]
            and tokens.columns[i] + 1 == tokens.columns[i + 1]
        )

    def unary(self) -> ast.Expr:
        kind = self.kind
        if kind in ("!", "~", "-", "+"):
            self.deeper()
            loc = self.loc()
            self.advance()
            operand = self.unary()
            self.depth -= 1
            return operand if kind == "+" and isinstance(operand, ast.IntLit) else ast.UnaryExpr(loc, kind, operand)
        if kind == "(":
            self.deeper()
            loc = self.loc()
            self.advance()
            if self.at_type() and not self.type_is_expression():
                target = self.type_ref()
                self.expect(")", "the type of a cast")
                operand = self.unary()
                self.depth -= 1
                return ast.CastExpr(loc, target, operand)
            inner = self.expression()
            self.expect(")", "the expression")
            self.depth -= 1
            return self.postfix(inner)
        return self.postfix(self.primary())

    def type_is_expression(self) -> bool:
        """Whether a type name begins an expression: Enum.member, Type.apply(...), Type(...)."""
        index = self.index + (1 if self.kind == "." else 0)
        return self.kinds[index] == "ID" and self.kinds[index + 1] in (".", "(")

    def primary(self) -> ast.Expr:
        kind = self.kind
        loc = self.loc()
        if kind == "ID":
            text = self.texts[self.index]
            if text == "_":
                self.advance()
                return ast.AnyExpr(loc)
            if self.is_type(text):
                return ast.TypeExpr(loc, self.type_ref())
            self.advance()
            return ast.Name(loc, text)
        if kind == "INT":
            literal = self.advance()
            value, width, signed = parse_int(literal, loc)
            text = hex(value) if "0x" in literal or "0X" in literal else str(value)
            return ast.IntLit(loc, value, width, signed, text)
        if kind in ("true", "false"):
            return ast.BoolLit(loc, self.advance() == "true")
        if kind == "STR":
            return ast.StringLit(loc, unquote(self.advance()))
        if kind == "{":
            return self.braces()
        if kind == "{#}":
            self.advance()
            return ast.InvalidExpr(loc)
        if kind == "...":
            self.advance()
            return ast.RestExpr(loc)
        if kind == "this":
            self.advance()
            return ast.This(loc)
        if kind == "default":
            self.advance()
            return ast.AnyExpr(loc)
        if kind == ".":
            if self.at_type():
                return ast.TypeExpr(loc, self.type_ref())
            self.advance()
            name, _ = self.name("a name after '.'")
            return ast.Name(loc, name, True)
        if kind == "error" or (kind in _BASE_TYPES and kind != "list"):
            return ast.TypeExpr(loc, self.type_ref())
        if self.at_name():
            return ast.Name(loc, self.advance())
        self.unexpected("expected an expression")

    def braces(self) -> ast.Expr:
        """{a, b}, {x = a, y = b}, {}, either with a final '...' or ','."""
        loc = self.loc()
        self.deeper()
        self.advance()
        items: list[ast.Expr] = []
        named: list[tuple[str, ast.Expr]] = []
        rest = False
        is_struct = self.at_name() and self.peek() == "="
        while self.kind != "}":
            if self.kind == "..." and self.peek() in ("}", ","):
                self.advance()
                rest = True
            elif is_struct:
                name, _ = self.name("a field name")
                self.expect("=", "the field's name")
                named.append((name, self.expression()))
            else:
                items.append(self.expression())
            if not self.accept(","):
                break
        self.expect("}", "the list")
        self.depth -= 1
        if is_struct:
            return ast.StructExpr(loc, tuple(named), rest)
        return ast.ListExpr(loc, tuple(items), rest)

    def postfix(self, expr: ast.Expr) -> ast.Expr:
        chain = 0
        while True:
            kind = self.kind
            if kind == ".":
                self.advance()
                name, loc = self.name("a field or method name after '.'")
                expr = ast.Member(loc, expr, name)
            elif kind == "[":
                loc = self.loc()
                self.advance()
                index = self.expression()
                if self.accept(":"):
                    lo = self.expression()
                    self.expect("]", "the slice")
                    expr = ast.SliceExpr(loc, expr, index, lo)
                elif self.accept("+:"):
                    width = self.expression()
                    self.expect("]", "the slice")
                    expr = ast.PartExpr(loc, expr, index, width)
                else:
                    self.expect("]", "the index")
                    expr = ast.IndexExpr(loc, expr, index)
            elif kind == "(":
                expr = self.call(expr, None)
            elif kind == "<" and isinstance(expr, ast.Name | ast.Member):
                args = self.speculative_type_args()
                if args is None:
                    break
                expr = self.call(expr, args)
            else:
                break
            chain += 1  # a.b.c.d nests as deep as it is long
            self.deeper()
        self.depth -= chain
        return expr

    def speculative_type_args(self) -> tuple[ast.TypeRef, ...] | None:
        """Read f<T, ...> if what follows '<' is a list of types and a call; else leave '<' to be an operator."""
        start, depth = self.index, self.depth
        self.advance()
        starts_type = self.at_type() or self.kind == ">" or (self.kind == "ID" and self.texts[self.index] == "_")
        self.seek(start)
        if not starts_type:
            return None
        try:
            args = self.type_args()
        except Failure:
            self.seek(start)
            self.depth = depth
            return None
        if self.kind != "(":
            self.seek(start)
            return None
        return args

    def call(self, callee: ast.Expr, type_args: tuple[ast.TypeRef, ...] | None) -> ast.CallExpr:
        loc = callee.loc
        if isinstance(callee, ast.Member) and callee.name == "apply" and isinstance(callee.base, ast.Name):
            self.applied.append(callee.base.name)
        return ast.CallExpr(loc, callee, type_args, self.arguments())

    def arguments(self) -> tuple[ast.Argument, ...]:
        self.expect("(", "the callee")
        self.deeper()
        args: list[ast.Argument] = []
        while self.kind != ")":
            loc = self.loc()
            name = None
            if self.at_name() and self.peek() == "=":
                name = self.advance()
                self.advance()
            args.append(ast.Argument(loc, name, self.expression()))
            if not self.accept(","):
                break
        self.depth -= 1
        self.expect(")", "the arguments")
        return tuple(args)

    # ----------------------------------------------------------------------------------------------------- keysets

    def simple_keyset(self) -> ast.Expr:
        loc = self.loc()
        if self.kind == "default":
            self.advance()
            return ast.AnyExpr(loc)
        expr = self.expression()
        if self.kind == "&&&":
            loc = self.loc()
            self.advance()
            return ast.MaskExpr(loc, expr, self.expression())
        if self.kind == "..":
            loc = self.loc()
            self.advance()
            return ast.RangeExpr(loc, expr, self.expression())
        return expr

    def keyset(self) -> tuple[ast.Expr, ...]:
        """A keyset before ':': one, or several in parentheses."""
        if self.kind == "(":
            start, depth = self.index, self.depth
            try:
                self.advance()
                items = [self.simple_keyset()]
                while self.accept(","):
                    if self.kind == ")":
                        break
                    items.append(self.simple_keyset())
                self.expect(")", "the keyset")
                if self.kind == ":":
                    return tuple(items)
            except Failure:
                if self.depth > MAX_DEPTH:
                    raise
            # No tuple: an expression that begins with a parenthesis or a cast.
            self.seek(start)
            self.depth = depth
        return (self.simple_keyset(),)

    # ------------------------------------------------------------------------------------------------- annotations

    def structured_annotation(self, loc: Loc, name: str, body_loc: Loc) -> ast.Annotation:
        start = self.index
        items: list[ast.Expr] = []
        pairs: list[tuple[str, ast.Expr]] = []
        while self.kind != "]":
            if self.at_name() and self.peek() == "=":
                key = self.advance()
                self.advance()
                pairs.append((key, self.expression()))
            else:
                items.append(self.expression())
            if not self.accept(","):
                break
        tokens = tuple(zip(self.kinds[start : self.index], self.texts[start : self.index], strict=True))
        self.expect("]", "the annotation's body")
        if items and pairs:
            raise Failure(body_loc, f"annotation @{name} mixes expressions and key-value pairs", "use one or the other")
        return ast.Annotation(loc, name, tokens, True, True, body_loc, tuple(items), tuple(pairs))


_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}


def unquote(text: str) -> str:
    """Give the value of a string literal token."""
    body = text[1:-1]
    if "\\" not in body:
        return body
    out = []
    i = 0
    while i < len(body):
        if body[i] == "\\" and i + 1 < len(body):
            out.append(_ESCAPES.get(body[i + 1], "\\" + body[i + 1]))
            i += 2
        else:
            out.append(body[i])
            i += 1
    return "".join(out)
