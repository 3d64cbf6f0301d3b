"""Lists, dicts, tuples, and indexing of everything else.

A container whose length is not known is *open*: asking for element ``k`` twice gives the same
element, other keys give other elements, each made like the container's sample. That is how
``self.events[layer]`` stays one event within a path and differs from ``self.events[other]``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from streamlint.interp.library import arrays, devices, handoffs, tensors
from streamlint.interp.python import names
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
from streamlint.models.schema import Lib
from streamlint.trace import UNBOUNDED, Interval, Region, Selector, Symbol, SymbolSlice

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span


def listed(m: Machine, value: Value) -> list[Value] | None:
    """The elements of a value whose length is known, in order."""
    value = names.settle(m, value)
    match value:
        case TupleV(items):
            return list(items)
        case HeapV():
            held = m.heap[value.id]
            if held.shape is Shape.INSTANCE:
                return _fields(held)
            if held.open:
                return None
            if held.shape is Shape.DICT:
                return [held.keys[key] for key in held.attrs]
            return list(held.items)
        case _:
            return None


def _fields(held: HeapObject) -> list[Value] | None:
    """The fields of a named tuple: ``start, finish, ids = ack``."""
    if held.cls is None or not any(base.rpartition(".")[2] == "NamedTuple" for base in held.cls.bases):
        return None
    return list(held.attrs.values())


def element(m: Machine, value: Value, key: str, span: Span) -> Value:
    """An element of a value of unknown length, named by ``key``."""
    value = names.settle(m, value)
    match value:
        case HeapV():
            held = m.heap[value.id]
            if held.shape is Shape.INSTANCE:
                return SymV(f"object{value.id}[{key}]")
            return _extra(m, held, value, key)
        case TupleV(items) if items:
            return items[0]
        case BufferV():
            if value.flavor is Flavor.ARRAY:
                tensors.read_on_host(m, value, span, "iteration")
                return SymV(f"{key_of(value)}[{key}]")
            return BufferV(
                value.id,
                (*value.region, _selector(ConstV(int(key)) if key.isdigit() else SymV(key))),
                value.flavor,
            )
        case SymV(base, holds):
            return SymV(f"{base}[{key}]", holds)
        case _:
            return m.fresh("element", span)


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
        case HeapObject(key="zip", items=parts):
            return TupleV(tuple(nth(m, part, turn, span) for part in parts))
        case _:
            items = listed(m, source)
            if items is not None:
                return items[turn or 0] if (turn or 0) < len(items) else m.fresh("item", span)
            return element(m, source, "each" if turn is None else str(turn), span)


def lazy(m: Machine, kind: str, items: list[Value]) -> HeapV:
    """``range``, ``enumerate`` or ``zip`` over something of unknown length."""
    made = m.new_object(Shape.LIST, key=kind)
    m.heap[made.id].items.extend(items)
    m.heap[made.id].open = True
    return made


def _extra(m: Machine, held: HeapObject, owner: HeapV, key: str) -> Value:
    if key not in held.extra:
        if held.sample is not None:
            held.extra[key] = like(m, held.sample, key)
        elif held.items:
            used = sum(1 for taken in held.extra if taken != key)
            held.extra[key] = held.items[min(used, len(held.items) - 1)]
        elif held.attrs:
            used = sum(1 for taken in held.extra if taken != key)
            held.extra[key] = list(held.attrs.values())[min(used, len(held.attrs) - 1)]
        else:
            held.extra[key] = SymV(f"{held.key or f'object{owner.id}'}[{key}]")
    return held.extra[key]


def like(m: Machine, sample: Value, key: str, depth: int = 2) -> Value:
    """Another element of the same making as ``sample``."""
    match sample:
        case StreamV(number, lib):
            stream = m.streams[number]
            return (
                m.new_stream(
                    stream.kind, f"{stream.name}[{key}]", stream.span, lib, stream.device, stream.made_on
                )
                if stream.span
                else sample
            )
        case EventV(lib=Lib.DISTRIBUTED | Lib.KVIKIO):
            # One stands for all that a loop started: [all_reduce(t, async_op=True) for t in ts]
            return sample
        case EventV(number, lib):
            made = m.new_event(f"{m.events[number].name}[{key}]", m.events[number].span, lib)
            other = m.events[number]
            m.events[made.id] = replace(
                m.events[made.id], function=other.function, timing=other.timing, earlier=other.earlier
            )
            return made
        case BufferV(number, region, flavor):
            return BufferV(
                number, (*region, _selector(ConstV(int(key)) if key.isdigit() else SymV(key))), flavor
            )
        case TupleV(items):
            return TupleV(tuple(like(m, item, key, depth) for item in items))
        case SymV(base, holds):
            return SymV(f"{base}[{key}]", holds)
        case HeapV(number) if depth and number not in m.monitors:
            return _another(m, m.heap[number], key, depth - 1)
        case _:
            return sample


def _another(m: Machine, held: HeapObject, key: str, depth: int) -> HeapV:
    """Another object of the same making: ``[Slot() for _ in range(n)]`` makes as many streams as slots."""
    made = m.new_object(held.shape, cls=held.cls, key=f"{held.key}[{key}]")
    copy = m.heap[made.id]
    copy.attrs = {name: like(m, value, key, depth) for name, value in held.attrs.items()}
    copy.keys = dict(held.keys)
    copy.items = [like(m, value, key, depth) for value in held.items]
    copy.open, copy.sample = held.open, held.sample
    return made


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
            return SymV(f"{key_of(value)}[{key_of(at)}]", (value,))
        case BufferV(), _:
            return _view(m, value, at, span)
        case (SymV(base, holds), _):
            return SymV(f"{base}[{key_of(at)}]", holds)
        case MethodV(BufferV() as view, "__cuda_array_interface__"), ConstV("data"):
            return TupleV((handoffs.by_address(m, view, span, "array interface"), ConstV(False)))
        case ApiV("numba.cuda.gpus"), ConstV(int() as i):
            return devices.numbered(i)
        case ConstV(str() as text), ConstV(int() as i) if -len(text) <= i < len(text):
            return ConstV(text[i])
        case _:
            return m.fresh("item", span)


def _heap_index(m: Machine, value: HeapV, at: Value, span: Span) -> Value:
    held = m.heap[value.id]
    if held.shape is Shape.DICT:
        return held.attrs.get(key_of(at)) or _extra(m, held, value, key_of(at))
    if held.shape is Shape.INSTANCE:
        fields = _fields(held)
        if fields and isinstance(at, ConstV) and isinstance(at.value, int) and at.value < len(fields):
            return fields[at.value]
        from streamlint.interp.python import calls, objects

        method = objects.method(m, value, "__getitem__")
        return (
            calls.call(m, method, [at], {}, span)
            if method is not None
            else SymV(f"object{value.id}[{key_of(at)}]")
        )
    if (
        isinstance(at, ConstV)
        and isinstance(at.value, int)
        and -len(held.items) <= at.value < len(held.items)
    ):
        return held.items[at.value]
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
    return _extra(m, held, value, key_of(at))


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
        return tensors.operate(m, span, "indexing", [value, at])
    if value.flavor is Flavor.ARRAY and value.id in m.flat and not isinstance(at, (SliceV, TupleV)):
        picked = BufferV(value.id, select(value, at), value.flavor)
        tensors.read_on_host(m, picked, span, "read")
        return SymV(f"{key_of(picked)}.value")
    return BufferV(value.id, select(value, at), value.flavor)


def select(value: BufferV, at: Value) -> Region:
    """The region of ``value[at]``."""
    parts = at.items if isinstance(at, TupleV) else (at,)
    chosen = [_selector(part) for part in parts if not _is_ellipsis(part)]
    while chosen and chosen[-1] == SymbolSlice(None, None):
        chosen.pop()
    return (*value.region, *chosen)


def along(view: BufferV, name: str, args: list[Value]) -> BufferV:
    """``x.narrow(axis, start, length)`` and ``x.select(axis, i)``; other axes than 0 select nothing here."""
    match name, args:
        case "narrow", [ConstV(0), ConstV(int() as start), ConstV(int() as length)] if start >= 0:
            return BufferV(view.id, (*view.region, Interval(start, start + length)), view.flavor)
        case "narrow", [ConstV(0), start, length]:
            end = key_of(length) if start == ConstV(0) else f"({key_of(start)}+{key_of(length)})"
            lower = None if start == ConstV(0) else key_of(start)
            return BufferV(view.id, (*view.region, SymbolSlice(lower, end)), view.flavor)
        case "select", [ConstV(0), ConstV(int() as at)] if at >= 0:
            return BufferV(view.id, (*view.region, Interval(at, at + 1)), view.flavor)
        case "select", [ConstV(0), at]:
            return BufferV(view.id, (*view.region, Symbol(key_of(at))), view.flavor)
        case _:
            return view


def _is_ellipsis(part: Value) -> bool:
    return part == NONE


def _selector(at: Value) -> Selector:
    match at:
        case ConstV(int() as i) if i >= 0:
            return Interval(i, i + 1)
        case SliceV(lo, hi, _):
            low = _bound(lo)
            high = _bound(hi)
            if (low is None or low.isdigit()) and high is not None and high.isdigit():
                return Interval(int(low or 0), int(high))
            if low is not None and low.isdigit() and low != "0" and high is None:
                return Interval(int(low), UNBOUNDED)
            return SymbolSlice(None if low == "0" else low, high)
        case _:
            return Symbol(key_of(at))


def _bound(value: Value | None) -> str | None:
    return None if value is None or value == NONE else key_of(value)


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


def set_index(m: Machine, container: Value, at: Value, value: Value, span: Span) -> None:
    """``container[at] = value``"""
    container = names.settle(m, container)
    match container:
        case HeapV():
            put(m, m.heap[container.id], names.settle(m, at), value)
        case BufferV():
            target = BufferV(container.id, select(container, names.settle(m, at)), container.flavor)
            tensors.assign_into(m, target, value, span)
        case SymV(base):
            if isinstance(value, (BufferV, EventV, HeapV, TupleV)) or names.is_stream_like(value):
                m.roles[f"{base}[{key_of(at)}]"] = value
            elif m.roles.get(f"{base}[{key_of(at)}]") is not None:
                m.roles.pop(f"{base}[{key_of(at)}]")
        case _:
            pass


def joined(m: Machine, a: HeapV, b: HeapV) -> HeapV:
    made = m.new_list([*m.heap[a.id].items, *m.heap[b.id].items])
    for part in (m.heap[a.id], m.heap[b.id]):
        if part.open:
            m.heap[made.id].open = True
            m.heap[made.id].sample = m.heap[made.id].sample or part.sample
    return made


def method(
    m: Machine, receiver: HeapV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value | None:
    """Methods of list, deque, set and dict; None for a name that they do not have."""
    held = m.heap[receiver.id]
    match name, args:
        case (("append" | "appendleft" | "add" | "put" | "put_nowait"), [item, *_]):
            if name == "appendleft":
                held.items.insert(0, item)
            else:
                held.items.append(item)
            return NONE
        case (("extend" | "update"), [source, *_]):
            return _extend(m, held, source)
        case (("pop" | "popleft" | "popitem" | "get_nowait"), _):
            return _pop(m, held, receiver, name, args)
        case "get", [at, *rest] if held.shape is Shape.DICT:
            found = held.attrs.get(key_of(at))
            if found is not None:
                return found
            if held.open or _may_hit(m, held, receiver, at):
                return _extra(m, held, receiver, key_of(at))
            return rest[0] if rest else NONE
        case "get", _ if held.shape is Shape.LIST and held.sample is not None and not held.items:
            # A queue that other code fills.
            return like(m, held.sample, f"get{m.steps}")
        case "setdefault", [at, *rest]:
            if key_of(at) not in held.attrs:
                put(m, held, at, rest[0] if rest else NONE)
            return held.attrs[key_of(at)]
        case "values", _:
            return _like_list(m, held, list(held.attrs.values()))
        case "keys", _:
            return _like_list(m, held, list(held.keys.values()), sample=SymV(f"object{receiver.id}.key"))
        case "items", _:
            pairs: list[Value] = [TupleV((held.keys[key], held.attrs[key])) for key in held.attrs]
            sample = (
                TupleV((SymV(f"object{receiver.id}.key"), held.sample)) if held.sample is not None else None
            )
            listed_pairs = _like_list(m, held, pairs, sample=sample)
            m.heap[listed_pairs.id].extra = {
                key: TupleV((SymV(key), item)) for key, item in held.extra.items()
            }
            return listed_pairs
        case "clear", _:
            held.items.clear()
            held.attrs.clear()
            held.keys.clear()
            held.extra.clear()
            held.open = False
            return NONE
        case "copy", _:
            made = m.new_object(held.shape, cls=held.cls)
            copied = m.heap[made.id]
            copied.items, copied.attrs, copied.keys = list(held.items), dict(held.attrs), dict(held.keys)
            copied.open, copied.sample = held.open, held.sample
            return made
        case ("insert", [_, item, *_]):
            held.items.insert(0, item)
            return NONE
        case (("remove" | "discard"), [item, *_]):
            if item in held.items:
                held.items.remove(item)
            return NONE
        case (("rotate" | "reverse" | "sort"), _):
            if name != "sort":
                held.items.reverse() if name == "reverse" else held.items.insert(
                    0, held.items.pop()
                ) if held.items else None
            return NONE
        case (("index" | "count" | "__len__" | "issubset" | "union" | "difference"), _):
            return SymV(f"object{receiver.id}.{name}")
        case _:
            return None


def _may_hit(m: Machine, held: HeapObject, owner: HeapV, at: Value) -> bool:
    """Whether an unknown key is taken to be one of those stored; that it is none is explored first.

    ``group = self.groups.get(layer)``, then ``if group:``. A lazily made stream is made for each key.
    """
    if not held.attrs or isinstance(at, ConstV):
        return False
    key = f"({key_of(at)} in {key_of(owner)})"
    orders = any(isinstance(value, (StreamV, EventV)) for value in held.attrs.values())
    relevant = orders and m.frame.touches and not m.constructing
    return m.oracle.choose(key, f"{key_of(at)} is a key", default=1, relevant=relevant) == 0


def _extend(m: Machine, held: HeapObject, source: Value) -> Value:
    if isinstance(source, HeapV) and m.heap[source.id].shape is Shape.DICT and held.shape is Shape.DICT:
        other = m.heap[source.id]
        held.attrs.update(other.attrs)
        held.keys.update(other.keys)
        held.open = held.open or other.open
        held.sample = held.sample or other.sample
        return NONE
    items = listed(m, source)
    if items is None:
        held.open = True
        held.sample = held.sample or (
            m.heap[source.id].sample if isinstance(source, HeapV) else SymV(f"{key_of(source)}[each]")
        )
    else:
        held.items.extend(items)
    return NONE


def _pop(m: Machine, held: HeapObject, receiver: HeapV, name: str, args: list[Value]) -> Value:
    if held.shape is Shape.DICT:
        key = key_of(args[0]) if args else next(iter(held.attrs), "")
        held.keys.pop(key, None)
        found = held.attrs.pop(key, None)
        if found is not None:
            return found
        return _extra(m, held, receiver, key) if held.open or len(args) < 2 else args[1]
    if held.items:
        first = name == "popleft" or (bool(args) and args[0] == ConstV(0))
        return held.items.pop(0 if first else -1)
    if held.open and held.sample is not None:
        return like(m, held.sample, f"pop{m.steps}")
    return SymV(f"object{receiver.id}.{name}#{m.steps}")


def _like_list(m: Machine, held: HeapObject, items: list[Value], sample: Value | None = None) -> HeapV:
    made = m.new_list(items)
    if held.open:
        m.heap[made.id].open = True
        m.heap[made.id].sample = sample if sample is not None else held.sample
        m.heap[made.id].extra = {} if sample is not None else held.extra
    return made
