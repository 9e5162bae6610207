"""Lexer: preprocessed text to tokens, with one master expression.

Tokens are kept in parallel lists (kinds, texts, lines, columns) because the parser looks at kinds far more often than
at anything else. A keyword or operator token's kind is its own text; other kinds are 'ID', 'INT', 'STR', 'PRAGMA',
'EOF' and 'BAD', a character that P4 does not have, which only the body of an annotation may contain. '>>' is two
tokens '>': only the parser knows whether it closes two type argument lists or shifts.
"""

from __future__ import annotations

import re

from p4switch.frontend.errors import Failure
from p4switch.frontend.source import Preprocessed
from p4switch.ir import Loc

KEYWORDS = frozenset(
    [
        "abstract",
        "action",
        "actions",
        "apply",
        "bool",
        "bit",
        "break",
        "const",
        "continue",
        "control",
        "default",
        "else",
        "entries",
        "enum",
        "error",
        "exit",
        "extern",
        "false",
        "for",
        "header",
        "header_union",
        "if",
        "in",
        "inout",
        "int",
        "key",
        "list",
        "match_kind",
        "type",
        "out",
        "package",
        "parser",
        "priority",
        "return",
        "select",
        "state",
        "string",
        "struct",
        "switch",
        "table",
        "this",
        "transition",
        "true",
        "tuple",
        "typedef",
        "varbit",
        "value_set",
        "void",
    ]
)
# Keywords that may also name things (P4_16 grammar: nonTypeName).
NAME_KEYWORDS = frozenset(
    ["apply", "key", "actions", "state", "entries", "type", "priority", "list", "break", "continue", "for"]
)

_MASTER = re.compile(
    r"(?P<ID>[A-Za-z_$]\w*)"
    r"|(?P<NL>\n)"
    r"|(?P<SKIP>[ \t\r\f\v]+)"
    r"|(?P<INT>[0-9]\w*)"  # parse_int tells whether it is one
    r'|(?P<STR>"(?:\\.|[^"\\\n])*")'
    r'|(?P<LONG>(?<=\()"(?:\\.|[^"\\])*")'  # over several lines, in annotations
    r"|(?P<PRAGMA>@pragma\b[^\n]*)"
    r"|(?P<OP>&&&|\.\.\.|\|\+\|=?|\|-\|=?|<<=|<<|<=|>=|==|!=|&&|\|\||\+\+|\.\.|\+=|\+:|-=|\*=|/=|%=|&=|\|=|\^=|\{#\}"
    r"|[-+*/%&|^~!<>=?:;,.(){}\[\]@#])"
    r"|(?P<BAD>.)"
)


class Tokens:
    """The tokens of one program; `loc(i)` is where token i stands in its source file."""

    def __init__(self, source: Preprocessed) -> None:
        self.source = source
        self.kinds: list[str] = []
        self.texts: list[str] = []
        self.lines: list[int] = []
        self.columns: list[int] = []

    def loc(self, index: int) -> Loc:
        return self.source.loc(self.lines[index], self.columns[index])

    def dump(self) -> str:
        """Print one token a line: location, kind, text."""
        return "".join(f"{self.loc(i)}\t{k}\t{self.texts[i]}\n" for i, k in enumerate(self.kinds))


def lex(source: Preprocessed) -> Tokens:
    """Split preprocessed text into tokens, ending with one 'EOF'."""
    tokens = Tokens(source)
    kinds, texts, lines, columns = tokens.kinds, tokens.texts, tokens.lines, tokens.columns
    keywords = KEYWORDS
    line = 0
    line_start = 0
    for match in _MASTER.finditer(source.text):
        group = match.lastgroup
        if group == "SKIP":
            continue
        if group == "NL":
            line += 1
            line_start = match.end()
            continue
        text = match.group()
        if group == "ID":
            kinds.append(text if text in keywords else "ID")
        elif group == "OP":
            kinds.append(text)
        elif group == "LONG":
            if len(kinds) < 3 or kinds[-3] != "@":
                raise bad_character(source.loc(line, match.start() - line_start), '"')
            kinds.append("STR")
            texts.append(text)
            lines.append(line)
            columns.append(match.start() - line_start)
            line += text.count("\n")
            line_start = match.start() + text.rfind("\n") + 1
            continue
        else:
            kinds.append(group or "")
        texts.append(text)
        lines.append(line)
        columns.append(match.start() - line_start)
    kinds.append("EOF")
    texts.append("end of file")
    lines.append(line)
    columns.append(len(source.text) - line_start)
    return tokens


def bad_character(loc: Loc, text: str) -> Failure:
    """Say what is wrong with a 'BAD' token."""
    if text == '"':
        return Failure(loc, "string literal is not closed on its line", 'end it with "')
    if text == "'":
        return Failure(loc, "unexpected character '", 'strings are written in double quotes: "text"')
    return Failure(
        loc, f"unexpected character {text!r}", "P4 programs use ASCII characters outside of comments and strings"
    )


_LITERAL = re.compile(r"(?:(\d+)([ws]))?(?:0([xXbBoOdD]))?([0-9a-fA-F_]+)")
_BASES = {"x": 16, "b": 2, "o": 8, "d": 10}


def parse_int(text: str, loc: Loc) -> tuple[int, int | None, bool]:
    """Read an integer literal. Returns (value, width or None, signed)."""
    match = _LITERAL.fullmatch(text)
    if match is None:
        raise Failure(loc, f"'{text}' is no integer literal", "examples: 10, 0x1F, 0b1010, 8w0x1F, 4s7")
    width, sign, base, digits = match.groups()
    plain = digits.replace("_", "")
    if not plain:
        raise Failure(loc, f"integer literal '{text}' has no digits")
    try:
        value = int(plain, _BASES[base.lower()] if base else 10)
    except ValueError:
        raise Failure(loc, f"'{text}' is no integer literal", "examples: 10, 0x1F, 0b1010, 8w0x1F, 4s7") from None
    return value, int(width) if width else None, sign == "s"
