"""What a walk over something of unknown length comes by, beside its first elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.python import containers, joined_lists, some_element
from streamlint.interp.state import counted, elements, loop_steps, symbols
from streamlint.interp.state.once import made_before
from streamlint.interp.state.values import (
    ConstV,
    EventV,
    HeapObject,
    HeapV,
    Shape,
    StreamV,
    SymV,
    TupleV,
    Value,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.source import Span

_KEPT = (StreamV, EventV, HeapV, TupleV)
"""Elements that are told apart; memory is one buffer with places in it."""
_OF_ORDER = (StreamV, EventV)


def is_filled(m: Machine, value: Value) -> bool:
    """Whether what a walk comes by stands for all: see ``HeapObject.filled``."""
    held = m.heap[value.id] if isinstance(value, HeapV) else None
    if held is not None and held.role == "enumerate":
        return is_filled(m, held.items[1])
    return held is not None and held.filled


def asked_for(m: Machine, value: Value, span: Span, *, at_end: int = 0) -> list[Value]:
    """Elements of an open list that it is known to have, or that were asked for by an unknown index.

    Not those that the walk comes by in its last passes, where there are some: ``joined_lists.at_end``.

    A loop over the list has them too: ``s = self.streams[k]``, and later ``for s in self.streams:
    current.wait_stream(s)``; ``batch["image"] = batch["image"].float()``, and later ``batch.values()``.
    """
    held = m.heap[value.id] if isinstance(value, HeapV) else None
    match held:
        case HeapObject(role="enumerate", items=[start, inner]):
            places = _places(m, inner) if start == ConstV(0) else {}
            return [
                TupleV((places.get(item) or m.fresh("index"), item))
                for item in asked_for(m, inner, span, at_end=at_end)
            ]
        case HeapObject(role="zip", items=parts):
            return [
                TupleV(tuple(containers.element(m, part, at, span) for part in parts))
                for at in _asked_of_any(m, parts, at_end)
            ]
        case HeapObject(shape=Shape.LIST | Shape.SET, open=True, extra=extra):
            apart = (at for at in extra if not (_is_numbered(extra, at) or _is_end(extra, at, at_end)))
            unknown = (extra[at] for at in apart)
            asked: list[Value] = [item for item in unknown if isinstance(item, _KEPT)]
            beside = held.filled or (held.sample is not None and not held.role)
            return [*held.items, *asked] if beside else asked
        case HeapObject(shape=Shape.DICT, open=True, filled=False, sample=sample, keys=keys) if (
            sample is not None
        ):
            return list(keys.values())
        case HeapObject(shape=Shape.DICT, filled=True, keys=keys, extra=extra):
            return [*keys.values(), *(SymV(at) for at in extra if symbols.number(at) is None)]
        case _:
            return []


def _places(m: Machine, value: Value) -> dict[Value, Value]:
    """The indices that are not known by which elements of a list were asked for.

    ``start(layers[i + 1])``, and later ``for k, layer in enumerate(layers)``: that one has ``i + 1``.
    """
    held = m.heap[value.id] if isinstance(value, HeapV) else None
    match held:
        case HeapObject(shape=Shape.LIST, role="", extra=extra):
            return {item: SymV(at) for at, item in extra.items() if symbols.number(at) is None}
        case _:
            return {}


def _is_end(extra: Mapping[Symbol, Value], at: Symbol, many: int) -> bool:
    """Whether an index is that of one of the last ``many`` elements, ``lanes[-1]``, or has another number."""
    match at:
        case symbols.Const(value=int() as place) if place < 0:
            numbered = (one for other, one in extra.items() if symbols.number(other) is not None)
            return place >= -many or extra[at] in numbered
        case _:
            return False


def _is_numbered(extra: Mapping[Symbol, Value], at: Symbol) -> bool:
    """Whether an element has a number, by which a walk comes by it.

    ``host = {name: page(p) for name, p in named}``: what stood for each of ``named`` is the first one for
    who walks it next, if nobody has asked for that before.
    """
    if at is symbols.EACH:
        return extra.get(some_element.FIRST, extra[at]) == extra[at]
    return symbols.number(at) is not None


def first_of_others(m: Machine, value: Value, asked: int) -> int:
    """The number of the first element that a walk comes by behind those of ``asked_for``.

    ``use(lanes[k]); use(lanes[0])``, then ``for s in lanes: wait(s)``: the first lane is among the others.
    """
    held = m.heap[value.id] if isinstance(value, HeapV) else None
    match held:
        case HeapObject(role="enumerate", items=[_, inner]):
            return first_of_others(m, inner, asked)
        case HeapObject(role="zip" | "slice"):
            return 0
        case HeapObject(shape=Shape.LIST | Shape.SET, role="", items=known):
            return min(len(known), asked)
        case _:
            return asked


def one_after_the_other(m: Machine, parts: list[Value], span: Span) -> HeapV:
    """``itertools.chain(firsts, seconds)``"""
    listed = [elements.listed(m, part) for part in parts]
    known = [items for items in listed if items is not None]
    if len(known) == len(parts):
        return m.new_list((item for items in known for item in items), kind="chain")
    if listed[0] is None and len(known) == len(parts) - 1:
        end = [item for items in known for item in items]
        made = joined_lists.one_list(m, [parts[0], end], containers.CHAIN, span)
        if made is not None:
            return made
    return containers.lazy(m, containers.CHAIN, parts)


def known_by_number(m: Machine, value: Value) -> int:
    """How many elements an open list has at least, since code has used them by their number.

    ``for i, s in enumerate(streams)`` makes a pass more than other loops, and ``for s in streams: wait(s)``
    behind it comes by the same streams.
    """
    if isinstance(value, SymV):
        return _used_by_number(m, value.symbol)
    held = m.heap[value.id] if isinstance(value, HeapV) else None
    match held:
        case HeapObject(role="enumerate", items=[_, inner]):
            return known_by_number(m, inner)
        case HeapObject(role="zip" | "values", items=parts):
            return max((known_by_number(m, part) for part in parts), default=0)
        case HeapObject(role=containers.CHAIN, items=parts):
            return len(parts) * max(
                len(elements.listed(m, one) or ()) or known_by_number(m, one) for one in parts
            )
        case HeapObject(role=containers.SLICE, items=[inner, ConstV(int() as first), *_]):
            return max(known_by_number(m, inner) - first, 0)
        case HeapObject(items=known, rest=rest) if rest is not None:
            return len(known) + known_by_number(m, rest)
        case HeapObject(shape=Shape.LIST | Shape.DICT, open=True, role="", extra=extra):
            kept = (at for at, item in extra.items() if isinstance(item, _KEPT))
            # {d: Stream(d) for d in devices} is asked for what stands at devices[1].
            places = (at.at if isinstance(at, symbols.Item) else at for at in kept)
            numbers = (symbols.number(at) for at in places)
            return max((at + 1 for at in numbers if at is not None), default=0)
        case _:
            return 0


def _used_by_number(m: Machine, of: Symbol) -> int:
    """The same of what callers pass, of which nothing but its use tells that it is a list of streams.

    Objects are made when code first uses them: a walk the other way around begins with one of the middle.
    """
    places = [made_before(symbols.Item, of, symbols.constant(at)) for at in range(loop_steps.SURE_TURNS)]
    used = (at for at, place in enumerate(places) if place and isinstance(m.roles.get(place), _OF_ORDER))
    return max(used, default=-1) + 1


def was_walked(m: Machine, value: Value, passes: int) -> bool:
    """Whether an earlier loop of the path came by all elements of a list in so many passes.

    ``for stage in self.stages: x = stage(x)``, for each batch, and then ``self.stages[-1].stream``: the list
    does not grow from call to call.
    """
    held = m.heap[value.id] if isinstance(value, HeapV) else None
    match held:
        case HeapObject(role="enumerate", items=[_, inner]):
            return was_walked(m, inner, passes)
        case HeapObject(shape=Shape.LIST, open=True, role=""):
            return counted.passes_of(m, value) == passes
        case _:
            return False


def _asked_of_any(m: Machine, parts: list[Value], at_end: int) -> list[Symbol]:
    """The unknown indices by which some of several lists were asked: ``zip(self.lanes, frames)``."""
    lists = [m.heap[part.id] for part in parts if isinstance(part, HeapV)]
    asked = (
        at
        for held in lists
        if held.shape is Shape.LIST and held.open and not held.role
        for at, item in held.extra.items()
        if isinstance(item, _KEPT)
        if symbols.number(at) is None and not _is_end(held.extra, at, at_end)
    )
    return list(dict.fromkeys(asked))
