"""The one way in which commands write: to a terminal or a pipe, and into a file that the user named.

Names of files, keys of configuration and messages about them are somebody else's, and may hold anything.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from streamlint.characters import plain
from streamlint.errors import UserError
from streamlint.files import is_file, write_whole
from streamlint.output.ours import is_ours

if TYPE_CHECKING:
    from typing import TextIO

SOURCE = (".py", ".pyi", ".pyw", ".ipynb")


def write(content: str, stream: TextIO | None) -> None:
    """Write at once; a stream that is closed, or a reader that has gone away (``| head``), is no error."""
    if stream is None:  # `>&-`
        return
    try:
        encoding = stream.encoding or "utf-8"
        stream.write(content.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except OSError as error:
        # Python would complain again when it closes the stream at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if stream is sys.stdout and not isinstance(error, BrokenPipeError):
            raise UserError(f"cannot write: {error.strerror or error}") from error


def show(content: str) -> None:
    """Write lines to standard output, each without what would move the cursor or turn the text around."""
    write("".join(f"{plain(line)}\n" for line in content.split("\n")), sys.stdout)


def output_file(word: str) -> Path:
    """The type of an option that names a file to write: ``check --output a.py`` would leave no ``a.py``."""
    path = Path(word)
    if path.suffix in SOURCE and path.exists():
        raise argparse.ArgumentTypeError(f"`{word}` is source, and would be written over")
    return path


def report_file(word: str) -> Path:
    """The type of an option that names a report: what is there and no report of ours is not written over."""
    path = output_file(word)
    try:
        is_free = not is_file(path) or is_ours(path)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"cannot write `{word}`: {error.strerror or error}") from error
    if not is_free:
        raise argparse.ArgumentTypeError(
            f"`{word}` is there, and nothing that streamlint wrote: remove it, or name another file"
        )
    return path


def save(path: Path, content: str | bytes) -> None:
    """Write a file, whole or not at all. Raises UserError, with the name, if it cannot be written."""
    try:
        write_whole(path, content)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error


def complain(message: str) -> None:
    """Tell what is wrong, or what goes on, on one line of standard error."""
    write(f"streamlint: {plain(message)}\n", sys.stderr)
