"""Methods of unknown mappings, and those that ``collections.abc.Mapping`` gives to classes of the tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.facts import classes
from streamlint.interp.library import used_as
from streamlint.interp.python import containers, objects
from streamlint.interp.state import elements, symbols
from streamlint.interp.state.values import ConstV, HeapObject, HeapV, Shape, SymV, TupleV, Value
from streamlint.models import python

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span


def method(
    m: Machine, receiver: SymV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value | None:
    """A mapping has one value for a key: ``streams.get(device)``, and later ``streams[device]``."""
    if name in python.WALKS_MAPPINGS and not (args or kwargs):
        used_as.shows(m, receiver, used_as.Use.MAPPING)
    match name, args:
        case "get", [at, *rest] if len(rest) < 2 and not kwargs and not isinstance(at, ConstV):
            return containers.index(m, receiver, at, span)
        case "get" | "pop", [ConstV(str()), ConstV(True)] if not kwargs:
            flag = m.result(symbols.Attr(receiver.symbol, name), span)
            m.usual.add(flag.symbol)
            return flag
        case "keys", [] if not kwargs:
            return receiver
        case "values", [] if not kwargs:
            return _values(m, receiver)
        case "items", [] if not kwargs:
            return containers.lazy(m, "zip", [receiver, _values(m, receiver)])
        case _:
            return None


def _values(m: Machine, table: SymV) -> Value:
    return containers.lazy(m, "values", [table])


def of_pairs(m: Machine, held: HeapObject, pairs: Value, span: Span) -> bool:
    """``dict(zip(names, pages))`` of two lists of unknown length: one entry stands for all.

    So with a list of pairs, ``[(name, self.pages[name]) for name in names]``, and what it is known to hold.
    Those that are told apart, ``dict(net.named_parameters())``, have an entry each.
    """
    source = m.heap[pairs.id] if isinstance(pairs, HeapV) else None
    if source is None or source.shape is not Shape.LIST or not source.open:
        return False
    if source.items and not source.role:
        held.open = True
        return _put_pairs(m, held, source.items)
    if source.role != "zip" and (source.role or source.sample is None):
        return False
    match containers.nth(m, pairs, None, span):
        case TupleV((key, value)):
            held.open, held.key_sample, held.sample, held.born = True, key, _of_each(value), source.born
        case _:
            return False
    _put_pairs(m, held, source.extra.values())
    return True


def _put_pairs(m: Machine, held: HeapObject, pairs: Iterable[Value]) -> bool:
    """Whether all of them were pairs."""
    others = 0
    for item in pairs:
        match item:
            case TupleV((key, value)):
                containers.put(m, held, key, value)
            case _:
                others += 1
    return not others


def _of_each(value: Value) -> Value:
    """A number that stands for those of all pairs: under another key stands another one."""
    if not isinstance(value, SymV) or symbols.has(value.symbol, symbols.Each):
        return value
    return replace(value, symbol=symbols.Item(value.symbol, symbols.EACH))


def of_object(m: Machine, receiver: HeapV, name: str, args: Sequence[Value], span: Span) -> Value | None:
    """``class Batch(Mapping)`` has ``items()``: what walking it gives, with what it has for that."""
    asks = classes.method(m, receiver, "__getitem__")
    if asks is None or not classes.is_mapping(m, receiver):
        return None
    match name, args:
        case "get", [at, *_]:
            return m.python.call(m, asks, [at], {}, span)
        case (("keys" | "values" | "items"), []):
            pass
        case _:
            return None
    walked = objects.iterated(m, receiver, span)
    keys = elements.listed(m, walked)
    each = keys if keys is not None else [containers.any_of(m, walked, span)]
    values = [m.python.call(m, asks, [at], {}, span) for at in each] if name != "keys" else each
    pairs = [TupleV(pair) for pair in zip(each, values, strict=True)]
    made = m.new_list(pairs if name == "items" else values)
    if keys is None:
        held = m.heap[made.id]
        held.open, held.sample = True, held.items[0]
    return made
