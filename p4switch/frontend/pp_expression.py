"""Integer expressions of #if and #elif."""

from __future__ import annotations

import re
from collections.abc import Callable

from p4switch.frontend.errors import Failure
from p4switch.ir import Loc

_TOKEN = re.compile(r"\s*(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+|[A-Za-z_]\w*|\|\||&&|==|!=|<=|>=|<<|>>|[-+*/%<>!~&|^()?:])")
MAX_DEPTH = 200

_LEVELS: tuple[tuple[str, ...], ...] = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!="),
    ("<", ">", "<=", ">="),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
)
_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "||": lambda a, b: int(bool(a or b)),
    "&&": lambda a, b: int(bool(a and b)),
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "&": lambda a, b: a & b,
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b),
    ">": lambda a, b: int(a > b),
    "<=": lambda a, b: int(a <= b),
    ">=": lambda a, b: int(a >= b),
    "<<": lambda a, b: a << min(max(b, 0), 63),
    ">>": lambda a, b: a >> min(max(b, 0), 63),
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
}


class _Parser:
    def __init__(self, text: str, loc: Loc) -> None:
        self.loc = loc
        self.tokens: list[str] = []
        self.depth = 0
        position = 0
        text = text.rstrip()
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise Failure(loc, f"'{text[position:].strip()}' cannot stand in a preprocessor expression")
            self.tokens.append(match.group(1))
            position = match.end()
        self.index = 0

    def peek(self) -> str:
        return self.tokens[self.index] if self.index < len(self.tokens) else ""

    def next(self) -> str:
        token = self.peek()
        self.index += 1
        return token

    def ternary(self) -> int:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Failure(self.loc, f"preprocessor expression nested more than {MAX_DEPTH} deep")
        condition = self.binary(0)
        if self.peek() == "?":
            self.next()
            then = self.ternary()
            if self.next() != ":":
                raise Failure(self.loc, "'?' without ':' in preprocessor expression")
            otherwise = self.ternary()
            condition = then if condition else otherwise
        self.depth -= 1
        return condition

    def binary(self, level: int) -> int:
        if level == len(_LEVELS):
            return self.unary()
        left = self.binary(level + 1)
        while self.peek() in _LEVELS[level]:
            operator = self.next()
            right = self.binary(level + 1)
            if operator in ("/", "%"):
                if right == 0:
                    raise Failure(self.loc, "division by zero in preprocessor expression")
                left = left // right if operator == "/" else left % right
            else:
                left = _OPERATIONS[operator](left, right)
        return left

    def unary(self) -> int:
        token = self.next()
        if token in ("!", "-", "~", "+"):
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise Failure(self.loc, f"preprocessor expression nested more than {MAX_DEPTH} deep")
            operand = self.unary()
            self.depth -= 1
            return {"!": int(not operand), "-": -operand, "~": ~operand, "+": operand}[token]
        if token == "(":
            value = self.ternary()
            if self.next() != ")":
                raise Failure(self.loc, "missing ')' in preprocessor expression")
            return value
        if token[:1].isdigit():
            return int(token, 0) if not token.isdigit() else int(token)
        if token[:1].isalpha() or token[:1] == "_":
            return 0  # an unknown name counts as 0, as in C
        raise Failure(self.loc, "incomplete preprocessor expression" if not token else f"unexpected '{token}'")


def evaluate(text: str, loc: Loc) -> int:
    """Evaluate a macro-expanded #if expression. Raises Failure at `loc` when it is malformed."""
    parser = _Parser(text, loc)
    value = parser.ternary()
    if parser.peek():
        raise Failure(loc, f"unexpected '{parser.peek()}' after the preprocessor expression")
    return value
