"""Where memory was held when it was last looked for: while it is there, nothing has to be looked through.

After each statement, memory that is used aside is looked for in all that a path holds. Most of it stays where
it is: in ``self.pages[0]`` of the object whose method runs, or in a parameter of a module of the caller's.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from streamlint.interp.state import symbols
from streamlint.interp.state.lives import LastSeen
from streamlint.interp.state.values import BufferV, HeapV

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from collections.abc import Set as AbstractSet

    from streamlint.interp.state.lives import Slot
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.interp.state.values import HeapObject, Value
    from streamlint.trace import BufferId

_DEEPEST = 4
"""Slots from a root to the memory: ``self.state.slots[0].rows``."""


def not_there(m: Machine, wanted: AbstractSet[BufferId]) -> set[BufferId]:
    """The memory that is not where it was seen last, or was not seen yet."""
    known = m.life.seen_in
    if not known:
        return set(wanted)
    missing: set[BufferId] = set()
    lasting = _lasting(m)
    for number in wanted:
        at = known.get(number)
        if at is None or not _holds(m, at, number, lasting):
            missing.add(number)
    return missing


def note(m: Machine, held: AbstractSet[BufferId]) -> None:
    """Looks where memory is that something holds; for what is nowhere to be seen, less and less often."""
    looks = m.life.looked_for
    missing: set[BufferId] = set()
    for number in held:
        looks[number] = times = looks.get(number, 0) + 1
        if not times & (times - 1):
            missing.add(number)
    if missing:
        _look(m, missing)


def _look(m: Machine, missing: set[BufferId]) -> None:
    seen: set[int] = set()
    waiting: deque[tuple[Value, LastSeen]] = deque(_roots(m))
    while waiting and missing:
        value, at = waiting.popleft()
        if type(value) is BufferV:
            for number in missing.intersection(_memory(m, value)):
                m.life.seen_in[number] = at
                missing.discard(number)
        elif type(value) is HeapV and value.id not in seen and len(at.slots) < _DEEPEST:
            seen.add(value.id)
            waiting.extend(
                (part, LastSeen(at.root, (*at.slots, slot))) for slot, part in _parts(m.heap[value.id])
            )


def _roots(m: Machine) -> Iterator[tuple[Value, LastSeen]]:
    yield from ((HeapV(number), LastSeen(number, ())) for number in _lasting(m))
    for place, value in m.roles.items():
        if type(value) in _HOLD and _is_root(m, place):
            yield value, LastSeen(place, ())


def _lasting(m: Machine) -> dict[int, None]:
    """The objects whose methods run, and those that callers have."""
    found: dict[int, None] = {}
    for value in m.life.outside:
        if type(value) is HeapV:
            found[value.id] = None
    for frame in m.frames:
        if type(frame.receiver) is HeapV:
            found[frame.receiver.id] = None
    return found


def _is_root(m: Machine, place: Symbol) -> bool:
    return place not in m.guesses and place not in m.life.passed_on and symbols.taken_from(place) is None


def _parts(held: HeapObject) -> Iterable[tuple[Slot, Value]]:
    for parts in (held.attrs.items(), held.entries.items(), enumerate(held.items)):
        yield from ((slot, part) for slot, part in parts if type(part) in _HOLD)


_HOLD = frozenset({BufferV, HeapV})


def _holds(m: Machine, at: LastSeen, number: BufferId, lasting: dict[int, None]) -> bool:
    root = at.root
    value: Value | None = None
    if isinstance(root, int):
        value = HeapV(root) if root in lasting else None
    elif _is_root(m, root):
        value = m.roles.get(root)
    for slot in at.slots:
        if type(value) is not HeapV:
            return False
        held = m.heap[value.id]
        if isinstance(slot, str):
            value = held.attrs.get(slot)
        elif isinstance(slot, int):
            value = held.items[slot] if slot < len(held.items) else None
        else:
            value = held.entries.get(slot)
    return number in _memory(m, value)


def _memory(m: Machine, value: Value | None) -> tuple[BufferId, ...]:
    """The memory that a tensor holds: ``p.data = page`` gives it another one, and not the views of it."""
    if type(value) is not BufferV or value.bare:
        return ()
    meant = m.life.moved.get(value.id, value).id
    return (value.id, meant) if value.region else (meant,)
