"""Where something was held when it was last looked for: while it is there, nothing has to be looked through.

After each statement, memory that is used aside is looked for in all that a path holds, and so are objects
with a ``__del__``. Most stay where they are: in ``self.pages[0]`` of the object whose method runs, in a
variable of a function that runs, or in a parameter of a module of the caller's.
"""

from __future__ import annotations

from collections import deque
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from streamlint.interp.state import symbols
from streamlint.interp.state.lives import LastSeen, Local, Outside, Part
from streamlint.interp.state.values import BufferV, HeapV, SymV, TupleV

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from streamlint.interp.state.lives import Slot
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.interp.state.values import Value
    from streamlint.trace import BufferId

Thing: TypeAlias = "BufferId | HeapV"
T = TypeVar("T", "BufferId", "HeapV")
_Seen: TypeAlias = "tuple[Value, LastSeen]"
_Parts: TypeAlias = "Callable[[Machine, Value], Iterable[tuple[Slot, Value]]]"

_DEEPEST = 4
"""Slots from a root to the thing: ``self.state.slots[0].rows``."""


def not_there(m: Machine, wanted: AbstractSet[T]) -> set[T]:
    """What is not where it was seen last, or was not seen yet."""
    known = m.life.seen_in
    if not known:
        return set(wanted)
    missing: set[T] = set()
    receivers = _receivers(m)
    for thing in wanted:
        at = known.get(thing)
        if at is None or thing not in _things(m, _held_at(m, at, receivers)):
            missing.add(thing)
    return missing


def last(m: Machine, things: Iterable[Thing]) -> bool:
    """Whether what was seen is where it will be for long."""
    return all(m.life.seen_in[thing].lasts for thing in things)


def note(m: Machine, held: Iterable[Thing]) -> None:
    """Looks where things are that something holds; for what is nowhere to be seen, less and less often."""
    looks = m.life.looked_for
    missing: set[Thing] = set()
    for thing in held:
        looks[thing] = times = looks.get(thing, 0) + 1
        if not times & (times - 1):
            missing.add(thing)
    if missing:
        _look(m, missing)


def _look(m: Machine, missing: set[Thing]) -> None:
    """What lasts longest comes first: then the others, for what is in none of those."""
    _look_from(m, _lasting(m), missing, _slots)
    if missing:
        _look_from(m, _passing(m), missing, _parts)


def _look_from(m: Machine, roots: Iterable[_Seen], missing: set[Thing], parts: _Parts) -> None:
    seen: set[int] = set()
    waiting = deque(roots)
    while waiting and missing:
        value, at = waiting.popleft()
        for thing in missing.intersection(_things(m, value)):
            m.life.seen_in[thing], m.life.looked_for[thing] = at, 0
            missing.discard(thing)
        if len(at.slots) == _DEEPEST:
            continue
        if type(value) is HeapV:
            if value.id in seen:
                continue
            seen.add(value.id)
        waiting.extend((part, LastSeen(at.root, (*at.slots, slot))) for slot, part in parts(m, value))


def _lasting(m: Machine) -> Iterator[_Seen]:
    yield from ((HeapV(number), LastSeen(number, ())) for number in _receivers(m))
    for number, value in enumerate(m.life.outside):
        if type(value) is HeapV:
            yield value, LastSeen(Outside(number), ())
    for place, value in m.roles.items():
        if type(value) in _HOLD and _is_root(m, place):
            yield value, LastSeen(place, ())


def _passing(m: Machine) -> Iterator[_Seen]:
    yield from _lasting(m)
    for number, value in enumerate(m.life.outside):
        if type(value) is not HeapV:
            yield value, LastSeen(Outside(number), ())
    for depth, frame in enumerate(m.frames):
        for name, value in frame.env.names.items():
            if type(value) in _HOLD:
                yield value, LastSeen(Local(depth, name), ())


def _receivers(m: Machine) -> dict[int, None]:
    """The objects whose methods run, or go on when something comes for them."""
    frames = chain(m.frames, *(feeder.frames for feeder in m.feeders.values()))
    return {frame.receiver.id: None for frame in frames if type(frame.receiver) is HeapV}


def _is_root(m: Machine, place: Symbol) -> bool:
    return place not in m.guesses and place not in m.life.passed_on and symbols.taken_from(place) is None


def _slots(m: Machine, value: Value) -> Iterable[tuple[Slot, Value]]:
    if type(value) is HeapV:
        held = m.heap[value.id]
        for parts in (held.attrs.items(), held.entries.items(), held.extra.items(), enumerate(held.items)):
            yield from ((slot, part) for slot, part in parts if type(part) in _HOLD)


def _parts(m: Machine, value: Value) -> Iterable[tuple[Slot, Value]]:
    yield from _slots(m, value)
    fixed = enumerate(_fixed(m, value))
    yield from ((Part(number), part) for number, part in fixed if part is not None and type(part) in _HOLD)


def _fixed(m: Machine, value: Value | None) -> tuple[Value | None, ...]:
    match value:
        case HeapV(number):
            held = m.heap[number]
            return (held.sample, held.key_sample, held.rest)
        case TupleV(items):
            return items
        case SymV(_, holds):
            return holds
        case _:
            return ()


_HOLD = frozenset({BufferV, HeapV, TupleV, SymV})


def _held_at(m: Machine, at: LastSeen, receivers: dict[int, None]) -> Value | None:
    value = _root(m, at.root, receivers)
    for slot in at.slots:
        if isinstance(slot, Part):
            value = _element(_fixed(m, value), slot.number)
            continue
        if type(value) is not HeapV:
            return None
        held = m.heap[value.id]
        if isinstance(slot, str):
            value = held.attrs.get(slot)
        elif isinstance(slot, int):
            value = _element(held.items, slot)
        else:
            value = held.entries.get(slot) or held.extra.get(slot)
    return value


def _root(m: Machine, root: int | Local | Outside | Symbol, receivers: dict[int, None]) -> Value | None:
    if isinstance(root, int):
        return HeapV(root) if root in receivers else None
    if isinstance(root, Local):
        return m.frames[root.depth].env.names.get(root.name) if root.depth < len(m.frames) else None
    if isinstance(root, Outside):
        return _element(m.life.outside, root.number)
    return m.roles.get(root) if _is_root(m, root) else None


def _element(values: Sequence[Value | None], number: int) -> Value | None:
    return values[number] if number < len(values) else None


def _things(m: Machine, value: Value | None) -> tuple[Thing, ...]:
    """The memory that a tensor holds: ``p.data = page`` gives it another one, and not the views of it.

    An object holds itself.
    """
    if type(value) is HeapV:
        return (value,)
    if type(value) is not BufferV or value.bare:
        return ()
    meant = m.life.moved.get(value.id, value).id
    return (value.id, meant) if value.region else (meant,)
