"""The .p4bin container: a compiled program as it travels to a switch (P4Runtime's p4_device_config).

Text, self-describing: a magic line, a line of JSON (name, ABI version, P4Info, hash), then the generated C source. The
receiving switch compiles the C with its own compiler. C source is code by nature: accept containers from trusted
controllers only.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass, field

from p4switch.toolchain import BuildError, abi_version, digest

MAGIC = b"#!p4switch p4bin 1\n"


@dataclass(frozen=True)
class Container:
    """name: of the program (its file's stem); p4info: serialized P4Info; c_source: text of the C file.

    translated: the types with @p4runtime_translation, by name, with their widths in the program, which P4Info omits.
    """

    name: str
    p4info: bytes
    c_source: str
    translated: dict[str, int] = field(default_factory=dict)


def pack(container: Container) -> bytes:
    """Serialize a container."""
    manifest = {
        "name": container.name,
        "abi": abi_version(),
        "hash": digest(container.p4info, container.c_source),
        "p4info": base64.b64encode(container.p4info).decode(),
        "translated": container.translated,
    }
    return MAGIC + json.dumps(manifest).encode() + b"\n" + container.c_source.encode()


def unpack(data: bytes) -> Container:
    """Parse a container; BuildError says what is wrong with it."""
    if not data.startswith(MAGIC):
        raise BuildError(
            "not a .p4bin of this version of p4switch (the first line must be "
            f"'{MAGIC.decode().strip()}'); make one with `p4switch compile FILE.p4 -o DIR`"
        )
    head, newline, source = data[len(MAGIC) :].partition(b"\n")
    try:
        manifest = json.loads(head)
        name, abi, expected = str(manifest["name"]), int(manifest["abi"]), str(manifest["hash"])
        p4info = base64.b64decode(manifest["p4info"], validate=True)
        translated = {str(name): int(width) for name, width in manifest.get("translated", {}).items()}
        text = source.decode()
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error, UnicodeDecodeError) as error:
        raise BuildError(
            f"the .p4bin's manifest or source cannot be read ({error}); compile the program again"
        ) from error
    if not newline or digest(p4info, text) != expected:
        raise BuildError("the .p4bin is truncated or was altered; compile the program again")
    if abi != abi_version():
        raise BuildError(
            f"the .p4bin was compiled for ABI version {abi}, this switch has {abi_version()};"
            " compile the program again with this switch's p4switch"
        )
    return Container(name, p4info, text, translated)
