"""Which arrows a picture needs: all order among what is shown, and no arrow that the others imply."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.order.hb import Verdict
from streamlint.pictures.model import Arrow, How

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from streamlint.order.hb import HappensBefore
    from streamlint.trace import OpId


def arrows(
    hb: HappensBefore, shown: Sequence[OpId], lanes: Sequence[int], threads: frozenset[int]
) -> tuple[Arrow, ...]:
    """Between lanes only: within a lane the rows say it.

    ``lanes`` has that of each operation of ``shown``; ``threads`` are those of the host: what comes after
    something of theirs does so because they issue it then, and waits for nothing.
    """
    before: dict[int, list[int]] = {}
    sure: list[Arrow] = []
    for later, lane in enumerate(lanes):
        sure += (
            Arrow(earlier, later, How.ISSUED if lanes[earlier] in threads else How.WAITS)
            for earlier in _needed(hb, shown, before, lane, later)
        )
        before.setdefault(lane, []).append(later)
    return (*sure, *_doubtful(hb, shown, lanes))


def _needed(
    hb: HappensBefore, shown: Sequence[OpId], before: Mapping[int, Sequence[int]], lane: int, later: int
) -> list[int]:
    """The last of each other lane that comes before, unless it follows from what comes before already."""
    found = (_last_before(hb, shown, numbers, later) for other, numbers in before.items() if other != lane)
    last = [each for each in found if each is not None]
    known = [*last, *before.get(lane, [])[-1:]]
    return [
        number
        for number in last
        if not any(
            other != number and hb.ordered(shown[number], shown[other]).verdict is Verdict.YES
            for other in known
        )
    ]


def _last_before(hb: HappensBefore, shown: Sequence[OpId], lane: Sequence[int], later: int) -> int | None:
    """What stands in a lane is ordered, so those that come before ``later`` are the first few of it."""
    low, high = 0, len(lane)
    while low < high:
        middle = (low + high) // 2
        if hb.ordered(shown[lane[middle]], shown[later]).verdict is Verdict.YES:
            low = middle + 1
        else:
            high = middle
    return lane[low - 1] if low else None


def _doubtful(hb: HappensBefore, shown: Sequence[OpId], lanes: Sequence[int]) -> Iterator[Arrow]:
    place = {number: index for index, number in enumerate(shown)}
    drawn = set()
    for edge in hb.edges:
        earlier, later = place.get(edge.earlier), place.get(edge.later)
        if not edge.doubts or earlier is None or later is None or lanes[earlier] == lanes[later]:
            continue
        key = (lanes[earlier], later)
        if key not in drawn and hb.ordered(edge.earlier, edge.later).verdict is not Verdict.YES:
            drawn.add(key)
            yield Arrow(earlier, later, How.MAYBE)
