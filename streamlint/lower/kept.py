"""Functions of a file that stay as they are while its text is edited are not lowered again."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from streamlint.lower.text import Lazy

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlint import ir

Key: TypeAlias = "tuple[str, int, tuple[str, ...]]"
"""What a function of a module is lowered from: the prefix of its name, its first line, and its lines."""


class Lowered:
    """The functions of one module, in the text that was indexed last."""

    def __init__(self) -> None:
        self._before: dict[Key, Lazy[ir.Function]] = {}
        self._now: dict[Key, Lazy[ir.Function]] = {}

    def begin(self) -> None:
        """Another text is indexed; what is not in it is forgotten when the one after it comes."""
        self._before, self._now = self._now, {}

    def function(self, key: Key, lower: Callable[[], ir.Function]) -> Lazy[ir.Function]:
        known = self._before.get(key)
        # One that was not wanted so far holds the whole text that it stands in.
        found = known if known is not None and known.is_made else Lazy(lower)
        self._now[key] = found
        return found
