"""What loops have shown of a number: ``for i in range(n)`` has made two passes, so ``n`` is two on that path.

``for i in range(n): done[i].record(streams[i % 2])``, then ``done[n - 1].synchronize()``, which waits for the
event that the last pass has recorded, and for no other one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state import elements, symbols
from streamlint.interp.state.numbers import linear
from streamlint.interp.state.values import ConstV, HeapObject, HeapV, SliceV, SymV, Value, symbol_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol

_FEW = 2
"""Elements that stand for any number of them, as passes do."""


def note(m: Machine, source: Value, passes: int) -> None:
    """A loop over ``source`` has come to its end after so many passes.

    ``n = len(chunks)``, then ``for i, chunk in enumerate(chunks)``: ``n`` is as many.
    """
    held = m.heap[source.id] if isinstance(source, HeapV) else None
    match held:
        case HeapObject(role="range", items=[ConstV(int() as start), ConstV(1), SymV(end)]):
            m.numbers.counts[end] = start + passes
        case HeapObject(role="enumerate", items=[_, inner]):
            note(m, inner, passes)
            return
        case _:
            pass
    if not passes:
        return
    if isinstance(source, SymV):
        m.numbers.counts[source.symbol] = passes
    if elements.listed(m, source) is None:
        m.numbers.counts[symbols.call("len", symbol_of(source))] = passes


def passes_of(m: Machine, source: Value) -> int | None:
    """How many passes the last whole loop over a list of unknown length has made, if there was one."""
    return m.numbers.counts.get(symbols.call("len", symbol_of(source)))


def last_passes(m: Machine, start: Value, end: Value) -> range | None:
    """``range(max(0, n - depth), n)`` behind a loop over ``range(n)``: its last passes, once more."""
    if not isinstance(start, SymV) or not isinstance(end, SymV) or end.symbol not in m.numbers.counts:
        return None
    first = _number(m, start.symbol)
    return range(first, m.numbers.counts[end.symbol]) if first is not None and first >= 0 else None


def as_shown(m: Machine, at: SliceV) -> SliceV:
    """``lanes[:n]`` behind a loop over ``range(n)``, which has shown how many that are."""
    return SliceV(*(_shown_bound(m, bound) for bound in (at.lo, at.hi, at.step)))


def _shown_bound(m: Machine, bound: Value | None) -> Value | None:
    number = _shown(m, bound.symbol) if isinstance(bound, SymV) else None
    return bound if number is None else ConstV(number)


def _number(m: Machine, symbol: Symbol) -> int | None:
    """What is computed of numbers that loops and rings have shown."""
    if (shown := _shown(m, symbol)) is not None:
        return shown
    match symbol:
        case symbols.Const(kind, int() as number) if kind is int:
            return number
        case symbols.Call(symbols.Name("max" | "min" as name), [_, _, *_] as args):
            return _computed(max if name == "max" else min, m, args)
        case symbols.Binary("+", left, right):
            return _computed(sum, m, (left, right))
        case symbols.Binary("-", left, right):
            return _computed(lambda sides: sides[0] - sides[1], m, (left, right))
        case _:
            return None


def _computed(what: Callable[[Sequence[int]], int], m: Machine, symbols_of: Sequence[Symbol]) -> int | None:
    numbers = [number for one in symbols_of if (number := _number(m, one)) is not None]
    return what(numbers) if len(numbers) == len(symbols_of) else None


def _shown(m: Machine, symbol: Symbol) -> int | None:
    """A number that a loop went up to, or a ring has slots, and what is so far behind one: ``n - 1``."""
    base, far = linear(symbol)
    for end, many in m.numbers.counts.items():
        other, behind = linear(end)
        if other is base:
            return many + far - behind
    slots = m.numbers.slots.get(m.numbers.alike.get(base, base))
    return None if slots is None else slots + far


def length(m: Machine, source: Value) -> int | None:
    """How many passes a loop over something makes, if that is known: ``range(1000)``, a list."""
    listed = elements.listed(m, source)
    if listed is not None:
        return len(listed)
    held = m.heap[source.id] if isinstance(source, HeapV) and source.id in m.heap else None
    match held.items if held is not None and held.role == "range" else ():
        case [ConstV(int() as start), ConstV(int() as step), ConstV(int() as end)]:
            return len(range(start, end, step))
        case _:
            return None


def left_going_down(m: Machine, source: Value) -> int | None:
    """How many passes ``for k in reversed(range(len(layers)))`` makes behind a walk over ``layers``.

    It ends with number 0, where a loop that counts up may have one element more than were walked.
    """
    held = m.heap[source.id] if isinstance(source, HeapV) and source.id in m.heap else None
    match held.items if held is not None and held.role == "range" else ():
        case [SymV(first), ConstV(-1), ConstV(int() as end)]:
            base, far = linear(first)
            ends = ((many, *linear(counted)) for counted, many in m.numbers.counts.items())
            return next((many + far - behind - end for many, other, behind in ends if other is base), None)
        case _:
            return None


def was_walked(m: Machine, source: Value) -> bool:
    """Whether a loop has come by the elements of something unknown: ``for name in names: start(name)``."""
    return isinstance(source, SymV) and source.symbol in m.numbers.counts


def passes_over(m: Machine, symbol: Symbol) -> int:
    """How many elements something unknown is taken to have: as many as a loop came by, or a few.

    ``for layer in layers: ...``, and then ``for layer in reversed(layers)``, which begins with the last one.
    """
    return m.numbers.counts.get(symbol, _FEW)


def gives_numbers(m: Machine, symbol: Symbol) -> bool:
    """Whether elements of something are numbers that a loop counts: ``range(n)``, ``enumerate(xs)``."""
    match symbol:
        case symbols.Thing("object", int() as number):
            return m.heap[number].role in ("range", "enumerate", "count")
        case _:
            return False


def before_end(m: Machine, at: Value) -> Value:
    """``n - 1`` of such an ``n`` as a number; other indices as they are."""
    match at:
        case SymV(symbols.Binary("-", end, back)) if end in m.numbers.counts:
            less = symbols.number(back)
            count = m.numbers.counts[end]
            return at if less is None or less > count else ConstV(count - less)
        case _:
            return at
