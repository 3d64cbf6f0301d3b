"""Colours and widths of terminal text.

Written by hand rather than with rich: a few colours do not justify that every install, in every
pre-commit environment, carries a rendering library, and frames need exact control over columns.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from streamlint.finding import Severity
from streamlint.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TextIO

_RESET = "\033[0m"
_SEVERITY = {Severity.ERROR: "1;31", Severity.WARNING: "1;33", Severity.ADVICE: "1;36"}
TAB = 4


@frozen()
class Style:
    """Paints text, or leaves it as it is."""

    colors: bool = False

    def severity(self, text: str, severity: Severity) -> str:
        return self._paint(text, _SEVERITY[severity])

    def strong(self, text: str) -> str:
        return self._paint(text, "1")

    def faint(self, text: str) -> str:
        return self._paint(text, "2")

    def gutter(self, text: str) -> str:
        return self._paint(text, "1;34")

    def related(self, text: str) -> str:
        return self._paint(text, "1;34")

    def help(self, text: str) -> str:
        return self._paint(text, "1;32")

    def _paint(self, text: str, code: str) -> str:
        return f"\033[{code}m{text}{_RESET}" if self.colors and text else text


def wants_colors(choice: str, stream: TextIO | None, environment: Mapping[str, str] = os.environ) -> bool:
    """Decide on colours: the option first, then NO_COLOR, then FORCE_COLOR, then the terminal."""
    if choice != "auto":
        return choice == "always"
    if environment.get("NO_COLOR"):
        return False
    if environment.get("FORCE_COLOR"):
        return True
    # Emacs hands on the name of its own terminal, and shows what colours are made of in `M-x compile`.
    plain = environment.get("TERM") == "dumb" or environment.get("INSIDE_EMACS", "").endswith(",compile")
    return stream is not None and stream.isatty() and not plain
