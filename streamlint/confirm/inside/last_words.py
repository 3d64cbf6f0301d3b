"""What a program under test wrote last, fit to be shown; standard library only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_LONGEST_LINE: Final = 300


def tail(log: Path) -> str:
    """The last line that was written, for a reason: ``": ValueError: ..."``; nothing if there is none."""
    text = log.read_bytes()[-8192:].decode("utf-8", errors="replace") if log.exists() else ""
    lines = text.strip().splitlines()
    return f": {printable(lines[-1])[:_LONGEST_LINE]}" if lines else ""


def printable(text: str) -> str:
    """Without control characters, which a terminal would obey."""
    return "".join(c if c.isprintable() else "?" for c in text)
