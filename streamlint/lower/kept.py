"""What stays as it is while the text of a file is edited is not looked at again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from streamlint.lower.text import Lazy

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from streamlint import ir
    from streamlint.lower.scan import Words

_T = TypeVar("_T")
Text: TypeAlias = "tuple[str, ...]"
"""Lines of a file."""


class Kept(Generic[_T]):
    """What was made of parts of the text that was indexed last."""

    def __init__(self) -> None:
        self._before: dict[Hashable, Lazy[_T]] = {}
        self._now: dict[Hashable, Lazy[_T]] = {}

    def begin(self) -> None:
        """Another text is indexed; what is not in it is forgotten when the one after it comes."""
        self._before, self._now = self._now, {}

    def get(self, key: Hashable, make: Callable[[], _T]) -> Lazy[_T]:
        """Return what ``make`` gives; the key says all that it is made of."""
        known = self._before.get(key)
        # One that was not wanted so far holds the whole text that it stands in.
        found = known if known is not None and known.is_made else Lazy(make)
        self._now[key] = found
        return found


class Lowered:
    """What was made of the parts of one module."""

    def __init__(self) -> None:
        self.functions: Kept[ir.Function] = Kept()
        """By the prefix of the name, the first line, and the text."""
        self.blocks: Kept[tuple[ir.Stmt, ...]] = Kept()
        """By the block, which has the lines, and their text."""
        self.words: Kept[Words] = Kept()
        """Of a function, by its text, wherever it stands."""

    def begin(self) -> None:
        for each in (self.functions, self.blocks, self.words):
            each.begin()
