"""Lists, dicts, tuples, and indexing of everything else.

A container whose length is not known is *open*: asking for element ``k`` twice gives the same
element, other keys give other elements, each made like the container's sample. That is how
``self.events[layer]`` stays one event within a path and differs from ``self.events[other]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.facts import classes
from streamlint.interp.library import (
    axes,
    configured,
    devices,
    handoffs,
    in_place,
    sizes,
    stored,
    stream_values,
    tensor_methods,
    tensors,
    unresolved,
    used_as,
)
from streamlint.interp.python import filled_dicts, halves, keys, some_element, stocks
from streamlint.interp.state import (
    counted,
    elements,
    giving_up,
    lengths,
    names,
    results,
    rings,
    strides,
    symbols,
)
from streamlint.interp.state.numbers import behind, linear
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
    SymV,
    TupleV,
    Value,
    each_of,
    symbol_of,
)
from streamlint.models.schema import Role
from streamlint.trace import Evidence, Origin, Space

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.source import Span


def element(m: Machine, value: Value, at: Symbol, span: Span) -> Value:
    """An element of a value of unknown length; ``at`` is a number, or stands for any."""
    value = names.settle(m, value)
    match value:
        case HeapV():
            held = m.heap[value.id]
            if held.shape is Shape.INSTANCE:
                return SymV(symbols.Item(symbol_of(value), at))
            if held.role == SLICE and isinstance(held.items[1], ConstV):
                first, turn = held.items[1].value, symbols.number(at)
                if turn is not None and isinstance(first, int):
                    at = symbols.constant(first + turn)
                return element(m, held.items[0], at, span)
            return _of_rest(m, held, at, span) or some_element.found(m, held, value, at)
        case TupleV(items) if items:
            return items[0]
        case BufferV():
            if value.flavor is Flavor.ARRAY and not axes.has_rows(value):
                tensors.read_on_host(m, value, span, "iteration")
                return SymV(symbols.Item(symbol_of(value), at))
            region = (*value.region, elements.selector_of(at))
            return replace(value, region=region, axes=axes.row(value))
        case SymV(base, holds):
            return SymV(symbols.element(base, at), elements.taken_from(m, holds))
        case _:
            return m.fresh("element", span)


def any_of(m: Machine, source: Value, span: Span) -> Value:
    """An element that stands for all: one that a loop has come by shows what it did to each of them."""
    held = m.heap[source.id] if isinstance(source, HeapV) else None
    walked = (
        held is not None
        and held.open
        and not held.role
        and held.symbol is None
        and some_element.FIRST in held.extra
    )
    return nth(m, source, 0 if walked or counted.was_walked(m, source) else None, span)


def nth(m: Machine, source: Value, turn: int | None, span: Span) -> Value:
    """Element ``turn`` of something of unknown length; with None one that stands for any of them.

    ``range(n)`` and ``enumerate`` count from their start, so that ``i % 2`` is a number.
    """
    source = names.settle(m, source)
    held = m.heap[source.id] if isinstance(source, HeapV) else None
    match held:
        case HeapObject(role="range", items=[ConstV(int() as start), ConstV(int() as step), end]):
            if step > 1 and isinstance(end, SymV):
                m.numbers.ends.add(end.symbol)
            return ConstV(start + step * turn) if turn is not None else each_of(source)
        case HeapObject(role="range", items=[SymV(start), ConstV(int() as step), _]) if turn is not None:
            base, far = linear(start)
            m.numbers.starts.add(base)
            return SymV(behind(base, far + step * turn))
        case HeapObject(role="range", items=[ConstV(0), SymV(step), _]):
            return strides.begin(m, step, turn) if turn is not None else each_of(source)
        case HeapObject(role="enumerate", items=[ConstV(int() as start), inner]):
            count: Value = ConstV(start + turn) if turn is not None else each_of(source)
            return TupleV((count, nth(m, inner, turn, span)))
        case HeapObject(role="slice", items=[inner, ConstV(int() as first), *_]):
            return nth(m, inner, None if turn is None else first + turn, span)
        case HeapObject(shape=Shape.DICT, open=True, key_sample=key) if key is not None:
            return _key_at(key, turn)
        case HeapObject(role="values", items=[table]):
            return index(m, table, nth(m, table, turn, span), span)
        case HeapObject(role="chain", items=parts):
            # One of each in turn: what stands behind what does not matter for those who wait for all.
            part = parts[(turn or 0) % len(parts)]
            return nth(m, part, None if turn is None else turn // len(parts), span)
        case HeapObject(role="zip", items=parts):
            return TupleV(tuple(nth(m, part, turn, span) for part in parts))
        case HeapObject(role="cycle" | "count"):
            return around(m, held, turn, span)
        case HeapObject(kind="reversed") if turn is not None and (walked := walked_backwards(m, source)):
            many = counted.passes_over(m, walked.symbol)
            at = many - 1 - turn if turn < many else turn
            return element(m, walked, symbols.constant(at), span)
        case _:
            items = elements.listed(m, source)
            if items is not None:
                return items[turn or 0] if (turn or 0) < len(items) else m.fresh("item", span)
            return element(m, source, symbols.EACH if turn is None else symbols.constant(turn), span)


def walked_backwards(m: Machine, value: Value) -> SymV | None:
    """The list of unknown length that ``reversed(layers)`` was made of."""
    held = m.heap[value.id] if isinstance(value, HeapV) else None
    match held:
        case HeapObject(kind="reversed", open=True, items=[], symbol=symbol) if symbol is not None:
            return SymV(symbol)
        case _:
            return None


def _key_at(key: Value, turn: int | None) -> Value:
    """``for d in table`` comes by what ``{d: Stream(d) for d in devices}`` was made of, one by one."""
    match key:
        case SymV(symbols.Item(of, at)) if turn is not None and at is symbols.EACH:
            return SymV(symbols.Item(of, symbols.constant(turn)))
        case _:
            return key


def is_walked_by_key(held: HeapObject) -> bool:
    """Whether an open dict has an element for each element of something else."""
    key = held.key_sample
    each = isinstance(key, SymV) and isinstance(key.symbol, symbols.Item) and key.symbol.at is symbols.EACH
    return each and held.open and not held.filled and not held.entries


def around(m: Machine, held: HeapObject, turn: int | None, span: Span) -> Value:
    """What ``itertools.cycle`` or ``itertools.count`` gives in a turn: ``zip(batches, cycle(streams))``."""
    match held:
        case HeapObject(role="count", items=[ConstV(int() as start), ConstV(int() as step)]) if (
            turn is not None
        ):
            return ConstV(start + step * turn)
        case HeapObject(role="cycle", items=[source]):
            items = elements.listed(m, source)
            return nth(m, source, turn % len(items) if items and turn is not None else turn, span)
        case _:
            return m.fresh(held.role, span)


def lazy(m: Machine, kind: str, items: list[Value]) -> HeapV:
    """``range``, ``enumerate`` or ``zip`` over something of unknown length."""
    made = m.new_object(Shape.LIST, role=kind)
    m.heap[made.id].kind, m.heap[made.id].open = kind, True
    m.heap[made.id].items.extend(items)
    return made


def set_of_range(m: Machine, numbers: Value, span: Span) -> HeapV:
    """``set(range(n))``: the first numbers stand for all of them."""
    made = m.new_list((nth(m, numbers, turn, span) for turn in range(2)), shape=Shape.SET)
    m.heap[made.id].open = m.heap[made.id].filled = True
    return made


def index(m: Machine, value: Value, at: Value, span: Span) -> Value:
    """``value[at]``"""
    value, at = names.settle(m, value), names.settle(m, at)
    if isinstance(at, SliceV):
        _bounds(m, at, span)
    if isinstance(at, ConstV) and isinstance(at.value, str):
        used_as.shows(m, value, used_as.Use.MAPPING)
    match value, at:
        case (TupleV(items), ConstV(int() as i)) if -len(items) <= i < len(items):
            return items[i]
        case (TupleV(items), SymV()) if isinstance(
            found := rings.among(m, at, len(items)), ConstV
        ) and isinstance(found.value, int):
            return items[found.value]
        case (TupleV(items), SliceV()):
            return TupleV(tuple(elements.sliced(list(items), at) or items))
        case TupleV(items), _:
            return items[0] if items else m.fresh("item", span)
        case (FuncV() | PartialV() | SymV() | ApiV(), _) if (
            kernel := configured.of(m, value, at)
        ) is not None:
            return kernel
        case HeapV(), _:
            return _heap_index(m, value, at, span)
        case BufferV(flavor=Flavor.TORCH | Flavor.OPAQUE), ConstV(str() as key):
            # `state["step"]`: what was taken for a tensor is a dict, and holds what was moved as one.
            place = symbols.Item(stored.before(m, symbol_of(value)), symbol_of(at))
            held = stored.at(m, place) or tensor_methods.element_of(m, value, key)
            return held if held is not None else SymV(place, (value,))
        case BufferV(), _:
            return stored.put_back(m, value, at) or _view(m, value, at, span)
        case (SymV(base, holds), _):
            place = symbols.element(base, symbol_of(at))
            return stored.at(m, place) or SymV(place, elements.taken_from(m, holds))
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


def _bounds(m: Machine, at: SliceV, span: Span) -> None:
    """``rows[: count[0]]``: Python asks a tensor of one number for that number."""
    for bound in (at.lo, at.hi, at.step):
        if isinstance(bound, BufferV) and bound.flavor is Flavor.TORCH and m.space(bound).on_host:
            tensors.read_on_host(m, bound, span, "__index__()")


def _heap_index(m: Machine, value: HeapV, at: Value, span: Span) -> Value:
    held = m.heap[value.id]
    if held.shape is Shape.DICT:
        sought = keys.by_name(m, held, symbol_of(where(m, held, at)))
        key = stocks.standing(m, held, sought)
        return held.entries.get(key) or some_element.found(m, held, value, key)
    if held.shape is Shape.INSTANCE:
        fields = elements.fields(held)
        if fields and isinstance(at, ConstV) and isinstance(at.value, int) and at.value < len(fields):
            return fields[at.value]
        method = classes.method(m, value, "__getitem__")
        return (
            m.python.call(m, method, [at], {}, span)
            if method is not None
            else SymV(symbols.Item(symbol_of(value), symbol_of(at)))
        )
    if held.role == SLICE and not isinstance(at, SliceV):
        return _of_slice(m, held, at, span)
    asked, at = at, where(m, held, at)
    if (
        isinstance(at, ConstV)
        and isinstance(at.value, int)
        and -len(held.items) <= at.value < len(held.items)
    ):
        return some_element.picked(held.items[at.value], rings.picked_by(m, asked))
    if held.role == SLICE:
        return _of_slice(m, held, at, span)
    if held.open and isinstance(at, ConstV) and isinstance(at.value, int) and at.value < 0:
        # The last element of those that were asked for by their number: ``hops[-1]`` after a loop over them.
        most = max((number for key in held.extra if (number := symbols.number(key)) is not None), default=0)
        if most and most + 1 + at.value >= 0:
            return some_element.found(m, held, value, symbols.constant(most + 1 + at.value))
    if isinstance(at, SliceV) and held.open and _is_rest(at):
        made = lazy(m, SLICE, [value, at.lo or ConstV(0)])
        m.heap[made.id].kind, m.heap[made.id].sample = held.kind, held.sample
        return made
    if isinstance(at, SliceV):
        part = elements.sliced(held.items, counted.as_shown(m, at)) if not held.open else None
        part = halves.rest(m, value, at) if part is None else part
        made = m.new_list(part if part is not None else held.items)
        if part is None:
            # hops[:n]: elements that were not asked for yet share what those of the whole list share.
            some = m.heap[made.id]
            some.open, some.sample, some.extra, some.born = True, held.sample, held.extra, held.born
            halves.note(m, value, at, made)
            if at.hi not in (None, NONE):
                lengths.limit(m, made, at.hi)
        return made
    place = _place(m, held, symbol_of(at))
    return _of_rest(m, held, place, span) or some_element.found(m, held, value, place)


def where(m: Machine, held: HeapObject, at: Value) -> Value:
    """Where an index or a key leads, for who reads and for who writes: ``works[k % lanes]`` of a ring."""
    if held.shape is Shape.LIST and not held.open:
        return rings.among(m, at, len(held.items))
    at = keys.hashed(m, rings.slot(m, at))
    return counted.before_end(m, at) if held.shape is Shape.LIST else keys.named_before(m, held, at)


def _place(m: Machine, held: HeapObject, at: Symbol) -> Symbol:
    """Where an element was put last: ``works[block] = work``, ``if block == 0``, and then ``works[0]``."""
    alike = (key for key in reversed(held.extra) if m.equal.get(key) is at or m.equal.get(at) is key)
    return at if at in held.extra else next(alike, at)


SLICE = "slice"
"""``hops[1:]`` of a list of unknown length: element ``k`` of it is element ``k + 1`` of the list.

Its items are the list, 1, and what is known to stand behind the others: None of ``hops[1:] + [None]``."""
CHAIN = "chain"
"""``firsts + seconds`` of two such lists: what each walk comes by."""


def of_its_own(m: Machine, held: HeapObject, span: Span) -> None:
    """``rest = hops[1:]; rest.pop()``: which elements a part has is not known any more.

    Most methods of lists change them.
    """
    held.rest = None
    if held.role == SLICE:
        whole = held.items[0]
        held.role, held.items = "", []
        held.sample = held.sample or element(m, whole, symbols.EACH, span)


def changes(m: Machine, of: HeapV) -> None:
    """``free = list(range(n)); free.pop()``: which numbers are left is not known, and in the end none is."""
    held = m.heap[of.id]
    if held.role == "range":
        held.role, held.kind, held.items = "", "", []
        held.sample, held.filled = each_of(of), True


def _is_rest(at: SliceV) -> bool:
    return (
        isinstance(at.lo, ConstV)
        and isinstance(at.lo.value, int)
        and at.lo.value >= 0
        and at.hi in (None, NONE)
        and at.step in (None, NONE, ConstV(1))
    )


def _of_slice(m: Machine, held: HeapObject, at: Value, span: Span) -> Value:
    whole, first, *end = held.items
    match at, first:
        case ConstV(int() as i), ConstV(int() as lo) if i >= 0:
            return index(m, whole, ConstV(i + lo), span)
        case ConstV(int() as i), _ if -len(end) <= i < 0:
            return end[i]
        case SliceV(lo=ConstV(int() as more)), ConstV(int() as lo) if _is_rest(at):
            made = index(m, whole, replace(at, lo=ConstV(lo + more)), span)
            if isinstance(made, HeapV) and m.heap[made.id].role == SLICE:
                m.heap[made.id].items += end
            return made
        case _:
            return index(m, whole, at, span)


def _of_rest(m: Machine, held: HeapObject, at: Symbol, span: Span) -> Value | None:
    """``[first, *columns][k]`` is ``columns[k - 1]``."""
    number = symbols.number(at)
    if held.rest is None or number is None:
        return None
    if number < len(held.items):
        return held.items[number]
    return element(m, held.rest, symbols.constant(number - len(held.items)), span)


def _view(m: Machine, value: BufferV, at: Value, span: Span) -> Value:
    """Indexing memory: views, reads of single numbers, and gathers by another tensor."""
    if isinstance(at, SymV) and value.flavor is Flavor.TORCH and at.symbol in m.forms.tensors:
        at = tensors.as_buffer(m, at, kind=Evidence.SHOWN)
    if isinstance(at, BufferV) and at.flavor is not Flavor.OPAQUE:
        made = tensors.operate(m, span, "operator []", [elements.rows(m, value, at), at])
        if at.id in m.forms.masks:
            # x[x > 0]: how many elements that is, the host must know.
            sizes.waits(m, [value, at], span, "indexing with a mask")
        return made
    if value.flavor is Flavor.ARRAY and isinstance(at, HeapV) and elements.listed(m, at):
        # page[[0, 2]]: a copy of these
        tensors.read_on_host(m, value, span, "indexing with a list")
        return m.new_buffer("", Space.PAGEABLE, Origin.RESULT, Flavor.ARRAY, span)
    picked = replace(value, region=elements.selected(m, value, at), axes=axes.left(value, at))
    if value.flavor is Flavor.ARRAY and picked.axes == 0:
        tensors.read_on_host(m, picked, span, "read")
        return SymV(symbols.Attr(symbol_of(picked), "value"))
    return picked


def put(m: Machine, held: HeapObject, at: Value, value: Value) -> None:
    """Stores an element of a list or dict."""
    is_list, place = held.shape is Shape.LIST, at.value if isinstance(at, ConstV) else None
    if is_list and isinstance(place, int) and -len(held.items) <= place < len(held.items):
        giving_up.replaced(m, held.items[place], value)
        held.items[place] = value
        return
    entries, key = held.entries if held.shape is Shape.DICT else held.extra, symbol_of(at)
    giving_up.replaced(m, entries.get(key), value)
    entries[key] = value
    if held.shape is Shape.DICT:
        held.keys[key] = at


def set_index(m: Machine, container: Value, at: Value, value: Value, span: Span) -> None:
    """``container[at] = value``"""
    container = names.settle(m, container)
    match container:
        case HeapV():
            key = where(m, m.heap[container.id], names.settle(m, at))
            filled_dicts.has_more(m, container, key)
            put(m, m.heap[container.id], key, results.stored(m, value))
        case BufferV(flavor=Flavor.TORCH | Flavor.OPAQUE) if _is_text(names.settle(m, at)):
            # inputs = processor(image).to(device); inputs["scale"] = 2: a tensor has no such places.
            set_index(m, SymV(stored.before(m, symbol_of(container))), at, value, span)
        case BufferV() if stored.is_put_back(m, container, names.settle(m, at), value):
            m.put_back.add(container.id)
            set_index(m, SymV(stored.before(m, symbol_of(container))), at, value, span)
        case BufferV(flavor=Flavor.OPAQUE) if container.region and _may_be_key(names.settle(m, at), value):
            # graph.frames[kind][name] = rows, of a graph that was moved as a whole: what its frames are, and
            # whether they have rows, nothing tells.
            set_index(m, SymV(stored.before(m, symbol_of(container))), at, value, span)
        case BufferV():
            at = names.settle(m, at)
            target = elements.rows(m, container, at)
            if target is container:
                target = replace(container, region=elements.selected(m, container, at))
            in_place.assign(m, target, value, span, at)
        case SymV() if (
            isinstance(value, BufferV) and (shown := _shows_memory(names.settle(m, at))) is not None
        ):
            set_index(m, tensors.as_buffer(m, container, kind=shown), at, value, span)
        case SymV(base):
            if isinstance(value, BufferV) and m.space(value).on_host and unresolved.stores_at_once(m, base):
                tensors.read_on_host(m, value, span, "element assignment")
            if isinstance(value, (BufferV, EventV, HeapV, TupleV)) or stream_values.is_shown(
                m, value, Role.STREAM
            ):
                place = symbols.Item(base, symbol_of(at))
                m.roles[place] = value
                m.stores.put(place)
            else:
                m.roles.pop(symbols.Item(base, symbol_of(at)), None)
        case _:
            pass


def _is_text(at: Value) -> bool:
    return isinstance(at, ConstV) and isinstance(at.value, str)


def _may_be_key(at: Value, value: Value) -> bool:
    """Whether something may be put into a table: under a key that is not known, and does not show memory."""
    return isinstance(value, (BufferV, SymV)) and isinstance(at, SymV)


def _shows_memory(at: Value) -> Evidence | None:
    """How an index shows that memory is stored into memory: ``buf[:n] = x``, ``lse[half, :] = new``.

    A list may be told a place by a tensor of one number, ``outputs[expert] = y``, but hardly ever is.
    """
    match at:
        case SliceV():
            return Evidence.INFERRED
        case BufferV(flavor=Flavor.TORCH):
            return Evidence.ASSUMED
        case TupleV(items):
            return max((shown for item in items if (shown := _shows_memory(item)) is not None), default=None)
        case _:
            return None
