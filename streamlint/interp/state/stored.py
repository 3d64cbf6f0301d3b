"""What code has put into objects of which nothing else is known: ``batch["image"] = upload(batch["image"])``.

It stands among the roles of a path, by its place. An object that code got from an iterator is its own: what
was put into it lives as long as something holds the object. Others may be held by whoever gave them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streamlint.interp.state import symbols

if TYPE_CHECKING:
    from streamlint.interp.state.symbols import Symbol


@dataclass(slots=True)
class Stores:
    """Which loops put something into unknown objects: see ``at``."""

    walking: list[int] = field(default_factory=list)
    """The loops over something that are open, by the step at which each began."""
    by: dict[Symbol, int | None] = field(default_factory=dict)
    """Places at which code put something, and the innermost loop that was open then."""

    def put(self, place: Symbol) -> None:
        self.by[place] = self.walking[-1] if self.walking else None

    def is_walked(self, place: Symbol) -> bool:
        """Whether the loop that put something at a place is still open."""
        return self.by.get(place) in self.walking


def whole(symbol: Symbol) -> Symbol:
    """The object that something is a part of: ``batch`` of ``batch.lens[0]``."""
    while isinstance(symbol, (symbols.Attr, symbols.Item)):
        symbol = symbol.of
    return symbol
