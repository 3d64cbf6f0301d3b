"""Lists, dicts, tuples, and indexing of everything else.

A container whose length is not known is *open*: asking for element ``k`` twice gives the same
element, other keys give other elements, each made like the container's sample. That is how
``self.events[layer]`` stays one event within a path and differs from ``self.events[other]``.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from streamlint.interp.facts import classes
from streamlint.interp.library import arrays, devices, handoffs, in_place, sizes, tensors
from streamlint.interp.python import alike
from streamlint.interp.state import elements, names, rings
from streamlint.interp.state.values import (
    NONE,
    ApiV,
    BufferV,
    ConstV,
    EventV,
    Flavor,
    FuncV,
    HeapObject,
    HeapV,
    MethodV,
    PartialV,
    Shape,
    SliceV,
    StreamV,
    SymV,
    TupleV,
    Value,
    key_of,
)
from streamlint.trace import Origin, Picked

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span


def element(m: Machine, value: Value, key: str, span: Span) -> Value:
    """An element of a value of unknown length, named by ``key``."""
    value = names.settle(m, value)
    match value:
        case HeapV():
            held = m.heap[value.id]
            if held.shape is Shape.INSTANCE:
                return SymV(f"object{value.id}[{key}]")
            if held.key == SLICE and isinstance(held.items[1], ConstV):
                first = held.items[1].value
                moved = str(int(key) + first) if key.isdigit() and isinstance(first, int) else key
                return element(m, held.items[0], moved, span)
            return extra(m, held, value, key)
        case TupleV(items) if items:
            return items[0]
        case BufferV():
            if value.flavor is Flavor.ARRAY:
                tensors.read_on_host(m, value, span, "iteration")
                return SymV(f"{key_of(value)}[{key}]")
            return BufferV(
                value.id,
                (*value.region, elements.selector(ConstV(int(key)) if key.isdigit() else SymV(key))),
                value.flavor,
            )
        case SymV(base, holds):
            return SymV(f"{base}[{key}]", holds)
        case _:
            return m.fresh("element", span)


def any_of(m: Machine, source: Value, span: Span) -> Value:
    """An element that stands for all: one that a loop has come by shows what it did to each of them."""
    held = m.heap[source.id] if isinstance(source, HeapV) else None
    walked = held is not None and held.open and not held.key and "0" in held.extra
    return nth(m, source, 0 if walked else None, span)


def nth(m: Machine, source: Value, turn: int | None, span: Span) -> Value:
    """Element ``turn`` of something of unknown length; with None one that stands for any of them.

    ``range(n)`` and ``enumerate`` count from their start, so that ``i % 2`` is a number.
    """
    source = names.settle(m, source)
    held = m.heap[source.id] if isinstance(source, HeapV) else None
    match held:
        case HeapObject(key="range", items=[ConstV(int() as start), ConstV(int() as step)]):
            return ConstV(start + step * turn) if turn is not None else SymV(f"{key_of(source)}[each]")
        case HeapObject(key="enumerate", items=[ConstV(int() as start), inner]):
            count: Value = ConstV(start + turn) if turn is not None else SymV(f"{key_of(source)}[each]")
            return TupleV((count, nth(m, inner, turn, span)))
        case HeapObject(key="slice", items=[inner, ConstV(int() as first), *_]):
            return nth(m, inner, None if turn is None else first + turn, span)
        case HeapObject(key="zip", items=parts):
            return TupleV(tuple(nth(m, part, turn, span) for part in parts))
        case HeapObject(key="cycle" | "count"):
            return around(m, held, turn, span)
        case _:
            items = elements.listed(m, source)
            if items is not None:
                return items[turn or 0] if (turn or 0) < len(items) else m.fresh("item", span)
            return element(m, source, "each" if turn is None else str(turn), span)


def around(m: Machine, held: HeapObject, turn: int | None, span: Span) -> Value:
    """What ``itertools.cycle`` or ``itertools.count`` gives in a turn: ``zip(batches, cycle(streams))``."""
    match held:
        case HeapObject(key="count", items=[ConstV(int() as start), ConstV(int() as step)]) if (
            turn is not None
        ):
            return ConstV(start + step * turn)
        case HeapObject(key="cycle", items=[source]):
            items = elements.listed(m, source)
            return nth(m, source, turn % len(items) if items and turn is not None else turn, span)
        case _:
            return m.fresh(held.key, span)


def lazy(m: Machine, kind: str, items: list[Value]) -> HeapV:
    """``range``, ``enumerate`` or ``zip`` over something of unknown length."""
    made = m.new_object(Shape.LIST, key=kind)
    m.heap[made.id].kind = kind
    m.heap[made.id].items.extend(items)
    m.heap[made.id].open = True
    return made


def extra(m: Machine, held: HeapObject, owner: HeapV, key: str) -> Value:
    if key not in held.extra:
        if held.sample is not None and (held.open or not (held.items or held.attrs)):
            held.extra[key] = alike.like(m, held.sample, key, held.born, apart=bool(held.attrs))
        elif held.items or held.attrs:
            known = held.items or list(held.attrs.values())
            used = sum(1 for taken in held.extra if taken != key)
            held.extra[key] = _picked(known[min(used, len(known) - 1)], key if len(known) > 1 else "")
        else:
            held.extra[key] = SymV(f"{held.key or f'object{owner.id}'}[{key}]")
        _note_choice(m, held, owner, key)
    return held.extra[key]


_KNOWN_KEY = re.compile(r"-?\d+$|['\"]")
"""The number of an element, or the text that is its key: two of them name two elements."""


def _note_choice(m: Machine, held: HeapObject, owner: HeapV, key: str) -> None:
    """``self.lanes[a]`` and ``self.lanes[b]`` may be one stream, if neither ``a`` nor ``b`` is known."""
    chosen = held.extra[key]
    if not isinstance(chosen, StreamV) or _KNOWN_KEY.match(key):
        return
    for other in (*held.items, *held.attrs.values(), *held.extra.values()):
        if isinstance(other, StreamV):
            picked = m.streams[other.id].chosen or other == chosen
            m.streams[other.id] = replace(m.streams[other.id], among=f"object{owner.id}", chosen=picked)


def _picked(value: Value, by: str) -> Value:
    """One of several elements, which of them is not known: ``self.slots[self.slot_of[name]]``."""
    match value:
        case BufferV(number, region, flavor) if by:
            return BufferV(number, (Picked(by), *region), flavor)
        case TupleV(items):
            return TupleV(tuple(_picked(item, by) for item in items))
        case _:
            return value


def index(m: Machine, value: Value, at: Value, span: Span) -> Value:
    """``value[at]``"""
    value, at = names.settle(m, value), names.settle(m, at)
    match value, at:
        case (TupleV(items), ConstV(int() as i)) if -len(items) <= i < len(items):
            return items[i]
        case (TupleV(items), SliceV()):
            return TupleV(tuple(_slice(list(items), at) or items))
        case TupleV(items), _:
            return items[0] if items else m.fresh("item", span)
        case (FuncV() | PartialV() | SymV(), _) if (kernel := arrays.configured(m, value, at)) is not None:
            return kernel
        case HeapV(), _:
            return _heap_index(m, value, at, span)
        case BufferV(flavor=Flavor.TORCH | Flavor.OPAQUE), ConstV(str()):
            # `state["step"]`: what was taken for a tensor is a dict.
            return SymV(f"{_key_before(m, value)}[{key_of(at)}]", (value,))
        case BufferV(), _:
            return _view(m, value, at, span)
        case (SymV(base, holds), _):
            return SymV(f"{base}[{key_of(at)}]", holds)
        case MethodV(BufferV() as view, "__array_interface__"), ConstV("data"):
            return TupleV((BufferV(view.id, view.region, Flavor.POINTER), ConstV(False)))
        case MethodV(BufferV() as view, "__cuda_array_interface__"), ConstV("data"):
            return TupleV((handoffs.by_address(m, view, span, "array interface"), ConstV(False)))
        case ApiV("numba.cuda.gpus"), ConstV(int() as i):
            return devices.numbered(i)
        case ConstV(str() as text), ConstV(int() as i) if -len(text) <= i < len(text):
            return ConstV(text[i])
        case _:
            return m.fresh("item", span)


def _key_before(m: Machine, value: BufferV) -> str:
    """The key of an argument as it was before a call showed that it may be memory."""
    buffer = m.buffers[value.id]
    return buffer.name if buffer.origin is Origin.ARGUMENT and not value.region else key_of(value)


def _heap_index(m: Machine, value: HeapV, at: Value, span: Span) -> Value:
    held = m.heap[value.id]
    if held.shape is Shape.DICT:
        return held.attrs.get(key_of(at)) or extra(m, held, value, key_of(at))
    if held.shape is Shape.INSTANCE:
        fields = elements.fields(held)
        if fields and isinstance(at, ConstV) and isinstance(at.value, int) and at.value < len(fields):
            return fields[at.value]
        method = classes.method(m, value, "__getitem__")
        return (
            m.python.call(m, method, [at], {}, span)
            if method is not None
            else SymV(f"object{value.id}[{key_of(at)}]")
        )
    if held.open:
        at = rings.slot(m, at)
    if (
        isinstance(at, ConstV)
        and isinstance(at.value, int)
        and -len(held.items) <= at.value < len(held.items)
    ):
        return held.items[at.value]
    if held.key == SLICE:
        return _of_slice(m, held, at, span)
    if held.open and isinstance(at, ConstV) and isinstance(at.value, int) and at.value < 0:
        # The last element of those that were asked for by their number: ``hops[-1]`` after a loop over them.
        asked = max((int(key) for key in held.extra if key.isdigit()), default=0)
        if asked and asked + 1 + at.value >= 0:
            return extra(m, held, value, str(asked + 1 + at.value))
    if isinstance(at, SliceV) and held.open and _is_rest(at):
        made = lazy(m, SLICE, [value, at.lo or ConstV(0)])
        m.heap[made.id].kind, m.heap[made.id].sample = held.kind, held.sample
        return made
    if isinstance(at, SliceV):
        part = _slice(held.items, at) if not held.open else None
        made = m.new_list(part if part is not None else held.items)
        if part is None:
            m.heap[made.id].open, m.heap[made.id].sample, m.heap[made.id].extra = (
                True,
                held.sample,
                held.extra,
            )
        return made
    return extra(m, held, value, key_of(at))


SLICE = "slice"
"""``hops[1:]`` of a list of unknown length: element ``k`` of it is element ``k + 1`` of the list."""


def _is_rest(at: SliceV) -> bool:
    return (
        isinstance(at.lo, ConstV)
        and isinstance(at.lo.value, int)
        and at.lo.value >= 0
        and at.hi in (None, NONE)
        and at.step in (None, NONE, ConstV(1))
    )


def _of_slice(m: Machine, held: HeapObject, at: Value, span: Span) -> Value:
    whole, first = held.items[0], held.items[1]
    match at, first:
        case ConstV(int() as i), ConstV(int() as lo) if i >= 0:
            return index(m, whole, ConstV(i + lo), span)
        case SliceV(lo=ConstV(int() as more)), ConstV(int() as lo) if _is_rest(at):
            return index(m, whole, replace(at, lo=ConstV(lo + more)), span)
        case _:
            return index(m, whole, at, span)


def _slice(items: list[Value], at: SliceV) -> list[Value] | None:
    bounds: list[int | None] = []
    for part in (at.lo, at.hi, at.step):
        if part is None or part == NONE:
            bounds.append(None)
        elif isinstance(part, ConstV) and isinstance(part.value, int):
            bounds.append(part.value)
        else:
            return None
    return items[slice(*bounds)] if bounds[2] != 0 else None


def _view(m: Machine, value: BufferV, at: Value, span: Span) -> Value:
    """Indexing memory: views, reads of single numbers, and gathers by another tensor."""
    if isinstance(at, BufferV) and at.flavor is not Flavor.OPAQUE:
        made = tensors.operate(m, span, "indexing", [value, at])
        if at.id in m.masks:
            # x[x > 0]: how many elements that is, the host must know.
            sizes.waits(m, [value, at], span, "indexing with a mask")
        return made
    if value.flavor is Flavor.ARRAY and value.id in m.flat and not isinstance(at, (SliceV, TupleV)):
        picked = BufferV(value.id, elements.selected(value, at), value.flavor)
        tensors.read_on_host(m, picked, span, "read")
        return SymV(f"{key_of(picked)}.value")
    return BufferV(value.id, elements.selected(value, at), value.flavor)


def put(m: Machine, held: HeapObject, at: Value, value: Value) -> None:
    """Stores an element of a list or dict."""
    key = key_of(at)
    if (
        held.shape is Shape.LIST
        and isinstance(at, ConstV)
        and isinstance(at.value, int)
        and -len(held.items) <= at.value < len(held.items)
    ):
        held.items[at.value] = value
    elif held.shape is Shape.DICT:
        held.attrs[key] = value
        held.keys[key] = at
    else:
        held.extra[key] = value


def _has_more(m: Machine, table: HeapV, at: Value) -> None:
    """``for p in params: host[id(p)] = page(p)``: what its passes put there will stand beside others."""
    held = m.heap[table.id]
    known = isinstance(at, ConstV) or held.shape is not Shape.DICT or held.open
    if m.filling is not None and table.id < m.filling.objects and not known:
        m.filled[table.id] = key_of(at)


def filled(m: Machine) -> None:
    """A loop of unknown length is over: the dicts that it filled hold more than its passes put there.

    While it runs they hold just that, and what it takes out again it takes out in each pass:
    ``slot = self.loaded.pop(id(p), None)``.
    """
    for table, key in m.filled.items():
        held = m.heap[table]
        if key in held.attrs:
            value = held.attrs[key]
            number = isinstance(value, ConstV) and not isinstance(value.value, bool)
            sample = SymV(f"object{table}[each]") if number else value
            held.open, held.sample, held.born = True, sample, m.filling
    m.filled.clear()


def set_index(m: Machine, container: Value, at: Value, value: Value, span: Span) -> None:
    """``container[at] = value``"""
    container = names.settle(m, container)
    match container:
        case HeapV():
            key = names.settle(m, at)
            _has_more(m, container, key)
            put(m, m.heap[container.id], key, value)
        case BufferV():
            target = BufferV(
                container.id, elements.selected(container, names.settle(m, at)), container.flavor
            )
            in_place.assign(m, target, value, span)
        case SymV(base):
            if isinstance(value, (BufferV, EventV, HeapV, TupleV)) or names.is_stream_like(value):
                m.roles[f"{base}[{key_of(at)}]"] = value
            elif m.roles.get(f"{base}[{key_of(at)}]") is not None:
                m.roles.pop(f"{base}[{key_of(at)}]")
        case _:
            pass
