"""What the methods of list, deque, set, dict and queue do, and the operators that make new lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.library import monitors
from streamlint.interp.python import keys, some_element
from streamlint.interp.python.alike import like
from streamlint.interp.python.containers import (
    changes,
    is_walked_by_key,
    lazy,
    of_its_own,
    put,
    where,
)
from streamlint.interp.state import emptied, results, symbols
from streamlint.interp.state.elements import listed, parts
from streamlint.interp.state.values import (
    FALSE,
    NONE,
    ConstV,
    EventV,
    HeapObject,
    HeapV,
    Shape,
    StreamV,
    SymV,
    TupleV,
    Value,
    each_of,
    symbol_of,
    told,
)
from streamlint.models import host

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.source import Span


def bounded_by(m: Machine, made: Value, most: Value | None) -> Value:
    """``deque(maxlen=2)``, ``deque(pages, 2)``"""
    if isinstance(made, HeapV) and isinstance(most, ConstV) and isinstance(most.value, int):
        m.heap[made.id].most = most.value
        _let_go(m.heap[made.id])
    return made


def _let_go(held: HeapObject, *, from_end: bool = False) -> None:
    """A deque that is full lets go of what stands at the other end."""
    if held.most is not None and len(held.items) > held.most:
        held.items = held.items[: held.most] if from_end else held.items[-held.most or len(held.items) :]


def method(
    m: Machine, receiver: HeapV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value | None:
    """Methods of list, deque, set and dict; None for a name that they do not have."""
    held = m.heap[receiver.id]
    of_its_own(m, held, span)
    if held.shape is Shape.DICT and args:
        args = [where(m, held, args[0]), *args[1:]]
    for group in (_puts, _takes, _looks_up, _of_table, _of_all):
        if (answer := group(m, receiver, name, args, kwargs, span)) is not None:
            return answer
    return None


def _puts(
    m: Machine, receiver: HeapV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value | None:
    held = m.heap[receiver.id]
    match name, args:
        case "add", [item, *_] if held.shape is Shape.SET and item in held.items:
            return NONE
        case (("append" | "appendleft" | "add" | "put" | "put_nowait"), [item, *_]):
            changes(m, receiver)
            item = results.put_aside(m, item)
            if name == "appendleft":
                held.items.insert(0, item)
            else:
                held.items.append(item)
            _let_go(held, from_end=name == "appendleft")
            monitors.put_aside(m, receiver, item, span)
            return NONE
        case (("extend" | "update"), [source, *_]):
            changes(m, receiver)
            extended = _extend(m, receiver, source)
            _let_go(held)
            return extended
        case "insert", [ConstV(int() as at), item] if at >= 0 or not held.open:
            held.items.insert(at, item)
            return NONE
        case "insert", [_, item, *_]:
            changes(m, receiver)
            held.items.insert(0, item)
            return NONE
        case _:
            return None


def _takes(
    m: Machine, receiver: HeapV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value | None:
    held = m.heap[receiver.id]
    match name, args:
        case (("get" | "get_nowait"), _) if held.items and receiver.id in m.monitors:
            # A queue of threads.
            return _seen(m, held, held.items.pop(_comes_first(held)), span)
        case "popitem", _ if held.shape is Shape.DICT:
            m.taken += 1
            pair = _pop_item(m, held, receiver, from_front=FALSE in (*args, kwargs.get("last")))
            monitors.take_aside(m, pair, span)
            return pair
        case "move_to_end", [key, *rest] if held.shape is Shape.DICT:
            _move(held, symbol_of(key), to_front=FALSE in (*rest, kwargs.get("last")))
            return NONE
        case (("pop" | "popleft" | "get_nowait"), _):
            changes(m, receiver)
            return _seen(m, held, _pop(m, held, receiver, name, args), span)
        case (("remove" | "discard"), [item, *_]):
            changes(m, receiver)
            _remove(m, held, receiver, item)
            return NONE
        case "clear", _:
            for item in parts(m, receiver):
                monitors.take_aside(m, item, span)
            held.items.clear()
            held.entries.clear()
            held.keys.clear()
            held.extra.clear()
            held.open = False
            held.rest = None
            if held.kind != "defaultdict":
                # There it is what its factory gives, and stays that.
                held.sample = held.key_sample = None
            return NONE
        case _:
            return None


def _move(held: HeapObject, key: Symbol, *, to_front: bool) -> None:
    """``table.move_to_end(key)``: which entry ``popitem()`` takes next, or ``popitem(last=False)``."""
    if key in held.entries:
        order = [one for one in held.entries if one is not key]
        order.insert(0 if to_front else len(order), key)
        held.entries = {one: held.entries[one] for one in order}
        held.keys = {one: held.keys[one] for one in order}


def _comes_first(held: HeapObject) -> int:
    """Which of the things in a queue is taken next.

    Which is least, the numbers say that code puts before them: ``tasks.put((0, page))``. Where they are not
    known, the first is as good as any.
    """
    if held.kind == host.LAST_COMES_FIRST:
        return -1
    if held.kind == host.LEAST_COMES_FIRST:
        ranks = [_rank(item) for item in held.items]
        known = [rank for rank in ranks if rank is not None]
        return ranks.index(min(known)) if len(known) == len(ranks) else 0
    return 0


def _rank(item: Value) -> float | None:
    first = item.items[0] if isinstance(item, TupleV) and item.items else item
    return first.value if isinstance(first, ConstV) and isinstance(first.value, (int, float)) else None


def _remove(m: Machine, held: HeapObject, receiver: HeapV, item: Value) -> None:
    """Takes an element out; where it is not known which one that is, one that is not known either.

    ``todo = {id(p) for p in params}``, and ``todo.discard(id(p))`` in a hook of each parameter: in the end
    the set is empty.
    """
    is_in = symbols.Compare("in", symbol_of(item), symbol_of(receiver))
    if item in held.items:
        held.items.remove(item)
    elif held.open and held.shape is not Shape.SET:
        emptied.took(m, symbol_of(receiver))
    elif held.shape is Shape.SET and isinstance(item, SymV) and m.oracle.memo.get(is_in) != 1:
        held.items[:] = _without_one(held.items)
    if held.shape is Shape.SET:
        m.oracle.answer(is_in, 1)


def _without_one(items: list[Value]) -> list[Value]:
    unknown = next((number for number, one in enumerate(items) if isinstance(one, SymV)), len(items))
    return items[:unknown] + items[unknown + 1 :]


def _looks_up(
    m: Machine, receiver: HeapV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value | None:
    held = m.heap[receiver.id]
    match name, args:
        case _ if name in host.COUNTS_OF_QUEUES and receiver.id in m.monitors:
            return m.fresh(name, span)
        case "get", [at, *rest] if held.shape is Shape.DICT:
            key = keys.by_name(m, held, symbol_of(at))
            found = held.entries.get(key)
            if found is not None:
                return found
            if held.open or _may_hit(m, held, receiver, at):
                return some_element.found(m, held, receiver, key)
            return rest[0] if rest else NONE
        case "get", _ if held.shape is Shape.LIST and held.sample is not None and not held.items:
            # A queue that other code fills.
            return like(m, held.sample, symbols.Thing("get", m.steps), held.born)
        case "setdefault", [at, *rest]:
            if symbol_of(at) not in held.entries:
                put(m, held, at, rest[0] if rest else NONE)
            return held.entries[symbol_of(at)]
        case (("index" | "count" | "__len__" | "issubset" | "union" | "difference"), _):
            return SymV(symbols.Attr(symbol_of(receiver), name))
        case _:
            return None


def _of_table(
    m: Machine, receiver: HeapV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value | None:
    """``table.values()`` and its kin, as lists of what a loop comes by."""
    held = m.heap[receiver.id]
    match name:
        case "values" if not args and is_walked_by_key(held):
            return lazy(m, "values", [receiver])
        case "items" if not args and is_walked_by_key(held):
            return lazy(m, "zip", [receiver, lazy(m, "values", [receiver])])
        case "values":
            return _like_list(m, held, list(held.entries.values()))
        case "keys":
            return _like_list(m, held, list(held.keys.values()), sample=_any_key(m, receiver))
        case "items":
            pairs = [m.new_tuple((held.keys[key], held.entries[key])) for key in held.entries]
            sample = TupleV((_any_key(m, receiver), held.sample)) if held.sample is not None else None
            listed_pairs = _like_list(m, held, pairs, sample=sample)
            m.heap[listed_pairs.id].extra = {
                key: TupleV((SymV(key), item)) for key, item in held.extra.items()
            }
            return listed_pairs
        case _:
            return None


def _of_all(
    m: Machine, receiver: HeapV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value | None:
    """What is done with all elements at once."""
    items = m.heap[receiver.id].items
    match name:
        case "copy":
            return copied(m, receiver)
        case "rotate":
            _rotate(items, args)
            return NONE
        case "reverse":
            items.reverse()
            return NONE
        case "sort":
            return NONE
        case _:
            return None


def _rotate(items: list[Value], args: list[Value]) -> None:
    """``ring.rotate(-1)``; by an unknown number it is taken to go on by one."""
    by = args[0].value if args and isinstance(args[0], ConstV) else 1
    if items and isinstance(by, int):
        first = -by % len(items)
        items[:] = items[first:] + items[:first]


def copied(m: Machine, value: Value) -> HeapV | None:
    """``table.copy()``, ``copy.copy(table)``: another container of the same elements."""
    held = m.heap[value.id] if isinstance(value, HeapV) else None
    if held is None or held.shape is Shape.INSTANCE:
        return None
    made = m.new_object(held.shape, cls=held.cls)
    other = m.heap[made.id]
    other.items, other.entries, other.keys = list(held.items), dict(held.entries), dict(held.keys)
    other.open, other.sample, other.born = held.open, held.sample, held.born
    other.key_sample, other.filled, other.most = held.key_sample, held.filled, held.most
    return made


def _any_key(m: Machine, table: HeapV) -> Value:
    return m.heap[table.id].key_sample or SymV(symbols.Attr(symbol_of(table), "key"))


def _may_hit(m: Machine, held: HeapObject, owner: HeapV, at: Value) -> bool:
    """Whether an unknown key is taken to be one of those stored; that it is none is explored first.

    ``group = self.groups.get(layer)``, then ``if group:``. A lazily made stream is made for each key.
    """
    sought = symbol_of(at)
    if isinstance(at, ConstV) or all(keys.are_two(m, sought, key) for key in held.entries):
        return False
    key = symbols.Compare("in", symbol_of(at), symbol_of(owner))
    orders = any(isinstance(value, (StreamV, EventV)) for value in held.entries.values())
    relevant = orders and m.frame.touches and not m.constructing
    return m.oracle.choose(key, f"{told(at)} is a key", default=1, relevant=relevant) == 0


def _extend(m: Machine, receiver: HeapV, source: Value) -> Value:
    held = m.heap[receiver.id]
    if isinstance(source, HeapV) and m.heap[source.id].shape is Shape.DICT and held.shape is Shape.DICT:
        other = m.heap[source.id]
        held.entries.update(other.entries)
        held.keys.update(other.keys)
        held.open = held.open or other.open
        held.sample = held.sample or other.sample
        return NONE
    items = listed(m, source)
    if items is None:
        emptied.filled(m, symbol_of(receiver))
        held.open = True
        if held.shape is Shape.DICT and isinstance(source, HeapV):
            held.sample = held.sample or _sample_of_pairs(m.heap[source.id].items)
        held.sample = held.sample or (
            m.heap[source.id].sample if isinstance(source, HeapV) else each_of(source)
        )
    elif held.shape is Shape.DICT and all(
        isinstance(pair, TupleV) and len(pair.items) == 2 for pair in items
    ):
        # As of ``dict(zip(names, tensors))``.
        for pair in items:
            if isinstance(pair, TupleV):
                put(m, held, *pair.items)
    else:
        m.fill(receiver, items)
    return NONE


def _sample_of_pairs(items: Sequence[Value]) -> Value | None:
    """What stands for the values of pairs that are parts of one thing: ``dict(net.named_parameters())``."""
    values = [pair.items[1] for pair in items if isinstance(pair, TupleV) and len(pair.items) == 2]
    owners = {
        one.symbol.of if isinstance(one, SymV) and isinstance(one.symbol, symbols.Item) else None
        for one in values
    }
    owner = owners.pop() if len(owners) == 1 and len(values) == len(items) else None
    return None if owner is None else SymV(owner)


def _seen(m: Machine, held: HeapObject, taken: Value, span: Span) -> Value:
    """Who takes what another thread or a host function has put there knows what that knew."""
    m.taken += 1
    if symbol_of(taken) in held.told:
        monitors.see(m, held, symbol_of(taken), span)
    monitors.take_aside(m, taken, span)
    return taken


def _pop_item(m: Machine, held: HeapObject, receiver: HeapV, *, from_front: bool) -> Value:
    """``key, page = table.popitem()``: the last pair that was put there, or the first."""
    at = next(iter(held.entries) if from_front else reversed(held.entries), None)
    if at is None:
        # It is gone then: the next one is another.
        emptied.took(m, symbol_of(receiver))
        key = symbols.Item(symbol_of(_any_key(m, receiver)), symbols.Thing("popitem", m.steps))
        item = some_element.found(m, held, receiver, key)
        del held.extra[key]
        return TupleV((SymV(key), item))
    return TupleV((held.keys.pop(at), held.entries.pop(at)))


def _pop(m: Machine, held: HeapObject, receiver: HeapV, name: str, args: list[Value]) -> Value:
    if held.shape is Shape.DICT:
        key = symbol_of(args[0]) if args else next(iter(held.entries), symbols.EACH)
        found = keys.taken(m, held, key) if len(args) < 2 or key in held.entries else None
        if found is not None:
            return found
        if len(args) == 2 and not held.open:
            # handle = self.handles.pop(param, None), and then: if handle is not None: handle.wait()
            meant = keys.of_one_module(m, held, key)
            asked = symbols.Compare("in", key, symbol_of(receiver))
            if meant is not None and m.oracle.choose(asked, f"{told(args[0])} is a key") == 0:
                held.keys.pop(meant)
                return held.entries.pop(meant)
            return args[1]
        return some_element.found(m, held, receiver, key)
    if held.items:
        first = name == "popleft" or (bool(args) and args[0] == ConstV(0))
        return held.items.pop(0 if first else -1)
    known = [at for at in held.extra if symbols.number(at) is not None] if held.open and not args else []
    if known and name == "pop":
        # for i in range(n): start(streams[i]), and then: while streams: wait(streams.pop())
        emptied.took(m, symbol_of(receiver))
        return held.extra.pop(known[-1])
    if held.open:
        emptied.took(m, symbol_of(receiver))
    if held.open and held.sample is not None:
        return like(m, held.sample, symbols.Thing("pop", m.steps), held.born)
    return SymV(
        symbols.Fresh(symbols.Attr(symbol_of(receiver), name), "", 0, 0, m.steps, m.call, len(m.calls))
    )


def _like_list(m: Machine, held: HeapObject, items: list[Value], sample: Value | None = None) -> HeapV:
    made = m.new_list(items)
    if held.open:
        m.heap[made.id].open = True
        m.heap[made.id].sample = sample if sample is not None else held.sample
        m.heap[made.id].born, m.heap[made.id].filled = held.born, held.filled
        m.heap[made.id].extra = {} if sample is not None else held.extra
    return made
