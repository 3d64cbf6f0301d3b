"""Iterators that are stepped by hand: ``next(itertools.cycle(slots))``, ``next(itertools.count())``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.python import containers, objects, some_element
from streamlint.interp.state import elements, symbols
from streamlint.interp.state.ends import PathEnds
from streamlint.interp.state.values import (
    NONE,
    ConstV,
    GeneratorV,
    HeapObject,
    HeapV,
    Shape,
    SymV,
    Value,
    symbol_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span

CYCLE, COUNT, ITER = "cycle", "count", "iter"
_POSITION, _SOURCE = "position", "source"


def cycle(m: Machine, source: Value) -> HeapV:
    return _endless(m, CYCLE, [source])


def count(m: Machine, start: Value, step: Value) -> HeapV:
    return _endless(m, COUNT, [start, step])


def _endless(m: Machine, kind: str, items: list[Value]) -> HeapV:
    made = containers.lazy(m, kind, items)
    m.heap[made.id].attrs[_POSITION] = ConstV(0)
    return made


def over(m: Machine, source: Value, items: list[Value]) -> HeapV:
    """``iter(slots)``: the elements that are left; the others live until it has come to their end."""
    made = m.new_list(items)
    m.heap[made.id].role = ITER
    m.heap[made.id].attrs[_SOURCE] = source
    return made


def is_iterator(held: HeapObject) -> bool:
    return held.role == ITER or (held.role in (CYCLE, COUNT) and _POSITION in held.attrs)


def position(m: Machine, held: HeapObject) -> int:
    """Where an iterator is: one that goes in circles is at its start again after a round."""
    turn = _turn(held)
    match held:
        case HeapObject(role="iter", items=left):
            return len(left)
        case HeapObject(role="cycle", items=[source]):
            around = elements.listed(m, source)
            return turn % len(around) if around else 0
        case _:
            return turn


def _turn(held: HeapObject) -> int:
    match held.attrs.get(_POSITION):
        case ConstV(int() as turn):
            return turn
        case _:
            return 0


def step(m: Machine, held: HeapObject, default: Value | None, span: Span) -> Value:
    """``next(iterator)``, ``next(iterator, default)``"""
    if held.role != ITER:
        turn = _turn(held)
        held.attrs[_POSITION] = ConstV(turn + 1)
        return containers.around(m, held, turn, span)
    if held.items:
        return held.items.pop(0)
    held.attrs.pop(_SOURCE, None)
    if default is None:
        # StopIteration
        raise PathEnds
    return default


def following(m: Machine, source: Value, default: Sequence[Value], span: Span) -> Value:
    """``next(source)``, ``next(source, default)``"""
    held = m.heap[source.id] if isinstance(source, HeapV) else None
    if held is not None and is_iterator(held):
        return step(m, held, default[0] if default else None, span)
    if isinstance(source, GeneratorV) and (given := m.python.step_generator(m, source, NONE, span)):
        return _given(given, default)
    items = elements.listed(m, source)
    if items:
        return items[0]
    if held is not None and default and _is_bare(held):
        return default[0]
    asked = objects.following(m, source)
    if asked:
        return m.python.call(m, asked, [], {}, span)
    if held is not None and held.kind == "generator" and some_element.FIRST in held.extra:
        # next(s for s in self.slots if not s.busy): that which the test was asked of.
        return held.extra[some_element.FIRST]
    unlike = SymV(m.unlike_any(symbols.call("next", symbol_of(source)), span))
    # next((s for s in self.slots if not s.busy), self.slots[0]): one of them, which is not known.
    return containers.index(m, source, unlike, span) if held and held.sample is not None else unlike


def sent(m: Machine, generator: GeneratorV, args: Sequence[Value], span: Span) -> Value | None:
    """``generator.send(x)``; None of one that cannot be stepped."""
    stepped = m.python.step_generator(m, generator, args[0] if args else NONE, span)
    return None if stepped is None else _given(stepped, ())


def _given(stepped: tuple[Value, bool], default: Sequence[Value]) -> Value:
    """What a step of a generator gives, which may have come to its end."""
    value, goes_on = stepped
    if goes_on:
        return value
    if not default:
        raise PathEnds
    return default[0]


def _is_bare(held: HeapObject) -> bool:
    """Whether no element passed: ``(s for s in slots if s.kind == "save")`` where none is of that kind."""
    something = held.items or held.extra or held.sample is not None or held.symbol is not None
    return held.shape is Shape.LIST and not held.role and not something
