"""Token access, name scopes and error reports shared by the parser's parts."""

from __future__ import annotations

from typing import NoReturn

from p4switch.frontend import ast
from p4switch.frontend.errors import ErrorList, Failure, did_you_mean
from p4switch.frontend.lexer import KEYWORDS, NAME_KEYWORDS, Tokens, bad_character
from p4switch.ir import Loc

MAX_DEPTH = 400  # of nested expressions, types and statements; later phases recurse on the tree

_NAMES = NAME_KEYWORDS | {"ID"}


class ParserBase:
    """A cursor over tokens. `scopes` tells which names are types ('type') and which are not ('value')."""

    def __init__(self, tokens: Tokens, errors: ErrorList) -> None:
        self.tokens = tokens
        self.kinds = tokens.kinds
        self.texts = tokens.texts
        self.errors = errors
        self.index = 0
        self.kind = self.kinds[0]
        self.scopes: list[dict[str, str]] = [{}]
        self.depth = 0
        self.applied: list[str] = []

    # ------------------------------------------------------------------------------------------------------ tokens

    def advance(self) -> str:
        """Take the current token and return its text."""
        text = self.texts[self.index]
        if self.kind != "EOF":
            self.index += 1
            self.kind = self.kinds[self.index]
        return text

    def seek(self, index: int) -> None:
        self.index = index
        self.kind = self.kinds[index]

    def peek(self, ahead: int = 1) -> str:
        index = self.index + ahead
        return self.kinds[index] if index < len(self.kinds) else "EOF"

    def accept(self, kind: str) -> bool:
        if self.kind == kind:
            self.index += 1
            self.kind = self.kinds[self.index]
            return True
        return False

    def expect(self, kind: str, after: str) -> None:
        if self.kind != kind:
            # A forgotten ';' is best shown where it should have stood.
            if kind == ";" and self.index > 0 and self.tokens.lines[self.index] != self.tokens.lines[self.index - 1]:
                loc = self.tokens.loc(self.index - 1)
                end = loc.column + len(self.texts[self.index - 1])
                raise Failure(Loc(loc.file, loc.line, end), f"missing ';' after {after}")
            self.unexpected(f"expected '{kind}' after {after}")
        self.index += 1
        self.kind = self.kinds[self.index]

    def loc(self) -> Loc:
        return self.tokens.loc(self.index)

    def unexpected(self, message: str, hint: str = "") -> NoReturn:
        kind = self.kind
        text = self.texts[self.index]
        if kind == "BAD":
            raise bad_character(self.loc(), text)
        found = "the end of the file" if kind == "EOF" else f"keyword '{text}'" if kind in KEYWORDS else f"'{text}'"
        raise Failure(self.loc(), f"{message}, found {found}", hint)

    def at_name(self) -> bool:
        return self.kind in _NAMES

    def name(self, what: str) -> tuple[str, Loc]:
        """Take a name; `what` says in an error what it would have named."""
        if self.kind not in _NAMES:
            hint = "this word is reserved in P4" if self.kind in KEYWORDS else ""
            self.unexpected(f"expected {what}", hint)
        loc = self.loc()
        return self.advance(), loc

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Failure(self.loc(), f"nested more than {MAX_DEPTH} deep", "split the expression with variables")

    # ------------------------------------------------------------------------------------------------------ scopes

    def declare(self, name: str, kind: str) -> None:
        self.scopes[-1][name] = kind

    def declare_types(self, names: tuple[str, ...]) -> None:
        for name in names:
            self.scopes[-1][name] = "type"

    def is_type(self, name: str) -> bool:
        for scope in reversed(self.scopes):
            kind = scope.get(name)
            if kind is not None:
                return kind == "type"
        return False

    def is_known(self, name: str) -> bool:
        return any(name in scope for scope in self.scopes)

    def type_hint(self, name: str) -> str:
        known = {n for scope in self.scopes for n, kind in scope.items() if kind == "type"}
        return did_you_mean(name, known | {"bit", "int", "bool", "varbit", "error"}, "types")

    # ------------------------------------------------------------------------------------------------- annotations

    def annotations(self) -> tuple[ast.Annotation, ...]:
        if self.kind not in ("@", "PRAGMA"):
            return ()
        found = []
        while self.kind in ("@", "PRAGMA"):
            found.append(self.pragma() if self.kind == "PRAGMA" else self.annotation())
        return tuple(found)

    def pragma(self) -> ast.Annotation:
        """@pragma name body, up to the end of the line: kept as tokens without structure."""
        loc = self.loc()
        words = self.advance()[len("@pragma") :].split(None, 1)
        if not words:
            raise Failure(loc, "@pragma needs a name")
        body = words[1].strip() if len(words) > 1 else ""
        kind = "STR" if body.startswith('"') else "INT" if body.isdigit() else "ID"
        return ast.Annotation(loc, words[0], ((kind, body),) if body else (), bool(body))

    def annotation(self) -> ast.Annotation:
        loc = self.loc()
        self.advance()
        if self.kind in KEYWORDS or self.kind == "ID":
            name = self.advance()
        else:
            self.unexpected("expected a name after '@'")
        body_loc = self.loc()
        if self.accept("("):
            depth = 1
            tokens: list[tuple[str, str]] = []
            while True:
                if self.kind == "EOF":
                    raise Failure(body_loc, f"annotation @{name} is not closed", "add ')'")
                if self.kind == "(":
                    depth += 1
                elif self.kind == ")":
                    depth -= 1
                    if depth == 0:
                        break
                tokens.append((self.kind, self.texts[self.index]))
                self.advance()
            self.advance()
            return ast.Annotation(loc, name, tuple(tokens), True, False, body_loc)
        if self.kind == "[":
            self.advance()
            return self.structured_annotation(loc, name, body_loc)
        return ast.Annotation(loc, name)

    def structured_annotation(self, loc: Loc, name: str, body_loc: Loc) -> ast.Annotation:
        raise NotImplementedError  # given by ExpressionParser
