"""Paths, and source text by project path, for what works with text: comments and rendering."""

from __future__ import annotations

import io
import os
import re
import secrets
import shutil
import tokenize
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_LINE_END = re.compile(r"\r\n|\r|\n")
"""Python's line ends. ``str.splitlines`` also splits at form feeds and U+2028, and would shift the lines."""


def absolute(path: Path) -> Path:
    """Make a path absolute and drop its ``..``, but keep the symbolic links that the user sees."""
    return Path(os.path.abspath(path))  # noqa: PTH100  (Path.absolute keeps `..`)


def is_folder(path: Path) -> bool:
    """Tell whether a path is a folder; False, not an error, for a name that no file can have."""
    return os.path.isdir(path)  # noqa: PTH112  (Path.is_dir raises on a name that is too long)


def is_file(path: Path) -> bool:
    """Tell whether a path is a regular file (no pipe, no device); False for a name that no file can have."""
    return os.path.isfile(path)  # noqa: PTH113


@dataclass(frozen=True, slots=True)
class SourceFiles:
    """Reads files below ``root`` once; ``overlay`` holds text that is not on disk (standard input)."""

    root: Path
    overlay: Mapping[str, bytes] = field(default_factory=dict)
    _lines: dict[str, tuple[str, ...]] = field(default_factory=dict, init=False)

    def content(self, path: str) -> bytes | None:
        """Return the bytes of a file, or None if it cannot be read."""
        if path in self.overlay:
            return self.overlay[path]
        try:
            return (self.root / path).read_bytes()
        except (OSError, ValueError):
            return None

    def lines(self, path: str) -> tuple[str, ...]:
        """Return the lines of a file without their ends; nothing if it cannot be read or decoded."""
        if path not in self._lines:
            content = self.content(path)
            text = decode(content) if content is not None else None
            self._lines[path] = tuple(_LINE_END.split(text)) if text is not None else ()
        return self._lines[path]


def decode(content: bytes) -> str | None:
    """Decode Python source by its mark or its coding comment (UTF-8 without one); None if that fails."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        return content.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError):
        return None


def write_whole(path: Path, content: str) -> None:
    """Write a file as a whole or not at all: whoever stops a run finds what was there before, or all of it.

    The text goes into a new file in the same folder, which then takes the name. A link stays one. What is no
    regular file (``/dev/stdout``, a pipe) is written to as it is. Raises OSError.
    """
    target = Path(os.path.realpath(path))
    data = content.encode("utf-8", "backslashreplace")
    if target.exists() and not is_file(target):
        target.write_bytes(data)
        return
    # Not by `tempfile`: the file is to be as readable as any other that the user makes.
    new = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.tmp")
    try:
        with new.open("xb") as file:
            file.write(data)
        if target.exists():
            shutil.copymode(target, new)
        new.replace(target)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
