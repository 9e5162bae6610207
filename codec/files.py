"""Write files that others read while they are written."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file; a reader sees the old file or the new one, never a part.

    What is no regular file, such as a device, a pipe or a link, is written to and stays what it is. Raises OSError.
    """
    target = Path(path)
    if target.is_symlink() or (target.exists() and not target.is_file()):
        target.write_text(text)
        return
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        unfinished.write_text(text)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
