"""Lists of unknown length of which the end is known: ``units[1:] + [None]``, ``[*pages, None]``.

Who walks one comes by the first elements of the part that is not known, which stand for all of them, and then
by those that are known to stand at the end: ``for unit, following in zip(units, units[1:] + [None])`` fetches
nothing behind the last unit. So does who walks ``lanes`` after ``first.wait_stream(lanes[-1])``.
"""

from __future__ import annotations

from itertools import chain, count, takewhile
from typing import TYPE_CHECKING

from streamlint.interp.python.containers import CHAIN, SLICE, element, lazy, nth
from streamlint.interp.state import elements, names, symbols
from streamlint.interp.state.values import (
    BufferV,
    ConstV,
    HeapObject,
    HeapV,
    Shape,
    SymV,
    TupleV,
    Value,
    symbol_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span


def with_rest(m: Machine, known: tuple[Value, ...], rest: Value) -> HeapV:
    """``(first,) + rest``, where of ``rest`` only is known that it is a tuple."""
    made = m.new_list(known, kind="tuple")
    m.heap[made.id].open, m.heap[made.id].sample = (
        True,
        SymV(symbols.Item(symbol_of(rest), symbols.EACH), (rest,)),
    )
    return made


def joined(m: Machine, a: HeapV, b: HeapV, span: Span) -> HeapV:
    """``a + b``: ``(hops[1:] + [None])[k]`` is ``hops[k + 1]`` while there is one; the last is None."""
    first, second = m.heap[a.id], m.heap[b.id]
    if first.open and second.open and not first.items and not second.items:
        return lazy(m, CHAIN, [a, b])
    if first.open and (first.role == SLICE or not first.items):
        walked: list[Value] = list(first.items) if first.role == SLICE else [a, ConstV(0)]
        made = lazy(m, SLICE, walked[:2] if second.open else [*walked, *second.items])
        m.heap[made.id].kind, m.heap[made.id].sample = first.kind, first.sample or second.sample
        return made
    made = m.new_list(chain.from_iterable(part.items for part in (first, second) if not part.role))
    for part in (first, second):
        if part.open:
            m.heap[made.id].open, m.heap[made.id].born = True, part.born
            sample = element(m, a if part is first else b, symbols.EACH, span) if part.role else part.sample
            m.heap[made.id].sample = m.heap[made.id].sample or sample
    if second.open and not first.open:
        m.heap[made.id].rest = b
    return made


def with_end(m: Machine, unknown: SymV, end: HeapV) -> HeapV | None:
    """``layers[1:] + [None]``, where of ``layers`` nothing is known: a list, since it is joined with one.

    To an array of the host numbers may be added: ``weights + [1.0]``.
    """
    items = elements.listed(m, end)
    if not items or any(isinstance(item, ConstV) and isinstance(item.value, (int, float)) for item in items):
        return None
    return lazy(m, SLICE, [*_part(m, unknown), *items])


def _part(m: Machine, unknown: Value) -> list[Value]:
    match unknown:
        case HeapV(number) if m.heap[number].role == SLICE:
            return list(m.heap[number].items)
        case SymV(symbols.Item(whole, symbols.Slice(lo, None, None))) if lo is not None:
            first = symbols.number(lo)
            if first is not None and first >= 0:
                return [SymV(whole), ConstV(first)]
    return [unknown, ConstV(0)]


def displayed(m: Machine, kind: str, given: Sequence[tuple[Value, bool]], span: Span) -> Value:
    """``[first, *rest, None]``, a tuple or a set; beside each value stands whether a star spreads it."""
    known: list[Value] = []
    parts: list[Value | list[Value]] = []
    for value, spread in given:
        items = elements.listed(m, value) if spread else [value]
        if items is None:
            parts += [known, value] if known else [value]
            known = []
        known += items or []
    lists = [*parts, known] if known else parts
    if parts and kind != "set" and (made := one_list(m, lists, kind, span)) is not None:
        return made
    known = [item for part in parts if isinstance(part, list) for item in part] + known
    if kind == "tuple":
        return m.new_tuple(known)
    return m.new_list(known, shape=Shape.SET if kind == "set" else Shape.LIST)


def one_list(m: Machine, parts: Sequence[Value | list[Value]], kind: str, span: Span) -> HeapV | None:
    """Lists stand for elements that are known, values for parts of unknown length; None if one is no list."""
    made: HeapV | None = None
    for part in parts:
        if isinstance(part, list):
            new = m.new_list(part)
        elif _is_walked(m, part):
            new = lazy(m, SLICE, _part(m, part))
        else:
            return None
        made = new if made is None else joined(m, made, new, span)
    if made is not None:
        m.heap[made.id].kind = kind
    return made


def _is_walked(m: Machine, value: Value) -> bool:
    match names.settle(m, value):
        case SymV() | BufferV():
            return True
        case HeapV(number):
            return m.heap[number].shape is Shape.LIST
        case _:
            return False


def end_of(held: HeapObject) -> list[Value]:
    """What stands at the end of a list of unknown length."""
    return held.items[2:] if held.role == SLICE else []


def from_the_end(held: HeapObject) -> list[Value]:
    """The last elements of a list of unknown length that code has asked for from its end: ``lanes[-1]``.

    Until a loop has come by them, they have no other number.
    """
    if held.shape is not Shape.LIST or not held.open or held.role or held.items:
        return []
    ends = takewhile(lambda one: one is not None, (held.extra.get(symbols.constant(-at)) for at in count(1)))
    last = [one for one in ends if one is not None][::-1]
    numbered = [one for at, one in held.extra.items() if symbols.number(at) is not None]
    return last if all(one not in numbered for one in last) else []


def many_at_end(m: Machine, source: Value) -> int:
    """How many of the last passes over something of unknown length are known."""
    held = m.heap[source.id] if isinstance(source, HeapV) else None
    match held:
        case HeapObject(role="enumerate", items=[_, inner]):
            return many_at_end(m, inner)
        case HeapObject(role="zip", items=parts):
            # Beside what has a known length, that says where the walk ends.
            known = any(elements.listed(m, part) is not None for part in parts)
            return 0 if known else max(_reached(m, part, parts) for part in parts)
        case HeapObject(role=role) if role == SLICE:
            return len(end_of(held))
        case HeapObject():
            return len(from_the_end(held))
        case _:
            return 0


def _reached(m: Machine, part: Value, beside: list[Value]) -> int:
    """How many of the last elements of a part a ``zip`` comes by: none of ``zip(units, units + [None])``."""
    whole, longer = _length(m, part)
    others = (_length(m, other) for other in beside)
    shortest = min(more for other, more in others if other == whole)
    return max(many_at_end(m, part) - (longer - shortest), 0)


def _length(m: Machine, part: Value) -> tuple[Value, int]:
    """Of what something is a part, and by how many elements it is longer."""
    held = m.heap[part.id] if isinstance(part, HeapV) else None
    match held:
        case HeapObject(role="enumerate", items=[_, inner]):
            return _length(m, inner)
        case HeapObject(role=role, items=[whole, ConstV(int() as first), *end]) if role == SLICE:
            return names.settle(m, whole), len(end) - first
        case _:
            return names.settle(m, part), 0


def at_end(m: Machine, source: Value, turn: int, span: Span) -> list[Value]:
    """What the last passes of a walk come by, of which the first is pass number ``turn``."""
    many = many_at_end(m, source)
    held = m.heap[source.id] if isinstance(source, HeapV) else None
    match held:
        case HeapObject(role="enumerate", items=[ConstV(int() as start), inner]):
            rows = at_end(m, inner, turn, span)
            return [TupleV((ConstV(start + turn + at), row)) for at, row in enumerate(rows)]
        case HeapObject(role="zip", items=parts) if many:
            columns = [_column(m, part, parts, many, turn, span) for part in parts]
            return [TupleV(row) for row in zip(*columns, strict=True)]
        case HeapObject(role=role) if role == SLICE:
            return end_of(held)
        case HeapObject():
            last = from_the_end(held)
            # lanes[-1] is lanes[2] from now on, where the loop makes three passes.
            held.extra.update((symbols.constant(turn + at), one) for at, one in enumerate(last))
            return last
        case _:
            return []


def _column(m: Machine, part: Value, beside: list[Value], many: int, turn: int, span: Span) -> list[Value]:
    """The last ``many`` elements of one part of a ``zip``."""
    reached = _reached(m, part, beside)
    before = [nth(m, part, turn + at, span) for at in range(many - reached)]
    return [*before, *at_end(m, part, turn + len(before), span)[:reached]]
