"""Parser: tokens to the abstract syntax tree, by hand, because P4's grammar depends on which names are types."""

from __future__ import annotations

from p4switch.frontend import ast
from p4switch.frontend.errors import ErrorList
from p4switch.frontend.lexer import Tokens
from p4switch.frontend.parser.declarations import DeclarationParser


def parse(tokens: Tokens, errors: ErrorList) -> ast.Program:
    """Parse a whole program. Broken declarations and statements are reported to `errors` and left out."""
    return DeclarationParser(tokens, errors).program()
