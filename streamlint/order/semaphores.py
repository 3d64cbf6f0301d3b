"""Which of those who gave a semaphore back somebody who has it must have waited for.

``room = Semaphore(2)``: two may take it, and each further one needs that somebody has given it back before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streamlint.trace import OpId


class Semaphore:
    """How often one was taken, and what gave it back, in the order in which the trace has that."""

    __slots__ = ("_after", "_before", "_given", "_left")

    def __init__(self, count: int) -> None:
        self._left = count
        """How often it may be taken before anybody gives it back; below zero, how often one must have."""
        self._given: list[OpId] = []
        self._before: list[int] = []
        """How many of the others surely come before each that gave it back ..."""
        self._after: list[int] = []
        """... and how many surely come after it."""

    def give(self, op: OpId, is_before: Callable[[OpId, OpId], bool]) -> None:
        before = [at for at, other in enumerate(self._given) if is_before(other, op)]
        for at in before:
            self._after[at] += 1
        self._given.append(op)
        self._before.append(len(before))
        self._after.append(0)

    def take(self) -> Iterator[tuple[OpId, bool]]:
        """Who gave it back before it was taken now: surely, or perhaps.

        Of two host functions in one stream the first has, if one was needed; of two in two streams either.
        """
        self._left -= 1
        needed = -self._left
        for op, before, after in zip(self._given, self._before, self._after, strict=True):
            without = len(self._given) - 1 - after
            if without < needed:
                yield op, True
            elif before < needed:
                yield op, False
