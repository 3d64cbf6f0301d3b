"""Memory that is filled from its beginning again and again, and read in parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.trace import (
    Copy,
    Doubt,
    HostAccess,
    Interval,
    Launch,
    Overlap,
    Region,
    Symbol,
    SymbolSlice,
    overlap,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.rules.base import Judged, Problem
    from streamlint.trace import Access, BufferId, OpId


def answered(judged: Judged, problem: Problem) -> set[Doubt]:
    """The doubt about two places, where a read gets what a fill has put there, and the next fill follows.

    ``file.readinto(page[:n])``, and then ``page[first:last]`` for each row of it: all that is read lies in
    what was filled, and the next ``page[:m]`` begins where that began. Not of memory of which other parts are
    written, too: ``page[:h] = header; page[h:] = rows``.
    """
    buffer, first = problem.buffer, problem.earlier
    if buffer is None or first is None or Doubt.ALIAS not in problem.doubts:
        return set()
    reads, fills = list(_accesses(judged, first, buffer)), list(_accesses(judged, problem.later, buffer))
    if any(access.mode.writes for access in reads) or not all(_is_fill(access) for access in fills):
        return set()
    if Doubt.ALIAS in judged.hb.ordered(first, problem.later).doubts:
        return set()
    if not any(overlap(read.region, fill.region) is Overlap.MAYBE for read in reads for fill in fills):
        return set()
    before = [
        access
        for number in judged.touching(buffer)
        if number < problem.later
        for access in _accesses(judged, number, buffer)
        if access.mode.writes and access.region
    ]
    return {Doubt.ALIAS} if before and all(map(_is_fill, before)) else set()


def _accesses(judged: Judged, number: OpId, buffer: BufferId) -> Iterator[Access]:
    op = judged.op(number)
    if isinstance(op, (Launch, Copy, HostAccess)):
        yield from (access for access in op.accesses if access.buffer == buffer)


def _is_fill(access: Access) -> bool:
    return access.mode.writes and _is_beginning(access.region)


def _is_beginning(region: Region) -> bool:
    """``page[:n]``"""
    match region:
        case (SymbolSlice(None, Symbol()),) | (Interval(0, _),):
            return True
        case _:
            return False
