"""Where streams, events and memory stand that a loop or a call moves about without making any.

``front, back = back, front`` and ``free.append(free.popleft())``: no number says which slot is next. What
stands where does, and a slot comes back when all of them stand as they did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from streamlint.interp.state.budgets import Most
from streamlint.interp.state.values import BufferV, EventV, HeapV, Shape, StreamV, TupleV, Value
from streamlint.trace import BufferId

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from streamlint.interp.state.machine import Machine

Arrangement: TypeAlias = "tuple[tuple[str, object], ...]"
"""Places, and what stands there."""

_MEMORY = "memory"
LARGEST_RING = 8
"""A longer list is no ring of slots."""
MOST_PLACES = Most(200, "places at which streams and memory stand")


def of(m: Machine, roots: Iterable[tuple[str, Value]], before: int) -> Arrangement:
    """What stands where, as far as names, attributes and short lists lead to it.

    ``before`` is how many buffers there were when the loop began: what is made anew in each pass is no slot.
    """
    found: list[tuple[str, object]] = []
    seen: set[int] = set()
    waiting = list(roots)
    while waiting and m.project.budgets.allows(MOST_PLACES, len(found) + 1):
        place, value = waiting.pop()
        match value:
            case BufferV(number, region) if number < before:
                found.append((place, (_MEMORY, number, region)))
            case StreamV(number) | EventV(number):
                found.append((place, (type(value).__name__, number)))
            case TupleV(items) if len(items) <= LARGEST_RING:
                waiting += [(f"{place}.{i}", item) for i, item in enumerate(items)]
            case HeapV(number) if number not in seen:
                seen.add(number)
                held = m.heap[number]
                if held.shape is Shape.LIST and not held.open and len(held.items) <= LARGEST_RING:
                    waiting += [(f"{place}.{i}", item) for i, item in enumerate(held.items)]
                elif held.shape is Shape.INSTANCE:
                    waiting += [(f"{place}.{name}", item) for name, item in sorted(held.attrs.items())]
            case _:
                pass
    return tuple(sorted(found, key=lambda item: item[0]))


def of_frames(m: Machine) -> Arrangement:
    """What stands where, for all functions that run."""
    roots = [
        (f"{depth}.{name}", value)
        for depth, frame in enumerate(m.frames)
        for name, value in frame.env.names.items()
    ]
    return of(m, roots, len(m.buffers))


def swapped(before: Arrangement, after: Arrangement) -> tuple[tuple[BufferId, BufferId], ...]:
    """Memory that stood at a place, and what stands there now, where each has taken the other's place."""
    stood, stands = _memory(before), _memory(after)
    moved = {(stood[place], stands[place]) for place in stood.keys() & stands.keys()}
    return tuple(sorted(pair for pair in moved if pair[0] != pair[1] and pair[::-1] in moved))


def _memory(stands: Arrangement) -> dict[str, BufferId]:
    return {
        place: BufferId(thing[1])
        for place, thing in stands
        if isinstance(thing, tuple) and thing[0] == _MEMORY
    }


def _kept(stood: Sequence[Arrangement]) -> list[Arrangement]:
    """What stands somewhere in all arrangements: what is made anew or dropped in between is no slot."""
    things = [{thing for _, thing in one} for one in stood]
    kept = things[0].intersection(*things[1:])
    return [tuple(item for item in one if item[1] in kept) for one in stood]


def moved(now: Arrangement, before: Arrangement) -> Arrangement:
    """How the things that there were before stand now, if some of them stand elsewhere; else as they stood.

    ``page`` of a loop is another one in each pass, and ``slot = free[0]`` is one more place of a slot.
    """
    (_, second), stood = _kept([before, now]), dict(before)
    return second if any(stood.get(place, thing) != thing for place, thing in second) else before


def comes_around(stood: Sequence[Arrangement]) -> bool:
    """Whether things still move from pass to pass, and do not stand yet as they once did."""
    if len(stood) < 2:
        return False
    *earlier, now = _kept(stood)
    return now != earlier[-1] and now not in earlier
