"""Build P4 programs into shared libraries: front end, emitter, C compiler, cache.

    build(path)             a P4 source file
    load_container(bytes)   a .p4bin that `p4switch compile` made

A program that was built before is found by the hashes of its files; nothing of the front end is imported then.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from p4switch.container import Container, pack, unpack
from p4switch.toolchain import (
    PACKAGE,
    BuildError,
    compile_program,
    default_cache_dir,
    digest,
    explain,
    hash_files,
    locked,
    mark_used,
    new_directory,
    prune,
    runtime_key,
    runtime_library,
)

if TYPE_CHECKING:
    from finsy.proto import p4i

    from p4switch import ir

__all__ = ["BuildError", "BuildResult", "build", "load_container", "runtime_library"]

_PROGRAM, _SOURCE, _CONTAINER, _P4INFO = "program.so", "program.c", "program.p4bin", "p4info.bin"


@dataclass(frozen=True)
class BuildResult:
    """A built program.

    name: stem of the source file. library: the program's shared library. runtime: the library that it is linked
    against. cached: nothing had to be compiled.
    """

    name: str
    library: Path
    runtime: Path
    cached: bool
    _recompile: Callable[[], ir.Program] | None = None

    @property
    def p4info_bytes(self) -> bytes:
        """The serialized P4Info."""
        return (self.library.parent / _P4INFO).read_bytes()

    @property
    def p4info(self) -> p4i.P4Info:
        """The P4Info message."""
        from finsy.proto import p4i

        return p4i.P4Info.FromString(self.p4info_bytes)

    @property
    def container(self) -> bytes:
        """The .p4bin: what a controller pushes as p4_device_config."""
        return (self.library.parent / _CONTAINER).read_bytes()

    @property
    def translated(self) -> dict[str, int]:
        """Widths in the program of the types with @p4runtime_translation, by name."""
        return unpack(self.container).translated

    @property
    def c_source(self) -> str:
        """The generated C file."""
        return (self.library.parent / _SOURCE).read_text()

    @property
    def program(self) -> ir.Program:
        """The typed IR, compiled anew; only of programs built from P4 source."""
        if self._recompile is None:
            raise BuildError(f"'{self.name}' was loaded from a .p4bin, which carries no P4 source")
        return self._recompile()


def build(
    path: Path | str,
    include_dirs: Sequence[Path | str] = (),
    defines: Mapping[str, str] | None = None,
    cache_dir: Path | None = None,
    traced: bool = False,
) -> BuildResult:
    """Build a P4 source file. traced: so that it tells what it does with each packet; the normal build cannot.

    Raises CompileError (p4switch.frontend) for errors in the program, BuildError for everything else.
    """
    path = Path(path)  # as given: that is how diagnostics name it
    include_paths = tuple(Path(d) for d in include_dirs)
    defines = dict(defines or {})
    cache_dir = cache_dir or default_cache_dir()

    def compile_source() -> ir.Program:
        from p4switch.frontend import compile_p4

        return compile_p4(path, include_paths, defines)

    options = json.dumps(
        [str(path.resolve()), [str(d.resolve()) for d in include_paths], sorted(defines.items()), traced]
    )
    index = cache_dir / f"source-{digest(options, _compiler_key(), runtime_key())}.json"
    if (found := _look_up(index, cache_dir)) is not None:
        return BuildResult(path.stem, found / _PROGRAM, runtime_library(cache_dir), True, compile_source)

    # The runtime takes as long as the front end, so that they share the cores when both are to be compiled.
    runtime = _InBackground(lambda: runtime_library(cache_dir))
    try:
        container, dependencies = _compile(path, include_paths, defines)
    except BaseException:
        runtime.join()
        raise
    result = _build_container(container, cache_dir, compile_source, runtime.join, traced)
    _remember(index, dependencies, result.library.parent, cache_dir)
    return result


def load_container(data: bytes, cache_dir: Path | None = None, traced: bool = False) -> BuildResult:
    """Build the program in a .p4bin; traced as for `build`. Raises BuildError."""
    cache_dir = cache_dir or default_cache_dir()
    container = unpack(data)
    runtime = _InBackground(lambda: runtime_library(cache_dir))
    return _build_container(container, cache_dir, None, runtime.join, traced)


def compile_container(
    path: Path, include_dirs: Sequence[Path] = (), defines: Mapping[str, str] | None = None
) -> Container:
    """Compile a P4 source file to a container without running the C compiler."""
    return _compile(path, include_dirs, dict(defines or {}))[0]


# ----------------------------------------------------------------------------------------------------------- parts


class _InBackground:
    """A computation in a thread; join() gives its result or raises its exception."""

    def __init__(self, work: Callable[[], Path]) -> None:
        self._work = work
        self._result: Path | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result = self._work()
        except BaseException as error:
            self._error = error

    def join(self) -> Path:
        self._thread.join()
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result


@cache
def _compiler_key() -> str:
    """Hash the compiler's own sources: a changed compiler builds everything anew."""
    files = [*PACKAGE.glob("*.py"), *(PACKAGE / "include").glob("*.p4")]
    for package in ("frontend", "emit"):
        files += (PACKAGE / package).rglob("*.py")
    return hash_files(sorted(files), PACKAGE)


def _compile(path: Path, include_dirs: Sequence[Path], defines: dict[str, str]) -> tuple[Container, list[Path]]:
    """Run the front end and the emitter; also give the files that were read."""
    from p4switch.emit import EmitError, emit_c
    from p4switch.frontend import CompileError, Diagnostic, compile_p4
    from p4switch.p4info import p4info_of

    program = compile_p4(path, include_dirs, defines)
    for warning in program.warnings:
        print(warning, file=sys.stderr)
    try:
        source = emit_c(program)
    except EmitError as error:
        from p4switch.frontend.source import SourceFiles
        from p4switch.ir import Loc

        sources = SourceFiles()
        for file in program.files:
            sources.add(file, Path(file).read_text(errors="replace"))
        diagnostic = Diagnostic(error.loc or Loc(str(path), 1, 1), error.message, error.hint)
        raise CompileError([diagnostic], sources) from error
    p4info = p4info_of(program).SerializeToString(deterministic=True)
    translated = {t.name: t.original.size for t in program.named_types if t.translated and t.original is not None}
    return Container(path.stem, p4info, source, translated), [Path(f).resolve() for f in program.files]


def _build_container(
    container: Container,
    cache_dir: Path,
    recompile: Callable[[], ir.Program] | None,
    runtime: Callable[[], Path],
    traced: bool,
) -> BuildResult:
    variant = json.dumps([container.translated, traced])
    key = digest(container.name, container.c_source, container.p4info, variant, runtime_key())
    directory = cache_dir / f"program-{key}"
    library = directory / _PROGRAM
    cached = library.exists()
    if not cached:
        with locked(cache_dir, f"program-{key[:2]}"):
            if not library.exists():
                prune(cache_dir)
                with new_directory(directory) as scratch:
                    _fill(scratch, container, runtime, traced)
    mark_used(directory)
    return BuildResult(container.name, library, runtime(), cached, recompile)


def _fill(directory: Path, container: Container, runtime: Callable[[], Path], traced: bool) -> None:
    """Write everything that the cache keeps of a program."""
    (directory / _SOURCE).write_text(container.c_source)
    (directory / _P4INFO).write_bytes(container.p4info)
    (directory / _CONTAINER).write_bytes(pack(container))
    compile_program(directory / _SOURCE, directory / _PROGRAM, runtime, traced)


def _look_up(index: Path, cache_dir: Path) -> Path | None:
    """Find the program's directory in the cache if none of its source files has changed."""
    try:
        record = json.loads(index.read_text())
        directory = cache_dir / record["program"]
        if not (directory / _PROGRAM).exists():
            return None
        for file, expected in record["files"]:
            if digest(Path(file).read_bytes()) != expected:
                return None
    except (OSError, ValueError, KeyError, TypeError):
        return None  # no record, or not one of ours: build again
    mark_used(index)
    mark_used(directory)
    return directory


def _remember(index: Path, files: Sequence[Path], directory: Path, cache_dir: Path) -> None:
    record = {"program": directory.name, "files": [(str(f), digest(f.read_bytes())) for f in files]}
    try:
        scratch = index.with_suffix(f".{threading.get_native_id()}")
        scratch.write_text(json.dumps(record))
        scratch.rename(index)
    except OSError as error:
        raise explain(error, cache_dir) from error
