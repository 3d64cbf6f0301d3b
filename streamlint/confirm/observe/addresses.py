"""The live blocks, by any address in them.

An allocator makes and drops hundreds of blocks in a step of a program, and few addresses are asked for
that lie in the middle of one. So what is sorted is brought up to date when somebody asks.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from streamlint.confirm.observe.events import Block

_FEW: Final = 8
_MOST: Final = 4096


class Addresses:
    """``blocks`` are those that are alive, by their first address."""

    def __init__(self) -> None:
        self.blocks: dict[int, Block] = {}
        self._starts: list[int] = []
        """First addresses, sorted; of some blocks that are dead, too."""
        self._fresh: list[int] = []
        """Those that are not sorted in."""

    def enter(self, block: Block) -> None:
        """A block that was there is dead now."""
        known = self.blocks.get(block.start)
        if known is None:
            self._fresh.append(block.start)
            if len(self._fresh) > _MOST:
                self._sort()
        else:
            known.alive = False
        self.blocks[block.start] = block

    def forget(self, block: Block) -> None:
        block.alive = False
        if self.blocks.get(block.start) is block:
            del self.blocks[block.start]

    def find(self, address: int) -> Block | None:
        """The block that holds an address."""
        blocks = self.blocks
        if (block := blocks.get(address)) is not None:
            return block
        if self._fresh or self._holds_many_dead():
            self._sort()
        for index in range(bisect_right(self._starts, address) - 1, -1, -1):
            held = blocks.get(self._starts[index])
            if held is not None:
                return held if address < held.start + held.size else None
        return None

    def _holds_many_dead(self) -> bool:
        return len(self._starts) > 2 * len(self.blocks) + _MOST

    def _sort(self) -> None:
        if len(self._fresh) <= _FEW and not self._holds_many_dead():
            for start in self._fresh:
                insort(self._starts, start)
        else:
            self._starts = sorted(self.blocks)
        self._fresh.clear()
