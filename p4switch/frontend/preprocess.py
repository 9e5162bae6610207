"""The C-style preprocessor of P4_16 programs.

#include <> and "", #define with and without arguments (# and ## too), #undef, #if/#ifdef/#ifndef/#elif/#else/#endif
with expressions, #error, #pragma and #line (ignored), line continuation and comments. The output keeps one line per
source line and blanks comments in place, so that lines without macros keep their columns; the map in `Preprocessed`
does the rest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from p4switch.frontend.errors import Failure, did_you_mean
from p4switch.frontend.pp_expression import evaluate
from p4switch.frontend.source import Preprocessed, SourceFiles
from p4switch.ir import Loc

# p4c-bm2-ss defines it, and programs for several targets choose by it.
PREDEFINED = {"__TARGET_BMV2__": "1"}
INCLUDE_DIR = Path(__file__).resolve().parent.parent / "include"
MAX_INCLUDE_DEPTH = 64
MAX_EXPANSIONS = 100_000
MAX_LINE = 1_000_000

_COMMENT = re.compile(r'@\w+\("(?:\\.|[^"\\])*"|"(?:\\.|[^"\\\n])*"|//(?:\\\n|[^\n])*|/\*.*?\*/|/\*', re.DOTALL)
_BLANKS = re.compile(r'"(?:\\.|[^"\\\n])*"?|//[^\n]*|/\*.*?\*/|[^\S\n]*\n[^\S\n]*|[^\S\n]+', re.DOTALL)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_PIECE = re.compile(r'"(?:\\.|[^"\\])*"|[A-Za-z_]\w*|\d\w*|\s+|.', re.DOTALL)
_DIRECTIVE = re.compile(r"[ \t]*#[ \t]*([A-Za-z_]\w*)?")
_DEFINE = re.compile(r"\s*([A-Za-z_]\w*)(\(([^)]*)\))?")
_DIRECTIVES = (
    "include",
    "define",
    "undef",
    "if",
    "ifdef",
    "ifndef",
    "elif",
    "else",
    "endif",
    "error",
    "warning",
    "pragma",
    "line",
)


@dataclass(frozen=True)
class Macro:
    """A #define. params: None for an object-like macro."""

    name: str
    params: tuple[str, ...] | None
    body: str


@dataclass
class _Condition:
    """An open #if: whether this branch is on, whether one was already taken, whether the surroundings are on."""

    loc: Loc
    active: bool
    taken: bool
    outer: bool
    has_else: bool = False


class Preprocessor:
    """One run over a program and what it includes."""

    def __init__(self, include_dirs: Sequence[Path] = (), defines: Mapping[str, str] | None = None) -> None:
        self.include_dirs = [*include_dirs, INCLUDE_DIR]
        self.macros: dict[str, Macro] = {n: Macro(n, None, v) for n, v in {**PREDEFINED, **(defines or {})}.items()}
        self.sources = SourceFiles()
        self.files: list[str] = []
        self.out: list[str] = []
        self.origins: list[tuple[str, int]] = []
        self.columns: dict[int, list[tuple[int, int, bool]]] = {}
        self._paths: list[Path] = []
        self._expansions = 0

    def run(self, path: Path, text: str | None = None) -> Preprocessed:
        """Preprocess a file; `text` replaces its content when given."""
        self._file(path, text, Loc(str(path), 1, 1))
        return Preprocessed("\n".join(self.out) + "\n", self.origins, self.columns, self.sources, self.files)

    # ------------------------------------------------------------------------------------------------------- files

    def _file(self, path: Path, text: str | None, included_at: Loc) -> None:
        name = str(path)
        if text is None:
            try:
                text = path.read_text(encoding="utf-8", errors="surrogateescape")
            except OSError as error:
                raise Failure(included_at, f"cannot read {name}: {error.strerror}") from None
        text = text.replace("\r\n", "\n")
        self.sources.add(name, text)
        self.files.append(name)
        self._paths.append(path)
        if len(self._paths) > MAX_INCLUDE_DEPTH:
            raise Failure(
                included_at,
                f"#include nested more than {MAX_INCLUDE_DEPTH} deep",
                "guard the file with #ifndef/#define",
            )
        lines = self._without_comments(name, text).split("\n")
        if lines and not lines[-1]:
            lines.pop()
        self._lines(name, lines)
        self._paths.pop()

    def _without_comments(self, name: str, text: str) -> str:
        def blank(match: re.Match[str]) -> str:
            found = match.group()
            if found[0] in '"@':
                return _BLANKS.sub(_blanks_as_cpp, found) if "\n" in found else found
            if found == "/*":
                line = text.count("\n", 0, match.start()) + 1
                column = match.start() - (text.rfind("\n", 0, match.start()) + 1) + 1
                raise Failure(Loc(name, line, column), "comment is not closed", "end it with */")
            return re.sub(r"[^\n]", " ", found) if "\n" in found else " " * len(found)

        return _COMMENT.sub(blank, text)

    def _lines(self, name: str, lines: list[str]) -> None:
        conditions: list[_Condition] = []
        active = True
        macros = self.macros
        index = 0
        while index < len(lines):
            number = index + 1
            line = lines[index]
            index += 1
            if "#" in line and (match := _DIRECTIVE.match(line)):
                body = line[match.end() :]
                while body.endswith("\\") and index < len(lines):
                    body = body[:-1] + lines[index]
                    index += 1
                loc = Loc(name, number, match.start(1) + 1 if match.group(1) else match.end())
                active = self._directive(loc, match.group(1) or "", body, conditions, active)
                line = ""  # an empty line stays, as with cpp: a string over several lines shows it
            elif not active:
                line = ""
            if line.endswith("\\"):
                line = line[:-1]
            if macros and any(word in macros for word in _IDENTIFIER.findall(line)):
                # An invocation may go on over the following lines: take them until its parentheses close.
                while (more := self._unclosed_call(line)) and index < len(lines):
                    line += "\n" + lines[index]
                    index += 1
                if more:
                    raise Failure(
                        Loc(name, number, more[1] + 1), f"arguments of macro '{more[0]}' are not closed", "add ')'"
                    )
                line = self._expand_line(line, Loc(name, number, 1))
            self.out.append(line)
            self.origins.append((name, number))
        if conditions:
            raise Failure(conditions[-1].loc, "conditional is not closed at the end of the file", "add #endif")

    # -------------------------------------------------------------------------------------------------- directives

    def _directive(self, loc: Loc, word: str, body: str, conditions: list[_Condition], active: bool) -> bool:
        """Act on one directive; return whether the lines that follow are active."""
        if word in ("if", "ifdef", "ifndef"):
            holds = active and self._test(word, loc, body)
            conditions.append(_Condition(loc, holds, holds, active))
            return holds
        if word in ("elif", "else", "endif"):
            if not conditions:
                raise Failure(loc, f"#{word} without #if")
            condition = conditions[-1]
            if word == "endif":
                conditions.pop()
                return condition.outer
            if condition.has_else:
                raise Failure(loc, f"#{word} after #else")
            if word == "else":
                condition.has_else = True
                condition.active = condition.outer and not condition.taken
            else:
                condition.active = condition.outer and not condition.taken and self._test("if", loc, body)
            condition.taken = condition.taken or condition.active
            return condition.active
        if not active:
            return active
        if word == "include":
            self._include(loc, body)
        elif word == "define":
            self._define(loc, body)
        elif word == "undef":
            self.macros.pop(body.strip(), None)
        elif word == "error":
            raise Failure(loc, f"#error {body.strip()}")
        elif word and word not in _DIRECTIVES:
            raise Failure(loc, f"unknown directive #{word}", did_you_mean(word, _DIRECTIVES, "directives"))
        return active

    def _test(self, word: str, loc: Loc, body: str) -> bool:
        if word == "if":
            text = re.sub(
                r"\bdefined\b\s*(?:\(\s*([A-Za-z_]\w*)\s*\)|([A-Za-z_]\w*))",
                lambda m: "1" if (m.group(1) or m.group(2)) in self.macros else "0",
                body,
            )
            return evaluate(self.expand(text, loc), loc) != 0
        name = body.strip()
        if not _IDENTIFIER.fullmatch(name.split()[0] if name else ""):
            raise Failure(loc, f"#{word} needs a macro name")
        return (name.split()[0] in self.macros) == (word == "ifdef")

    def _include(self, loc: Loc, body: str) -> None:
        text = body.strip()
        if not text.startswith(("<", '"')):
            text = self.expand(text, loc).strip()
        match = re.fullmatch(r'<([^>]+)>|"([^"]+)"', text)
        if match is None:
            raise Failure(loc, "#include needs a file name", 'write #include <name> or #include "name"')
        wanted = match.group(1) or match.group(2)
        beside = [self._paths[-1].parent] if match.group(2) else []
        for directory in [*beside, *self.include_dirs]:
            candidate = directory / wanted
            if candidate.is_file():
                self._file(candidate, None, loc)
                return
        listed = ", ".join(str(d) for d in [*beside, *self.include_dirs[:-1]])
        hint = did_you_mean(wanted, [p.name for p in INCLUDE_DIR.glob("*.p4")], "built in")
        searched = (
            f"searched {listed} and the built-in includes" if listed else "searched the built-in includes; add -I DIR"
        )
        raise Failure(loc, f"include file '{wanted}' not found", f"{searched}; {hint}" if hint else searched)

    def _define(self, loc: Loc, body: str) -> None:
        match = _DEFINE.match(body)
        if match is None:
            raise Failure(loc, "#define needs a macro name")
        name, has_params, params = match.groups()
        # A parenthesis that does not touch the name belongs to the body.
        names: tuple[str, ...] | None = None
        if has_params is not None:
            names = tuple(p.strip() for p in params.split(",")) if params.strip() else ()
            for param in names:
                if not _IDENTIFIER.fullmatch(param):
                    raise Failure(loc, f"'{param}' is no parameter name of macro '{name}'")
        self.macros[name] = Macro(name, names, body[match.end() :].strip())

    # --------------------------------------------------------------------------------------------------- expansion

    def _unclosed_call(self, line: str) -> tuple[str, int] | None:
        """Find a function-like macro whose argument list does not end in `line`."""
        for match in _IDENTIFIER.finditer(line):
            macro = self.macros.get(match.group())
            if macro is None or macro.params is None:
                continue
            rest = line[match.end() :]
            if rest.lstrip().startswith("(") and _arguments(rest) is None:
                return match.group(), match.start()
        return None

    def _expand_line(self, line: str, loc: Loc) -> str:
        """Expand one line and note where its pieces came from."""
        pieces: list[str] = []
        segments: list[tuple[int, int, bool]] = []
        length = 0
        position = 0
        while position < len(line):
            match = _PIECE.match(line, position)
            assert match is not None
            word = match.group()
            macro = self.macros.get(word)
            taken = match.end()
            if macro is not None and (replaced := self._invoke(macro, line, taken, loc, frozenset())) is not None:
                text, taken = replaced
                text = text.replace("\n", " ")
                segments.append((length, position, False))
                pieces.append(text)
                length += len(text)
                segments.append((length, taken, True))
            else:
                text = word.replace("\n", " ")
                pieces.append(text)
                length += len(text)
            position = taken
        if length > MAX_LINE:
            raise Failure(loc, f"macros expand this line to more than {MAX_LINE} characters")
        if segments:
            self.columns[len(self.out)] = [(0, 0, True), *segments] if segments[0][0] > 0 else segments
        return "".join(pieces)

    def expand(self, text: str, loc: Loc, hidden: frozenset[str] = frozenset()) -> str:
        """Expand every macro in `text` but those in `hidden` (being expanded already)."""
        pieces: list[str] = []
        position = 0
        size = 0
        while position < len(text):
            match = _PIECE.match(text, position)
            assert match is not None
            word = match.group()
            position = match.end()
            macro = self.macros.get(word)
            if macro is not None and word not in hidden:
                replaced = self._invoke(macro, text, position, loc, hidden)
                if replaced is not None:
                    word, position = replaced
            pieces.append(word)
            size += len(word)
            if size > MAX_LINE:
                raise Failure(loc, f"macros expand this line to more than {MAX_LINE} characters")
        return "".join(pieces)

    def _invoke(
        self, macro: Macro, text: str, position: int, loc: Loc, hidden: frozenset[str]
    ) -> tuple[str, int] | None:
        """Expand a use of `macro` whose name ends at `position`: (text, position after it); None if it is no use."""
        self._expansions += 1
        if self._expansions > MAX_EXPANSIONS or len(hidden) > 200:
            raise Failure(loc, f"macro '{macro.name}' expands without end")
        if macro.params is None:
            body = re.sub(r"\s*##\s*", "", macro.body)
            return self.expand(body, loc, hidden | {macro.name}), position
        rest = text[position:]
        if not rest.lstrip().startswith("("):
            return None
        found = _arguments(rest)
        if found is None:
            raise Failure(loc, f"arguments of macro '{macro.name}' are not closed", "add ')'")
        arguments, end = found
        if not macro.params and [a.strip() for a in arguments] == [""]:
            arguments = []
        if len(arguments) != len(macro.params):
            raise Failure(loc, f"macro '{macro.name}' takes {len(macro.params)} arguments, {len(arguments)} given")
        raw = dict(zip(macro.params, (a.strip() for a in arguments), strict=True))
        pieces: list[str] = []
        body_pieces = _PIECE.findall(macro.body)
        for i, piece in enumerate(body_pieces):
            if piece not in raw:
                pieces.append(piece)
                continue
            before = "".join(body_pieces[:i]).rstrip()
            after = "".join(body_pieces[i + 1 :]).lstrip()
            if before.endswith("#") and not before.endswith("##"):
                pieces = [
                    "".join(pieces).rstrip()[:-1],
                    '"' + raw[piece].replace("\\", "\\\\").replace('"', '\\"') + '"',
                ]
            elif before.endswith("##") or after.startswith("##"):
                pieces.append(raw[piece])
            else:
                pieces.append(self.expand(raw[piece], loc, hidden))
        body = re.sub(r"\s*##\s*", "", "".join(pieces))
        return self.expand(body, loc, hidden | {macro.name}), position + end


def _blanks_as_cpp(match: re.Match[str]) -> str:
    """What becomes of blanks in a string over several lines, after its first line; p4c's P4Info shows it.

    For cpp that is no string: it keeps indentation, makes one blank of several, and leaves none at the end of a line.
    """
    found = match.group()
    if not found.isspace():
        return found
    return "\n" + " " * len(found.split("\n", 1)[1]) if "\n" in found else " "


def _arguments(text: str) -> tuple[list[str], int] | None:
    """Split '( a, b )...' into arguments and the position after ')'. None when it is not closed."""
    depth = 0
    arguments: list[str] = []
    current: list[str] = []
    position = 0
    for match in _PIECE.finditer(text):
        piece = match.group()
        position = match.end()
        if piece in "([{" and piece:
            depth += 1
            if depth == 1:
                continue
        elif piece in ")]}" and piece:
            depth -= 1
            if depth == 0:
                arguments.append("".join(current))
                return arguments, position
        elif piece == "," and depth == 1:
            arguments.append("".join(current))
            current = []
            continue
        if depth:
            current.append(piece)
    return None
