"""Paths, and the one way to read a file that somebody else wrote; source text by project path."""

from __future__ import annotations

import codecs
import errno
import io
import os
import re
import stat
import tokenize
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from streamlint import notebook
from streamlint.frozen import frozen
from streamlint.parsing import MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

_LINE_END = re.compile(r"\r\n|\r|\n")
"""Python's line ends. ``str.splitlines`` also splits at form feeds and U+2028, and would shift the lines."""

_SLOW_ENCODINGS = frozenset({"idna", "punycode"})
"""Encodings of host names: Python reads source text in them, in a time that grows with its square."""


class UnreadableError(Exception):
    """A file that cannot be read or decoded; the text says why and does not name it."""

    def __init__(self, reason: str, line: int = 0, *, missing: bool = False) -> None:
        super().__init__(reason)
        self.line = line
        self.missing = missing
        """There is nothing of that name."""


def read(path: Path, limit: int = MAX_BYTES) -> bytes:
    """Read a regular file of at most ``limit`` bytes. Raises UnreadableError.

    Everything that a tree brings along is read here. A pipe or a device may have any name: it is not waited
    for, and nothing is read from it. The size that counts is that of the file which is open.
    """
    flags = (
        os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
    )
    try:
        descriptor = os.open(path, flags)
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise UnreadableError("not a regular file")
            if found.st_size > limit:
                raise UnreadableError(_too_large(found.st_size, limit))
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                data = file.read(limit + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        missing = error.errno in (errno.ENOENT, errno.ENOTDIR)
        raise UnreadableError(error.strerror or str(error), missing=missing) from error
    except ValueError as error:  # a NUL in the name
        raise UnreadableError(str(error), missing=True) from error
    if len(data) > limit:  # it grew
        raise UnreadableError(_too_large(len(data), limit))
    return data


def read_source(path: Path, limit: int = MAX_BYTES) -> bytes:
    """Read a Python file, or a notebook as the module that its cells are. Raises UnreadableError."""
    if path.suffix != notebook.SUFFIX:
        return read(path, limit)
    try:
        return notebook.parse(read(path, notebook.MAX_BYTES)).module
    except notebook.NotebookError as error:
        raise UnreadableError(str(error), error.line) from error


def text_of(content: bytes) -> str:
    """Decode Python source as Python does, and give all lines one end. Raises UnreadableError."""
    return with_one_end(decoded(content))


def with_one_end(text: str) -> str:
    """Return a text in which all lines end alike; no line and no column is another."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def lines_of(text: str, *, keepends: bool = False) -> list[str]:
    """Return the lines of a text, as Python and editors count them."""
    return io.StringIO(text, newline="").readlines() if keepends else _LINE_END.split(text)


def _too_large(size: int, limit: int) -> str:
    return f"file too large ({size} bytes, the limit is {limit})"


def absolute(path: Path) -> Path:
    """Make a path absolute and drop its ``..``, but keep the symbolic links that the user sees."""
    return Path(os.path.abspath(path))  # noqa: PTH100  (Path.absolute keeps `..`)


def relative(path: Path, root: Path) -> str:
    """Return an absolute path as output shows it: from the root, with ``/``."""
    text, above = os.fspath(path), os.path.join(root, "")  # noqa: PTH118  (for each file of a tree)
    if text.startswith(above) and ".." not in text:
        return text[len(above) :].replace(os.sep, "/")
    return Path(os.path.relpath(path, root)).as_posix()


def is_folder(path: Path) -> bool:
    """Tell whether a path is a folder; False, not an error, for a name that no file can have."""
    return os.path.isdir(path)  # noqa: PTH112  (Path.is_dir raises on a name that is too long)


def is_there(path: Path) -> bool:
    """Tell whether there is anything of a name; False, not an error, for a name that no file can have."""
    return os.path.lexists(path)


def is_file(path: Path) -> bool:
    """Tell whether a path is a regular file (no pipe, no device); False for a name that no file can have."""
    return os.path.isfile(path)  # noqa: PTH113


@frozen()
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
            return read_source(self.root / path)
        except UnreadableError:
            return None

    def lines(self, path: str) -> tuple[str, ...]:
        """Return the lines of a file without their ends; nothing if it cannot be read or decoded."""
        if path not in self._lines:
            content = self.content(path)
            try:
                self._lines[path] = tuple(lines_of(decoded(content))) if content is not None else ()
            except UnreadableError:
                self._lines[path] = ()
        return self._lines[path]


def decoded(content: bytes) -> str:
    """Decode Python source as Python does. Raises UnreadableError, with the line."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        if _is_slow(encoding):
            raise UnreadableError(f"text in the encoding {encoding} is not read", 1)
    except (SyntaxError, LookupError) as error:
        # A byte that is no UTF-8 in the first two lines is found here.
        try:
            content.decode("utf-8")
        except UnicodeDecodeError as wrong:
            raise _not_text(content, wrong) from error
        raise UnreadableError(str(error), 1) from error
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        raise _not_text(content, error) from error
    except (UnicodeError, LookupError) as error:
        raise UnreadableError(f"not text in the encoding {encoding}: {error}", 1) from error


def _is_slow(encoding: str) -> bool:
    return codecs.lookup(encoding).name in _SLOW_ENCODINGS


def encoded(text: str) -> bytes:
    """Encode a Python source as its coding comment says that it is."""
    data = text.encode("utf-8", "surrogatepass")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data if _is_slow(encoding) else text.encode(encoding)
    except (SyntaxError, LookupError, UnicodeError):  # an error of the file, which the analysis tells
        return data


def _not_text(content: bytes, error: UnicodeDecodeError) -> UnreadableError:
    name = "UTF-8" if error.encoding.startswith("utf") else error.encoding
    line = content.count(b"\n", 0, error.start) + 1
    return UnreadableError(f"not {name} text (byte {error.start})", line)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file as a whole or not at all: whoever stops a run finds what was there before, or all of it.

    The text goes into a new file in the same folder, which then takes the name. A link stays one. What is no
    regular file (``/dev/stdout``, a pipe) is written to as it is. Raises OSError.
    """
    target = Path(os.path.realpath(path))
    data = content if isinstance(content, bytes) else content.encode("utf-8", "backslashreplace")
    if target.exists() and not is_file(target):
        target.write_bytes(data)
        return
    import secrets
    import shutil

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
