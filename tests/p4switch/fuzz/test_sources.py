"""Mutated programs: the compiler gives located errors or C that compiles; never a traceback, never without end.

$P4SWITCH_FUZZ multiplies the rounds.
"""

from __future__ import annotations

import random
import re
import subprocess
from pathlib import Path

import pytest

from p4switch.build import compile_container
from p4switch.frontend import CompileError
from p4switch.toolchain import FLAGS, RUNTIME, compiler
from tests.p4switch.fuzz import TIMES

PROGRAMS = sorted(p for p in Path(__file__).parents[1].rglob("*.p4") if p.parent.name != "golden")
WRONG = sorted(Path(__file__).parents[1].rglob("golden/*.p4"))
INCLUDE = Path(__file__).parents[1] / "language" / "programs"
ROUNDS = 100
_PIECE = re.compile(r'[A-Za-z_]\w*|\d\w*|\s+|"[^"\n]*"|.', re.DOTALL)
_NOISE = (
    *("bit", "int", "if", "else", "{", "}", "(", ")", ";", ",", "<", ">", "[", "]", ".", "+", "-", "++", "&&", "||"),
    *("=", "==", "1", "0", "8w5", "4s3", "true", "false", "header", "struct", "table", "action", "state", "in"),
    *("transition", "select", "apply", "inout", "out", "error", "default", "_", "...", "{#}", "&", "&&&", ".."),
    *(":", "?", "!", "~", "exact", "lpm", "switch", "return", "exit", "for", "<<", ">>", "|+|", "/", "%", "*", "-1"),
    *("int<8>", "bit<0>", "bit<1>", "bit<64>", "bit<65>", "varbit<64>", "bool", "string", "tuple<bit<8>>", "error"),
    *("hdr", "meta", "std", "this", "void", "enum", "header_union", "type", "typedef", "const", "register", "counter"),
    *(".next", ".last", ".isValid()", ".setInvalid()", ".apply()", ".push_front(1)", ".minSizeInBytes()", ".lastIndex"),
    *("0xFFFFFFFFFFFFFFFFFF", "@name(\"x\")", "@id(1)", "value_set", "..", "parser", "control", "extern", "8s1"),
)  # fmt: skip


def mutate(text: str, chance: random.Random) -> str:
    """Delete, insert, replace, swap, repeat or move a few tokens, or let a name stand for another."""
    pieces = _PIECE.findall(text)
    for _ in range(chance.choice([1, 1, 2, 4])):
        i, j = chance.randrange(len(pieces)), chance.randrange(len(pieces))
        way = chance.randrange(7)
        if way == 0 and len(pieces) > 1:
            del pieces[i]
        elif way == 1:
            pieces.insert(i, chance.choice(_NOISE))
        elif way == 2:
            pieces[i] = chance.choice(_NOISE)
        elif way == 3:
            pieces[i], pieces[j] = pieces[j], pieces[i]
        elif way == 4:
            pieces[i:i] = pieces[i : i + chance.randrange(20)]
        elif way == 5:
            pieces[j:j] = pieces[i : i + chance.randrange(20)]
        else:
            words = [k for k, piece in enumerate(pieces) if piece[0].isalnum()]
            pieces[chance.choice(words)] = pieces[chance.choice(words)]
    return "".join(pieces)


@pytest.mark.parametrize("seed", range(8))
def test_mutated_programs(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    path, accepted = tmp_path / "mutated.p4", []
    for round_ in range(ROUNDS * TIMES):
        original = chance.choice(PROGRAMS if chance.random() < 0.8 else WRONG)
        path.write_text(mutate(original.read_text(), chance))
        try:
            container = compile_container(path, [INCLUDE], {})
        except CompileError as error:
            assert str(error)
            for diagnostic in error.diagnostics:
                assert diagnostic.message
                assert diagnostic.loc.file
                assert diagnostic.loc.line >= 1
                assert diagnostic.loc.column >= 1
        else:
            accepted.append(tmp_path / f"accepted{round_}.c")
            accepted[-1].write_text(container.c_source)
    assert accepted
    for source in accepted:
        command = [compiler(), *FLAGS, "-fsyntax-only", f"-I{RUNTIME}", str(source)]
        checked = subprocess.run(command, capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stderr
