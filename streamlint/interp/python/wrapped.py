"""``enumerate(loader)``, ``zip(loader, names)``: who walks these walks the generator or iterator within."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import frozen
from streamlint.interp.python import containers, objects
from streamlint.interp.state import names
from streamlint.interp.state.values import ConstV, GeneratorV, HeapObject, HeapV, TupleV, Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span


@frozen(eq=False)
class Walked:
    """What gives the values of a loop, and what the loop's variable gets of each: its value, its number."""

    inner: Value
    around: Callable[[Value, int], Value]


def walked(m: Machine, source: Value, span: Span) -> Walked:
    """What a loop over ``source`` walks, of which ``__iter__`` was called."""
    return _within(m, source, span) or Walked(source, lambda value, _: value)


def _within(m: Machine, source: Value, span: Span) -> Walked | None:
    held = m.heap[source.id] if isinstance(source, HeapV) else None
    match held:
        case HeapObject(role="enumerate", items=[ConstV(int() as start), inner]):
            if (found := _stepped(m, inner, span)) is None:
                return None
            around = found.around
            return Walked(found.inner, lambda v, turn: TupleV((ConstV(start + turn), around(v, turn))))
        case HeapObject(role="zip", items=parts):
            return _zipped(m, parts, span)
        case _:
            return None


def _zipped(m: Machine, parts: list[Value], span: Span) -> Walked | None:
    """The first that is one is stepped; of the others each pass takes the next element."""
    stepped = ((place, _stepped(m, part, span)) for place, part in enumerate(parts))
    place, found = next(((place, one) for place, one in stepped if one is not None), (0, None))
    if found is None:
        return None

    def row(value: Value, turn: int) -> Value:
        return TupleV(
            tuple(
                found.around(value, turn) if number == place else containers.nth(m, part, turn, span)
                for number, part in enumerate(parts)
            )
        )

    return Walked(found.inner, row)


def _stepped(m: Machine, value: Value, span: Span) -> Walked | None:
    """A generator, or an object with ``__next__``."""
    value = names.settle(m, value)
    if (found := _within(m, value, span)) is not None:
        return found
    inner = objects.iterated(m, value, span) if isinstance(value, HeapV) else value
    if isinstance(inner, GeneratorV) or objects.following(m, inner) is not None:
        return Walked(inner, lambda one, _: one)
    return None
