"""The error that users see as a message."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class UserError(Exception):
    """Something the user can put right; the text says what, and names the file, key or option."""


def place(path: Path, line: int | None) -> str:
    """A place, as terminals and editors make a link of it: ``pyproject.toml:3``."""
    return str(path) if line is None else f"{path}:{line}"
