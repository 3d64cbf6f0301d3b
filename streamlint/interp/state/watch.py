"""Who looks on while a path runs: what a place of the code can name is known only then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from streamlint import ir
    from streamlint.interp.state.machine import Machine


class Watch(Protocol):
    """Looks at a machine, and changes nothing: the path is the one that runs without it."""

    def begins(self, m: Machine, statement: ir.Stmt) -> None:
        """A statement is about to run in the innermost frame."""

    def ended(self, m: Machine, statement: ir.Stmt) -> None:
        """It has run to its end: no ``return`` or ``break`` left it."""

    def issued(self, m: Machine, number: int) -> None:
        """An operation was issued, under this number."""
