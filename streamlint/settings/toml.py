"""TOML files that somebody else wrote, and the lines of their keys, which Python's reader does not tell.

A valid text is cut into its statements (``[a.b]``, or ``key = value`` over however many lines), and each of
them is read by itself: so a key is found however it is written, ``tool.x = 1`` or ``"x" = 1`` in ``[tool]``.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from streamlint.errors import UserError, place
from streamlint.files import UnreadableError, read

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

MAX_BYTES = 1_000_000
MOST_PARTS = 100
_LINE = re.compile(r"\bline (\d+)")
"""In the messages of the reader: ``Invalid value (at line 3, column 8)``."""
_TOKEN = re.compile(
    r"""
      \"\"\"(?:[^\\"]|\\.|\"{1,2}(?!\"))*\"{3,5}
    | '''(?:[^']|'{1,2}(?!'))*'{3,5}
    | "(?:[^"\\\n]|\\.)*"
    | '[^'\n]*'
    | \#[^\n]*
    | [\[\]{}\n]
    """,
    re.VERBOSE | re.DOTALL,
)


class ConfigError(UserError):
    """A configuration that cannot be used; the text names the file, the line and the key."""


def text_of(path: Path) -> str:
    """Return the text of a TOML file. Raises ConfigError, with its name, if it cannot be read."""
    try:
        return read(path, MAX_BYTES).decode("utf-8")
    except UnreadableError as error:
        raise ConfigError(f"{path}: {error}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{place(path, line)}: not valid TOML: not UTF-8") from error


def document_of(text: str, path: Path) -> dict[str, object]:
    """Return what the text of a TOML file holds. Raises ConfigError, with its name, if it is none."""
    try:
        _check_dots(text)
        return tomllib.loads(text)
    except RecursionError as error:
        raise ConfigError(f"{path}: not valid TOML: nested too deeply") from error
    except ValueError as error:  # not TOML, or a number of thousands of digits
        named = _LINE.search(str(error))
        line = text.count("\n") + 1 if named is None else int(named[1])  # "at end of document"
        raise ConfigError(f"{place(path, line)}: not valid TOML: {error}") from error


def line_of(text: str, keys: Sequence[str]) -> int | None:
    """Return the line where a key of a valid text is, ``("tool", "streamlint", "jobs")``; None without it."""
    table: Sequence[str] = ()
    for line, statement in _statements(text):
        value: object = tomllib.loads(statement)
        if statement.lstrip().startswith("["):
            table = _header(value)
            if table[: len(keys)] == keys:
                return line
        elif keys[: len(table)] == table and _holds(value, keys[len(table) :]):
            return line
    return None


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield each statement and blank line of a valid text, with the line where it begins."""
    text = text.replace("\r\n", "\n")
    begin, line, depth = 0, 1, 0
    for token in _TOKEN.finditer(text):
        if token[0] in "[{":
            depth += 1
        elif token[0] in "]}":
            depth -= 1
        elif token[0] == "\n" and depth == 0:
            statement = text[begin : token.start()]
            yield line, statement
            line += statement.count("\n") + 1
            begin = token.end()
    yield line, text[begin:]


def _header(value: object) -> tuple[str, ...]:
    """The keys of ``[a.b]``, or of ``[[a.b]]``, which is read as a list."""
    keys = []
    while isinstance(value, dict) and value:
        ((key, value),) = value.items()
        keys.append(key)
    return tuple(keys)


def _holds(value: object, keys: Sequence[str]) -> bool:
    for key in keys:
        if not isinstance(value, dict) or key not in value:
            return False
        value = value[key]
    return True


def _check_dots(text: str) -> None:
    """A key ``a.b.c...`` of 100,000 parts takes a TOML reader the square of that, in time and in memory."""
    for number, line in enumerate(text.splitlines(), 1):
        run = 0
        for part in line.split("."):
            run = run + 1 if part.strip() and not any(char in part.strip() for char in " =,") else 0
            if run > MOST_PARTS:
                raise ValueError(f"line {number}: a key of more than {MOST_PARTS} parts")
