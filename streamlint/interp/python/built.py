"""Containers and iterators that builtins make of others: ``list(xs)``, ``range(n)``, ``zip(a, b)``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.library import (
    axes,
    tensors,
)
from streamlint.interp.python import (
    container_methods,
    containers,
    iterators,
    mappings,
    objects,
    walks,
)
from streamlint.interp.state import counted, elements, lengths, names, symbols
from streamlint.interp.state.numbers import behind, linear
from streamlint.interp.state.values import (
    NONE,
    BufferV,
    ConstV,
    Flavor,
    GeneratorV,
    HeapV,
    Shape,
    SliceV,
    SymV,
    TupleV,
    Value,
    given_by,
    symbol_of,
)
from streamlint.models import python

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span


LISTED = 512
"""Numbers of a range that are listed; a longer one counts like one of unknown length."""


def made(m: Machine, name: str, args: list[Value], kwargs: dict[str, Value], span: Span) -> Value | None:
    """What a builtin, or a function of ``collections`` or ``itertools``, makes; None for others."""
    first = args[0] if args else NONE
    match name:
        case "range":
            return _range(m, args)
        case "enumerate":
            return _numbered(m, first, args[1] if len(args) > 1 else kwargs.get("start", ConstV(0)))
        case "zip":
            return _zipped(m, args, span)
        case "chain":
            return walks.one_after_the_other(m, [_walked(m, part, span) for part in args], span)
        case "pairwise" if len(args) == 1:
            rest = containers.index(m, first, SliceV(ConstV(1), None, None), span)
            return _zipped(m, [first, rest], span)
        case "cycle":
            return iterators.cycle(m, first)
        case "count":
            start = first if args else kwargs.get("start", ConstV(0))
            return iterators.count(m, start, args[1] if len(args) > 1 else kwargs.get("step", ConstV(1)))
        case "islice" if len(args) == 2:
            return _first(m, first, args[1])
        case "map" | "filter" if len(args) == 2:
            items = elements.listed(m, args[1])
            sources = items if items is not None else [containers.nth(m, args[1], None, span)]
            return m.new_list([m.python.call(m, first, [item], {}, span) for item in sources])
        case "deque":
            most = args[1] if len(args) > 1 else kwargs.get("maxlen")
            return container_methods.bounded_by(m, container(m, name, args, kwargs, span), most)
        case _ if name in python.CONTAINERS:
            return container(m, name, args, kwargs, span)
        case _:
            return None


def _first(m: Machine, source: Value, number: Value) -> Value | None:
    """``islice(pages, 2)``: the first elements, and no more than two of them."""
    held = m.heap[source.id] if isinstance(source, HeapV) else None
    if held is None and not isinstance(source, (SymV, BufferV)):
        return None
    if held is not None and (not held.open or held.role or held.shape is not Shape.LIST):
        return None
    part = containers.lazy(m, containers.SLICE, [source, ConstV(0)])
    lengths.limit(m, part, number)
    return part


def _numbered(m: Machine, source: Value, start: Value) -> Value:
    """``enumerate(xs, start)``"""
    items = elements.listed(m, source)
    begin = start.value if isinstance(start, ConstV) and isinstance(start.value, int) else 0
    if items is not None:
        return m.new_list(m.new_tuple((ConstV(begin + i), x)) for i, x in enumerate(items))
    return containers.lazy(m, "enumerate", [ConstV(begin), source])


def _zipped(m: Machine, args: list[Value], span: Span) -> Value:
    """``zip(lanes, batches)``: three lanes take three batches, if of those nothing is known."""
    columns = [elements.listed(m, arg) for arg in args]
    known = [len(column) for column in columns if column is not None]
    unknown = [names.settle(m, arg) for arg, column in zip(args, columns, strict=True) if column is None]
    if unknown and (not known or not all(_is_plain_sequence(m, arg) for arg in unknown)):
        return containers.lazy(m, "zip", args)
    many = min(known, default=0)
    rows = [
        [
            column[at] if column is not None else _element(m, arg, at, many, span)
            for arg, column in zip(args, columns, strict=True)
        ]
        for at in range(many)
    ]
    return m.new_list(m.new_tuple(row) for row in rows)


def _element(m: Machine, value: Value, at: int, many: int, span: Span) -> Value:
    """One of ``many`` elements that something is taken to have: ``zip(reversed(layers), reversed(kept))``."""
    walked = containers.walked_backwards(m, value)
    if walked is not None:
        return containers.element(m, walked, symbols.constant(many - 1 - at), span)
    return containers.element(m, value, symbols.constant(at), span)


def _is_plain_sequence(m: Machine, value: Value) -> bool:
    """Whether elements can be asked for by their numbers: what is stepped through gives them only once."""
    match value:
        case SymV() | BufferV():
            return True
        case HeapV(number):
            held = m.heap[number]
            return held.shape is Shape.LIST and not held.role
        case _:
            return False


def _range(m: Machine, args: list[Value]) -> Value:
    numbers = [a.value for a in args if isinstance(a, ConstV) and isinstance(a.value, int)]
    if len(numbers) == len(args) and numbers and not (len(numbers) == 3 and numbers[2] == 0):
        listed = range(*numbers)[: LISTED + 1]
        if len(listed) <= LISTED:
            return m.new_list((ConstV(i) for i in listed), kind="range")
    if len(args) == 2 and (last := counted.last_passes(m, args[0], args[1])) is not None:
        return m.new_list((ConstV(i) for i in last), kind="range")
    start = args[0] if len(args) > 1 else ConstV(0)
    step = args[2] if len(args) > 2 else ConstV(1)
    by_numbers = isinstance(start, (ConstV, SymV)) and isinstance(step, ConstV)
    if by_numbers or (start == ConstV(0) and isinstance(step, SymV)):
        return containers.lazy(m, "range", [start, step, args[1] if len(args) > 1 else args[0]])
    return given_by("range", *args)


def container(m: Machine, name: str, args: list[Value], kwargs: dict[str, Value], span: Span) -> Value:
    if name in ("dict", "OrderedDict", "defaultdict"):
        return _dictionary(m, name, args, kwargs, span)
    shape = Shape.SET if name in ("set", "frozenset") else Shape.LIST
    kind = "" if name in ("list", "sorted", "set") else name
    if not args:
        return m.new_list((), shape=shape, kind=kind) if name != "tuple" else TupleV(())
    if name == "iter" and args[1:]:
        return containers.lazy(m, python.CALLED_AGAIN, args)
    source = args[0] if name == "iter" else objects.iterated(m, args[0], span)
    if isinstance(source, BufferV):
        compares = name == "sorted" and m.space(source).on_host
        if compares or (source.flavor is Flavor.ARRAY and not axes.has_rows(source)):
            tensors.read_on_host(m, source, span, f"{name}()")
        made = m.new_list((), kind=kind)
        m.heap[made.id].open, m.heap[made.id].sample = True, replace(source, axes=axes.row(source))
        return made
    if isinstance(source, GeneratorV):
        return drained(m, source, span)
    items = elements.listed(m, source)
    if items is None:
        return _of_unknown_length(m, source, name, shape, kind, span)
    if name == "reversed":
        items.reverse()
    if name == "tuple":
        return m.new_tuple(items)
    if name == "iter":
        return iterators.over(m, source, items)
    return m.new_list(items, shape=shape, kind=kind)


def _walked(m: Machine, value: Value, span: Span) -> Value:
    source = objects.iterated(m, value, span)
    return drained(m, source, span) if isinstance(source, GeneratorV) else source


def _only_walks(name: str) -> bool:
    return name in ("iter", "reversed")


def _of_unknown_length(m: Machine, source: Value, name: str, shape: Shape, kind: str, span: Span) -> Value:
    """``list(xs)``: other lists of the same elements are told apart by what is put into them."""
    held = m.heap[source.id] if isinstance(source, HeapV) else None
    if held is not None and held.role == "range" and shape is Shape.SET:
        return containers.set_of_range(m, source, span)
    match held.items if held is not None and held.role == "range" and name == "reversed" else ():
        case [ConstV(int() as start), ConstV(1), SymV(end)]:
            # In ``for i in reversed(range(n))`` the last number comes first.
            base, far = linear(end)
            return containers.lazy(m, "range", [SymV(behind(base, far - 1)), ConstV(-1), ConstV(start - 1)])
    if isinstance(source, HeapV) and m.heap[source.id].shape is Shape.DICT and not _only_walks(name):
        # todo = set(self.views): its keys, which are taken out of it one by one.
        keys = container_methods.method(m, source, "keys", [], {}, span)
        return container(m, name, [keys] if keys is not None else [], {}, span)
    if held is not None and held.role == "range" and not _only_walks(name):
        # Who takes numbers out of list(range(n)) leaves those of another one.
        return containers.lazy(m, "range", list(held.items))
    if held is not None and (
        _only_walks(name) or held.shape not in (Shape.LIST, Shape.SET) or held.role or held.symbol
    ):
        return source
    made = m.new_list(held.items if held is not None else (), shape=shape, kind=kind)
    copy = m.heap[made.id]
    copy.open = True
    if held is not None:
        copy.sample, copy.extra, copy.born = held.sample, held.extra, held.born
        copy.filled = held.filled
    else:
        copy.symbol = symbol_of(source)
    return made


def drained(m: Machine, source: GeneratorV, span: Span) -> Value:
    collected: list[Value] = []

    def at_yield(value: Value) -> Value:
        collected.append(value)
        return NONE

    m.python.run_generator(m, source, at_yield, span)
    return m.new_list(collected)


def _dictionary(m: Machine, name: str, args: list[Value], kwargs: dict[str, Value], span: Span) -> Value:
    made = m.new_object(Shape.DICT)
    held = m.heap[made.id]
    held.kind = "" if name == "dict" else name
    if args and isinstance(args[0], GeneratorV):
        # dict(loader.values()): the pairs that a generator gives, and the work that it does in between.
        args = [drained(m, args[0], span), *args[1:]]
    if name == "defaultdict":
        held.open = True
        if args:
            held.sample = m.python.call(m, args[0], [], {}, span)
    elif args and not isinstance(args[0], HeapV):
        # dict(net.named_modules())["blocks"] is what other such tables of it have there, too.
        held.open, held.symbol = True, symbol_of(args[0])
    elif args and not mappings.of_pairs(m, held, args[0], span):
        container_methods.method(m, made, "update", [args[0]], {}, span)
    for key, value in kwargs.items():
        containers.put(m, held, ConstV(key), value)
    return made
