"""The elements of what has a known length, and the parts of memory that indexing names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state import names, numbers, symbols
from streamlint.interp.state.symbols import text_of
from streamlint.interp.state.values import (
    NONE,
    BufferV,
    ConstV,
    HeapObject,
    HeapV,
    Shape,
    SliceV,
    SymV,
    TupleV,
    Value,
    symbol_of,
)
from streamlint.trace import (
    UNBOUNDED,
    Copy,
    HostAccess,
    Interval,
    Launch,
    Mode,
    Origin,
    Region,
    Selector,
    Shifted,
    Symbol,
    SymbolSlice,
)

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.trace import Op


def listed(m: Machine, value: Value) -> list[Value] | None:
    """The elements of a value whose length is known, in order."""
    value = names.settle(m, value)
    match value:
        case TupleV(items):
            return list(items)
        case HeapV():
            held = m.heap[value.id]
            if held.shape is Shape.INSTANCE:
                return fields(held)
            if held.open:
                return None
            if held.shape is Shape.DICT:
                return [held.keys[key] for key in held.entries]
            return list(held.items)
        case _:
            return None


def parts(m: Machine, value: Value) -> list[Value]:
    """What an object or a container holds now, or what an unknown value may lead to."""
    match value:
        case HeapV():
            held = m.heap[value.id]
            return [*held.named, *held.items, *held.extra.values()]
        case SymV(_, holds):
            return list(holds)
        case _:
            return []


def taken_from(m: Machine, holds: tuple[Value, ...]) -> tuple[Value, ...]:
    """What an element of an unknown value may lead to: one of a dict that it may be lives on without it.

    ``kept = tuple(getattr(state, name).values())``, and then ``state.rows[0] = state.rows[0].contiguous()``.
    """
    return tuple(dict.fromkeys(one for held in holds for one in (held, *parts(m, held))))


def fields(held: HeapObject) -> list[Value] | None:
    """The fields of a named tuple: ``start, finish, ids = ack``."""
    if held.cls is None or not any(base.rpartition(".")[2] == "NamedTuple" for base in held.cls.bases):
        return None
    return list(held.attrs.values())


def selected(m: Machine, value: BufferV, at: Value) -> Region:
    """The region of ``value[at]``."""
    parts = at.items if isinstance(at, TupleV) else (at,)
    chosen = [selector(_now(m, part)) for part in parts if not _is_ellipsis(part)]
    while chosen and chosen[-1] == SymbolSlice(None, None):
        chosen.pop()
    return (*value.region, *chosen)


def _now(m: Machine, part: Value) -> Value:
    """A slice whose bounds stand in memory, as they are now: ``at += n`` makes another number of a tensor."""
    match part:
        case SliceV(lo, hi, step):
            return SliceV(_bound_now(m, lo), _bound_now(m, hi), step)
        case _:
            return part


def _bound_now(m: Machine, bound: Value | None) -> Value | None:
    if not isinstance(bound, BufferV):
        return bound
    backwards = range(len(m.ops) - 1, -1, -1)
    last = next((number for number in backwards if _is_changed(bound, m.ops[number])), None)
    if last is None:
        return bound
    return SymV(symbols.call("as of", symbol_of(bound), symbols.constant(last)))


def _is_changed(view: BufferV, op: Op) -> bool:
    return isinstance(op, (Launch, HostAccess)) and any(
        access.buffer == view.id and access.mode is Mode.UPDATE for access in op.accesses
    )


def along(view: BufferV, name: str, args: list[Value]) -> BufferV:
    """``x.narrow(axis, start, length)`` and ``x.select(axis, i)``; other axes than 0 select nothing here."""
    match name, args:
        case "narrow", [ConstV(0), ConstV(int() as start), ConstV(int() as length)] if start >= 0:
            return BufferV(view.id, (*view.region, Interval(start, start + length)), view.flavor)
        case "narrow", [ConstV(0), start, length]:
            first, many = symbol_of(start), symbol_of(length)
            if start == ConstV(0):
                return BufferV(view.id, (*view.region, SymbolSlice(None, _place(many))), view.flavor)
            bounds = SymbolSlice(_place(first), _place(symbols.Binary("+", first, many)))
            return BufferV(view.id, (*view.region, bounds), view.flavor)
        case "select", [ConstV(0), ConstV(int() as at)] if at >= 0:
            return BufferV(view.id, (*view.region, Interval(at, at + 1)), view.flavor)
        case "select", [ConstV(0), at]:
            return BufferV(view.id, (*view.region, _place(symbol_of(at))), view.flavor)
        case _:
            return view


def _is_ellipsis(part: Value) -> bool:
    return part == NONE


def selector(at: Value) -> Selector:
    match at:
        case ConstV(int() as i) if i >= 0:
            return Interval(i, i + 1)
        case SymV(symbols.Binary("%", symbols.Const(_, int(0)), _)):
            # rows[(rank - step) % ranks], of rank 0 at step 0: however many there are.
            return Interval(0, 1)
        case SliceV(lo, hi, _):
            first, end = 0 if _is_left_out(lo) else _number(lo), _number(hi)
            if first is not None and end is not None:
                return Interval(first, end)
            if first and _is_left_out(hi):
                return Interval(first, UNBOUNDED)
            return SymbolSlice(None if first == 0 else _bound(lo), _bound(hi))
        case _:
            return _place(symbol_of(at))


def _place(at: symbols.Symbol) -> Symbol:
    base, far = numbers.linear(at)
    match base:
        case symbols.Item(of, number) if (turn := symbols.number(number)) is not None:
            return Symbol(f"{text_of(of)}[]", far, turn)
        case symbols.Binary("*", of, number) if turn := symbols.number(number):
            return Symbol(text_of(of), far, turn - 1)
        case _:
            return Symbol(text_of(base), far, behind=frozenset(map(text_of, numbers.passed(base))))


def rows(m: Machine, view: BufferV, index: Value) -> BufferV:
    """``pages[slots]``, where the program has computed ``slots``: other indices may name no row in common.

    ``slots = torch.arange(first, first + n)``. Those that somebody else gives, as ``torch.tensor(ids)`` too,
    may be the same each time. Random ones, all that were drawn, come by any row sooner or later.
    """
    if not isinstance(index, BufferV) or _draws_from(m, view, index):
        return view
    known = m.buffers[index.id]
    if known.of_values or known.origin not in (Origin.RESULT, Origin.ALLOCATED):
        return view
    return BufferV(view.id, (*view.region, Shifted(text_of(symbol_of(index)))), view.flavor)


def _draws_from(m: Machine, view: BufferV, index: BufferV) -> bool:
    """``rows[torch.randint(0, n, (k,))]`` comes by any row, unless code puts more behind those ``n``.

    So it is of a part: ``pages[0][torch.randint(0, n, (k,))]``, and ``pages[0, n : n + k] = fresh``.
    """
    end = m.forms.drawn.get(index.id) if not index.region else None
    if end is None:
        return False
    accesses = (a for op in m.ops if isinstance(op, (Launch, Copy)) for a in op.accesses)
    axis = len(view.region)
    rows = (a.region[axis] for a in accesses if a.buffer == view.id and len(a.region) > axis)
    return end not in map(_begin, rows)


def _begin(selector: Selector) -> Selector | None:
    match selector:
        case SymbolSlice():
            return selector.lo
        case Interval(lo=number):
            return Interval(number, number + 1)
        case _:
            return selector


def selector_of(at: symbols.Symbol) -> Selector:
    """The same for an index of which only the symbol is there."""
    number = symbols.number(at)
    return Interval(number, number + 1) if number is not None else _place(at)


ANY_ROW = selector_of(symbols.EACH)
"""One of the rows of memory that a comprehension walks, which stands for all of them."""


def _is_left_out(bound: Value | None) -> bool:
    return bound is None or bound == NONE


def _number(bound: Value | None) -> int | None:
    match bound:
        case ConstV(int() as number) if number >= 0 and not isinstance(number, bool):
            return number
        case SymV(symbols.Binary("*", left, right)) if 0 in (symbols.number(left), symbols.number(right)):
            # x[i * rows : (i + 1) * rows] of the first pass
            return 0
        case _:
            return None


def _bound(bound: Value | None) -> Symbol | None:
    return None if bound is None or bound == NONE else _place(symbol_of(bound))


def sliced(items: list[Value], at: SliceV) -> list[Value] | None:
    """``items[lo:hi:step]``, where its bounds are known."""
    cut = places(at)
    return items[cut] if cut is not None else None


def places(at: SliceV) -> slice | None:
    """Which elements a slice means, where its bounds are known."""
    bounds: list[int | None] = []
    for part in (at.lo, at.hi, at.step):
        if part is None or part == NONE:
            bounds.append(None)
        elif isinstance(part, ConstV) and isinstance(part.value, int):
            bounds.append(part.value)
        else:
            return None
    return slice(*bounds) if bounds[2] != 0 else None


def is_behind(held: HeapObject, at: symbols.Symbol) -> bool:
    """Whether a number is that of no element which the passes that were run have put into a list."""
    return held.shape is Shape.LIST and (symbols.number(at) or 0) >= len(held.items) > 0
