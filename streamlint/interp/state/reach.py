"""What the names, objects and statements of a path hold: which memory nothing holds any more."""

from __future__ import annotations

from collections import defaultdict
from itertools import chain, pairwise
from typing import TYPE_CHECKING

from streamlint.interp.state import cells, stored, symbols
from streamlint.interp.state.values import (
    BufferV,
    CallbackV,
    ContextV,
    Env,
    EventV,
    FuncV,
    GeneratorV,
    HeapV,
    MethodV,
    PartialV,
    SymV,
    TupleV,
    Value,
)
from streamlint.trace import BufferId, EventId

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.interp.state.values import HeapObject


_FEW = 8
"""Elements of a container that is looked through at once: what is asked for is mostly held elsewhere."""


def unreachable(m: Machine, wanted: set[BufferId]) -> set[BufferId]:
    """The wanted buffers that nothing holds."""
    missing = wanted - _in_flight(m)
    if not missing:
        return missing
    roots: list[Value] = []
    moved, same = m.life.moved, m.life.same
    # Most are held by a name, which is seen at once, and nothing else is looked at then.
    for root in _roots(m):
        if type(root) is not BufferV:
            if type(root) in _HOLD:
                roots.append(root)
        elif not root.bare:
            meant = moved.get(root.id, root).id
            for number in (root.id, meant) if root.region else (meant,):
                if number in missing or number in same:
                    _found(m, number, missing)
            if not missing:
                return missing
    return _not_reached(m, roots, missing)


def reached(m: Machine, roots: Iterable[Value], wanted: set[BufferId]) -> set[BufferId]:
    """The wanted buffers that values hold, directly or through others."""
    return wanted - _not_reached(m, roots, set(wanted))


def held_events(m: Machine) -> set[EventId]:
    """The events that somebody holds, or may hold: also what unknown objects were given."""
    found: set[EventId] = set()
    seen: set[int] = set()
    scopes: cells.Seen = set()
    waiting = [*_roots(m), *m.roles.values()]
    while waiting:
        value = waiting.pop()
        match value:
            case EventV(number):
                found.add(number)
            case HeapV(number) if number not in seen:
                seen.add(number)
                waiting += _held_by(m.heap[number])
            case CallbackV(func=func):
                waiting.append(func)
            case HeapV():
                pass
            case _:
                waiting += inside(m, value, scopes)
    return found


def unreachable_objects(m: Machine, wanted: set[HeapV]) -> set[HeapV]:
    """The wanted objects that nothing holds: also not the running statement of a caller that has made one."""
    callers = [frame for frame in m.frames[:-1] if frame.statement is not None]
    missing = {one for one in wanted if all(one.id < frame.objects for frame in callers)}
    if not missing:
        return missing
    seen: set[int] = set()
    scopes: cells.Seen = set()
    waiting = [*_roots(m), *m.roles.values()]
    while waiting and missing:
        match waiting.pop():
            case HeapV(number) as held if number not in seen:
                seen.add(number)
                missing.discard(held)
                waiting += _held_by(m.heap[number])
            case CallbackV(func=func):
                waiting.append(func)
            case HeapV():
                pass
            case value:
                waiting += inside(m, value, scopes)
    return missing


def _not_reached(m: Machine, roots: Iterable[Value], missing: set[BufferId]) -> set[BufferId]:
    """What of ``missing`` the roots do not lead to; the search ends when all is found.

    So large containers come last: ``self.sizes = {"q": (rows, dtype), ...}`` of sixty entries leads to none.
    """
    seen: set[int] = set()
    scopes: cells.Seen = set()
    waiting: list[Value] = []
    moved, heap, same = m.life.moved, m.heap, m.life.same
    of_objects, computed = _in_objects(m), _computed(m)
    leads = bool(of_objects or computed)  # whether unknown values that hold nothing may lead to something
    late: list[Value] = []
    put_off: set[int] = set()
    for root in chain(_leading(roots, unknown=leads), late):
        waiting.append(root)
        while waiting:
            value = waiting.pop()
            if isinstance(value, SymV):
                waiting += _leading(value.holds, unknown=True)
                if computed:
                    above = (value.symbol, *symbols.owners(value.symbol))
                    waiting += [computed[one] for one in above if one in computed]
                if of_objects:
                    waiting += of_objects.pop(stored.whole(value.symbol), ())
            elif isinstance(value, BufferV):
                if value.bare:
                    continue
                if value.region and value.id in missing:
                    # high = x[n:]; x.data = other: the part is a tensor by itself, and stays what it is.
                    _found(m, value.id, missing)
                number = moved.get(value.id, value).id
                if number in missing or number in same:
                    _found(m, number, missing)
                    if not missing:
                        return missing
            elif isinstance(value, HeapV):
                if value.id in seen:
                    continue
                held = heap[value.id]
                if len(held.items) + len(held.entries) > _FEW and value.id not in put_off:
                    put_off.add(value.id)
                    late.append(value)
                    continue
                seen.add(value.id)
                waiting += _leading(_held_by(held), unknown=leads)
                if of_objects and held.symbol is not None:
                    waiting += of_objects.pop(stored.whole(held.symbol), ())
            elif isinstance(value, TupleV):
                waiting += _leading(value.items, unknown=leads)
            elif isinstance(value, CallbackV):
                if not value.address:
                    _found(m, value.id, missing)
                    if not missing:
                        return missing
                    waiting.append(value.func)
            else:
                waiting += _leading(inside(m, value, scopes), unknown=leads)
    return missing


def _leading(values: Iterable[Value], *, unknown: bool) -> list[Value]:
    """Those that are memory or may lead to some; ``unknown``: so may unknown values that hold nothing."""
    return [one for one in values if type(one) in _HOLD and (unknown or type(one) is not SymV or one.holds)]


def _computed(m: Machine) -> dict[Symbol, Value]:
    """What operators on unknown values gave that turned out to be tensors: ``squares = x * x``.

    And what callers have passed on: only names of the code lead to these.
    """
    roles = m.roles
    return {symbol: roles[symbol] for symbol in (*m.guesses, *m.life.passed_on) if symbol in roles}


def _in_objects(m: Machine) -> dict[Symbol, list[Value]]:
    """What was put into unknown objects that nobody but the code at hand holds, by the object."""
    found: dict[Symbol, list[Value]] = defaultdict(list)
    for place, value in m.roles.items():
        owner = symbols.taken_from(place)
        if owner is not None and type(value) in _HOLD:
            found[owner].append(value)
    return found


_HOLD = frozenset({BufferV, HeapV, TupleV, SymV, MethodV, ContextV, PartialV, GeneratorV, FuncV, CallbackV})
"""Values that are memory or lead to some; a path has far more of the others."""


def _held_by(held: HeapObject) -> Iterable[Value]:
    sample = [one for one in (held.sample, held.key_sample, held.rest) if one is not None]
    return (
        *held.attrs.values(),
        *held.entries.values(),
        *held.items,
        *held.extra.values(),
        *held.keys.values(),
        *sample,
    )


def inside(m: Machine, value: Value, scopes: cells.Seen) -> Iterable[Value]:
    """What an immutable value leads to at once; ``scopes`` are the closures that were looked through."""
    match value:
        case SymV(_, holds):
            return holds
        case TupleV(items):
            return items
        case MethodV(receiver) | ContextV(_, receiver):
            return (receiver,)
        case PartialV(func, args, kwargs) | GeneratorV(func, args, kwargs):
            return (func, *args, *kwargs.values())
        case FuncV(receiver=receiver):
            return (*(() if receiver is None else (receiver,)), *cells.held(m, value, scopes))
        case _:
            return ()


def _in_flight(m: Machine) -> set[BufferId]:
    """Buffers made by the running statement of a caller before it made the call that runs now.

    In ``f(x.clone(), g())`` nothing but the unfinished statement holds the clone while ``g`` runs. It holds
    the tensor: after ``x.set_(torch.empty(0))`` in ``f`` that means other memory.
    """
    flying: set[BufferId] = set()
    for caller, callee in pairwise(m.frames):
        flying.update(BufferId(number) for number in range(caller.born, callee.entered))
    meant = {moved.id for number, moved in m.life.moved.items() if number in flying}
    return (flying - m.life.moved.keys()) | meant


def _roots(m: Machine) -> Iterator[Value]:
    for begin in (*(frame.env for frame in reversed(m.frames)), *m.made_in.values()):
        env: Env | None = begin
        while env is not None:
            yield from env.names.values()
            env = env.parent
    going_on = (frame for feeder in m.feeders.values() for frame in feeder.frames)
    yield from (value for frame in going_on for value in frame.env.names.values())
    yield from (value for one in m.stepped.values() for value in one.frame.env.names.values())
    yield from (block.source for one in m.stepped.values() for block in one.blocks)
    yield from (frame.result for frame in m.frames if frame.result is not None)
    yield from m.life.held
    yield from m.life.kept
    yield from m.life.outside
    yield from m.life.lent
    # parameter.register_hook(hook): the tensor holds the function, and that what it has closed over.
    yield from (hook for found in m.hooks.values() for hook in found)
    # with OffloadActivations(): loss = model(x). What autograd keeps was packed, and its hook unpacks it.
    yield from (value for one in m.saved for value in (one.unpack, one.packed))
    taken_from, guesses, passed_on = symbols.taken_from, m.guesses, m.life.passed_on
    held = ((p, v) for p, v in m.roles.items() if p not in guesses and p not in passed_on)
    yield from [v for place, v in held if taken_from(place) is None]
    yield from m.remembered.values()
    yield from m.life.moved.values()
    yield from (one.does for one in m.life.finalizers.values() if one is not None)
    # While a module's own body runs, its names are in the frame, and what others see lags behind.
    base = m.frames[0]
    own = base.env.names.keys() if base.function == base.env.module else ()
    yield from (v for (where, name), v in m.globals.items() if where != base.env.module or name not in own)


def _found(m: Machine, number: BufferId, missing: set[BufferId]) -> None:
    """The buffer is alive, and so is what it may be another name of."""
    if number not in m.life.same:
        missing.discard(number)
        return
    waiting, seen = [number], {number}
    while waiting:
        here = waiting.pop()
        missing.discard(here)
        for other in m.life.same.get(here, ()):
            if other not in seen:
                seen.add(other)
                waiting.append(other)
