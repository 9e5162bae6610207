"""The front end: a P4_16 v1model program to typed IR.

    .p4 -> preprocess -> lex -> parse -> elaborate (resolve, type-check, lower) -> ir.Program

Every stage raises or collects located diagnostics; `compile_p4` raises them all as one CompileError.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from p4switch import ir
from p4switch.frontend import ast
from p4switch.frontend.elaborate import elaborate
from p4switch.frontend.errors import CompileError, Diagnostic, ErrorList, Failure, render
from p4switch.frontend.lexer import Tokens, lex
from p4switch.frontend.parser import parse
from p4switch.frontend.preprocess import Preprocessor
from p4switch.frontend.source import Preprocessed

__all__ = ["CompileError", "Diagnostic", "FrontendOptions", "Stages", "compile_p4", "dump", "run_stages"]

# Trees are at most MAX_DEPTH of the parser deep; the phases take up to six Python frames per level.
_RECURSION_LIMIT = 10_000


@dataclass(frozen=True)
class FrontendOptions:
    """How to read a program.

    include_dirs: where #include looks, after the including file's directory and before the built-in files.
    defines: macros defined in advance, by name.
    control_plane_only: the program is wanted for its P4Info; externs that p4switch cannot run are no errors then.
    """

    include_dirs: tuple[Path, ...] = ()
    defines: Mapping[str, str] = field(default_factory=dict)
    control_plane_only: bool = False


@dataclass
class Stages:
    """What each stage made, as far as it got; for dumps."""

    source: Preprocessed | None = None
    tokens: Tokens | None = None
    tree: ast.Program | None = None
    program: ir.Program | None = None


def run_stages(path: Path, options: FrontendOptions, stages: Stages, until: str = "ir") -> None:
    """Run the front end up to a stage ('source', 'tokens', 'ast', 'ir'). Raises CompileError."""
    if sys.getrecursionlimit() < _RECURSION_LIMIT:
        sys.setrecursionlimit(_RECURSION_LIMIT)
    preprocessor = Preprocessor(options.include_dirs, options.defines)
    errors = ErrorList()
    try:
        stages.source = preprocessor.run(path)
        if until == "source":
            return
        stages.tokens = lex(stages.source)
        if until == "tokens":
            return
        stages.tree = parse(stages.tokens, errors)
        if until != "ast" and not errors.diagnostics:
            files = tuple(stages.source.files)
            stages.program = elaborate(stages.tree, str(path), files, errors, options.control_plane_only)
    except Failure as failure:
        raise CompileError([*errors.diagnostics, failure.diagnostic], preprocessor.sources) from None
    except CompileError as error:
        raise CompileError(error.diagnostics, preprocessor.sources) from None
    if errors.diagnostics:
        raise CompileError(errors.diagnostics, preprocessor.sources)
    if stages.program is not None and errors.warnings:
        texts = tuple(render(w, preprocessor.sources, "warning") for w in errors.warnings)
        stages.program = replace(stages.program, warnings=texts)


def compile_p4(
    path: Path | str,
    include_dirs: Sequence[Path | str] = (),
    defines: Mapping[str, str] | None = None,
    control_plane_only: bool = False,
) -> ir.Program:
    """Compile a v1model program to IR. Raises CompileError with every error found."""
    stages = Stages()
    options = FrontendOptions(tuple(Path(d) for d in include_dirs), dict(defines or {}), control_plane_only)
    run_stages(Path(path), options, stages)
    assert stages.program is not None
    return stages.program


def dump(
    path: Path | str, stage: str, include_dirs: Sequence[Path | str] = (), defines: Mapping[str, str] | None = None
) -> str:
    """Print what a stage makes of a program: 'source' (preprocessed), 'tokens', 'ast' or 'ir'. Raises CompileError."""
    stages = Stages()
    options = FrontendOptions(tuple(Path(d) for d in include_dirs), dict(defines or {}))
    run_stages(Path(path), options, stages, stage)
    if stage == "source" and stages.source is not None:
        return stages.source.text
    if stage == "tokens" and stages.tokens is not None:
        return stages.tokens.dump()
    if stage == "ast" and stages.tree is not None:
        return ast.dump(stages.tree.declarations)
    from p4switch.ir_text import print_ir

    assert stages.program is not None
    return print_ir(stages.program)
