"""Which births and deaths of blocks matter in a window; of three events of four, nearly all of them do not.

* Of a block that more than one agent uses: its birth, and its death where a call gave it back.
* Of a block that gets the memory of such a one: its birth, and the death of that one.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.confirm.observe.events import Block, Half, Life


def freed(halves: Sequence[Half]) -> set[Block]:
    """Blocks of a stream that a call gave back: who uses them after that is judged in any case."""
    return {
        block
        for half in halves
        for _, block, born in half.lives
        if block.by_call and not born and block.stream is not None
    }


class Lives:
    """Those of a window that matter, if these blocks are shared."""

    def __init__(self, halves: Sequence[Half], shared: set[Block]) -> None:
        self.births: set[Block] = set()
        """Of blocks that get memory of a shared one."""
        self.before: dict[Block, Block] = {}
        """By a shared block of a stream's own: the one of that stream that had its memory before."""
        self._shared = shared
        self._deaths: set[Block] = set()
        self._starts: list[int] = []
        self._free: dict[int, Block] = {}
        last: dict[int, Block] = {}
        for half in halves:
            for _, block, born in half.lives:
                if born:
                    if self._starts:
                        self._born(block)
                    if block in shared and block.start in last:
                        self._follows(block, last[block.start])
                else:
                    last[block.start] = block
                    if block in shared and block.size:
                        self._died(block)

    def of(self, half: Half) -> list[Life]:
        some = self._shared | self.births | self._deaths
        asked = [life for life in half.lives if life[1] in some or life[1].stream is None]
        return [life for life in asked if life[2] or self._matters(life[1])]

    def _matters(self, dead: Block) -> bool:
        return dead in self._deaths or (dead.by_call and dead in self._shared)

    def _follows(self, block: Block, old: Block) -> None:
        if block.stream is not None and old.stream == block.stream:
            self.before[block] = old

    def _died(self, block: Block) -> None:
        if block.start not in self._free:
            insort(self._starts, block.start)
        self._free[block.start] = block

    def _born(self, block: Block) -> None:
        for start in self._overlapped(block):
            self.births.add(block)
            self._deaths.add(self._free.pop(start))
            self._starts.remove(start)

    def _overlapped(self, block: Block) -> list[int]:
        starts, free = self._starts, self._free
        index, end = bisect_left(starts, block.start), block.start + max(block.size, 1)
        found = []
        if index:
            dead = free[starts[index - 1]]
            if dead.start + dead.size > block.start:
                found.append(dead.start)
        while index < len(starts) and starts[index] < end:
            found.append(starts[index])
            index += 1
        return found
