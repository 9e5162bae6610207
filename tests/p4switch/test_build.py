"""The build driver: cache, containers, and what it says when something is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from p4switch import toolchain
from p4switch.build import BuildError, build, load_container
from p4switch.dataplane import DataPlane
from p4switch.frontend import CompileError

PROGRAMS = Path(__file__).parent / "language" / "programs"
PROGRAM = """#include "part.p4"
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply { std.egress_spec = PORT; }
}
MAIN(I)
"""


@pytest.fixture(scope="module")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program of three files."""
    (tmp_path / "part.p4").write_text('#define PORT 2\n#include "common.p4"\n')
    path = tmp_path / "program.p4"
    path.write_text(PROGRAM)
    return path


def output_port(library: Path) -> int:
    with DataPlane() as dataplane:
        dataplane.load(library)
        ((port, _),) = dataplane.inject(1, bytes(8))
        return port


def test_a_second_build_finds_the_first(program: Path, cache_dir: Path) -> None:
    first = build(program, [PROGRAMS], cache_dir=cache_dir)
    second = build(program, [PROGRAMS], cache_dir=cache_dir)
    assert not first.cached
    assert second.cached
    assert second.library == first.library
    assert second.p4info == first.p4info
    assert output_port(second.library) == 2


def test_a_changed_include_or_macro_builds_anew(program: Path, cache_dir: Path) -> None:
    first = build(program, [PROGRAMS], cache_dir=cache_dir)
    (program.parent / "part.p4").write_text('#ifndef PORT\n#define PORT 3\n#endif\n#include "common.p4"\n')
    changed = build(program, [PROGRAMS], cache_dir=cache_dir)
    defined = build(program, [PROGRAMS], {"PORT": "4"}, cache_dir=cache_dir)
    assert changed.library != first.library
    assert output_port(changed.library) == 3
    assert output_port(defined.library) == 4


def test_a_cached_build_imports_neither_front_end_nor_protobuf(program: Path, cache_dir: Path) -> None:
    build(program, [PROGRAMS], cache_dir=cache_dir)
    code = (
        "import sys; from pathlib import Path; from p4switch.build import build\n"
        f"assert build({str(program)!r}, [{str(PROGRAMS)!r}], cache_dir=Path({str(cache_dir)!r})).cached\n"
        "print([m for m in sys.modules if m.startswith(('p4switch.frontend', 'p4switch.emit', 'google', 'finsy'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_a_container_gives_the_same_program(program: Path, cache_dir: Path, tmp_path: Path) -> None:
    built = build(program, [PROGRAMS], cache_dir=cache_dir)
    loaded = load_container(built.container, cache_dir)
    elsewhere = load_container(built.container, tmp_path / "other")
    assert loaded.library == built.library
    assert elsewhere.p4info == built.p4info
    with pytest.raises(BuildError, match="carries no P4 source"):
        _ = loaded.program
    assert built.program.ingress.name == "I"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: b"", "not a .p4bin of this version"),
        (lambda c: b"{}" + c, "not a .p4bin of this version"),
        (lambda c: c[:-1], "truncated or was altered"),
        (lambda c: c.replace(b"valid_", b"wrong_", 1), "truncated or was altered"),
        (lambda c: c[:40], "cannot be read"),
        (lambda c: c.replace(b'"p4info": "', b'"p4info": "%'), "cannot be read"),
        (lambda c: c.replace(b'"abi": ', b'"abi": 99', 1), "compiled for ABI version 99"),
    ],
)
def test_damaged_containers(change: Callable[[bytes], bytes], message: str, program: Path, cache_dir: Path) -> None:
    container = build(program, [PROGRAMS], cache_dir=cache_dir).container
    with pytest.raises(BuildError, match=message):
        load_container(change(container), cache_dir)


def test_a_missing_compiler_is_named(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-cc")
    toolchain.compiler.cache_clear()
    toolchain.runtime_key.cache_clear()
    try:
        with pytest.raises(BuildError, match=r"no C compiler 'no-such-cc'.*apt-get install gcc"):
            build(program, [PROGRAMS], cache_dir=tmp_path / "cache")
    finally:
        monkeypatch.undo()
        toolchain.compiler.cache_clear()
        toolchain.runtime_key.cache_clear()


def test_a_cache_that_cannot_be_written_is_named(program: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BuildError, match=r"cannot write to the cache directory .*P4SWITCH_CACHE"):
        build(program, [PROGRAMS], cache_dir=tmp_path / "file" / "cache")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system")
def test_a_full_disk_is_named(program: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    code = (
        "import sys; from pathlib import Path; from p4switch.build import BuildError, build\n"
        f"try: build({str(program)!r}, [{str(PROGRAMS)!r}], cache_dir=Path({str(disk)!r}))\n"
        "except BuildError as error: print(error)"
    )
    mount = f'mount -t tmpfs -o size=64k none {disk} && exec {sys.executable} -c "$0"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", mount, code], capture_output=True, text=True, check=True, timeout=120
    )
    assert "No space left on device" in done.stdout, done.stdout + done.stderr
    assert len(done.stdout.splitlines()) == 1


def test_what_nobody_uses_is_removed_in_time(program: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    old = build(program, [PROGRAMS], cache_dir=cache)
    for entry in cache.iterdir():
        os.utime(entry, (0, 0))
    new = build(program, [PROGRAMS], {"OTHER": "1"}, cache_dir=cache)  # finds the same program, under another index
    assert new.library == old.library
    (program.parent / "part.p4").write_text('#define PORT 9\n#include "common.p4"\n')
    stale = cache / "program-of-old"
    stale.mkdir()
    os.utime(stale, (0, 0))
    build(program, [PROGRAMS], cache_dir=cache)
    assert not stale.exists()
    assert old.library.exists()  # used a moment ago
    assert old.runtime.exists()


def test_errors_in_the_program_are_the_front_ends(program: Path, cache_dir: Path) -> None:
    program.write_text(PROGRAM.replace("PORT;", "nothing;"))
    with pytest.raises(CompileError) as caught:
        build(program, [PROGRAMS], cache_dir=cache_dir)
    assert f"{program}:3:" in str(caught.value)


def test_what_the_emitter_cannot_do_is_located(program: Path, cache_dir: Path) -> None:
    text = '#define HEADERS h_t h; odd_t odd;\nheader odd_t { bit<7> x; }\n#include "common.p4"\n'
    program.write_text(text + PROGRAM.split("\n", 1)[1].replace("PORT", "2"))
    with pytest.raises(CompileError) as caught:
        build(program, [PROGRAMS], cache_dir=cache_dir)
    assert "header odd_t has 7 bits, which is no whole number of bytes" in str(caught.value)
    assert "common.p4:26:" in str(caught.value)
    assert "packet.emit(hdr);" in str(caught.value)  # the line, with a caret below it


def test_two_builds_at_once_share_one_result(program: Path, tmp_path: Path) -> None:
    code = (
        "from pathlib import Path; from p4switch.build import build\n"
        f"print(build({str(program)!r}, [{str(PROGRAMS)!r}], cache_dir=Path({str(tmp_path / 'shared')!r})).library)"
    )
    running = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    libraries = {process.communicate(timeout=120)[0].strip() for process in running}
    assert all(process.returncode == 0 for process in running)
    (library,) = libraries
    assert Path(library).exists()
    assert not list((tmp_path / "shared").glob(".*"))  # no scratch directories left
