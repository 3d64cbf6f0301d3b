"""Which keys of a table are surely two: ``streams[device, "copy"]`` and ``streams[device, "compute"]``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.library import devices, module_memory, stored, tensor_methods
from streamlint.interp.state import symbols
from streamlint.interp.state.values import BufferV, HeapV, SymV, TupleV, symbol_of
from streamlint.trace import StreamId, StreamKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.interp.state.values import HeapObject, Value

_FROM_OUTSIDE = (StreamKind.CURRENT, StreamKind.LEGACY, StreamKind.PER_THREAD)


def hashed(m: Machine, key: Value) -> Value:
    """A key as it is compared: each ``tuple(x.shape)`` of one ``x`` is the same."""
    match key:
        case TupleV(items):
            return TupleV(tuple(hashed(m, item) for item in items))
        case HeapV(number) if (held := m.heap[number]).kind == "tuple" and held.symbol is not None:
            return SymV(symbols.call("tuple", held.symbol))
        case _:
            return key


def named_before(m: Machine, held: HeapObject, key: Value) -> Value:
    """The key under which something stands that has another name since: ``pages[x.device, x.shape[0]]``.

    What ``x`` is may show between the two times that code asks, ``x.sum(out=page)``: the device of a tensor
    is another value than an attribute of something unknown. So with ``self.group_of[layer.bias] = group``,
    and a hook that gets the parameter itself.
    """
    sought = symbol_of(key)
    known = (*held.entries, *held.extra)
    if sought in held.entries or sought in held.extra or not any(_may_be_renamed(m, one) for one in known):
        return key
    now = _as_now(m, sought)
    same = next((one for one in known if _as_now(m, one) is now), None)
    return key if same is None else held.keys.get(same, SymV(same))


def _may_be_renamed(m: Machine, key: Symbol) -> bool:
    return symbols.has(key, symbols.Attr) or isinstance(m.roles.get(key), BufferV)


def _as_now(m: Machine, key: Symbol) -> Symbol:
    """A key as the same expression names it by now."""
    if isinstance(view := m.roles.get(key), BufferV):
        return symbol_of(view)
    match key:
        case symbols.Tuple(items):
            return symbols.Tuple(tuple(_as_now(m, item) for item in items))
        case symbols.Item(symbols.Attr() as of, at):
            return symbols.Item(_as_now(m, of), at)
        case symbols.Attr(of, name) if isinstance(view := m.roles.get(of), BufferV):
            now = tensor_methods.form(m, view, name)
            return key if now is None else symbol_of(now)
        case symbols.Attr(symbols.Attr(of, "device"), name) if isinstance(view := m.roles.get(of), BufferV):
            device = devices.of_memory(m, view)
            told = devices.attribute(device, name)
            return symbols.Attr(symbol_of(device), name) if told is None else symbol_of(told)
        case _:
            return key


def standing(m: Machine, held: HeapObject, sought: Symbol) -> Symbol:
    """The key under which something stands that code takes out: the only one that it can be.

    ``fetch(name)`` has put a block, and ``del self.blocks[name]`` of another call takes one out: this one.
    """
    if held.open or sought in held.entries:
        return sought
    others = [key for key in held.entries if not are_two(m, key, sought)]
    return others[0] if len(others) == 1 else sought


def by_name(m: Machine, held: HeapObject, sought: Symbol) -> Symbol:
    """The key by which a loop over all keys came by what is asked for by its name.

    ``for name in names: self.pages[name].copy_(rows[name])``, and then ``self.pages["ids"]``: one of the
    passes did it to that page. Which one is not known: the first will do whose key was asked nothing.
    """
    if not _is_name(sought) or sought in held.entries or sought in held.extra:
        return sought
    walked = list(_of_passes(held))
    told = next((key for key in walked if m.equal.get(key) is sought), None)
    if told is not None:
        return told
    free = next((key for key in walked if key not in m.equal and not _was_asked(m, key, sought)), None)
    if free is None:
        return sought
    said = f"{symbols.text_of(free)} is {symbols.text_of(sought)}"
    m.oracle.choose(symbols.Compare("==", free, sought), said, options=1)
    m.equal[free] = sought
    return free


def _is_name(key: Symbol) -> bool:
    return isinstance(key, symbols.Const) and key.kind is str


def _of_passes(held: HeapObject) -> Iterator[symbols.Item]:
    """The keys that passes of loops had which come by all of a table: over what its keys are made of.

    Another collection may lack a key: ``for name in batch: self.pages[name].copy_(batch[name])``.
    """
    made_of = held.key_sample.symbol if isinstance(held.key_sample, SymV) else None
    for key in (*held.entries, *held.extra):
        if not isinstance(key, symbols.Item) or symbols.number(key.at) is None:
            continue
        if isinstance(made_of, symbols.Item) and made_of.at is symbols.EACH:
            of_all = held.open and key.of is made_of.of
        else:
            of_all = held.filled and key in held.entries
        if of_all:
            yield key


def _was_asked(m: Machine, key: symbols.Item, sought: Symbol) -> bool:
    """Whether the path has told keys apart by what they say: ``if name in SMALL``, ``name.startswith("k")``.

    That one of them is ``"ids"`` tells nothing of ``"mask"``. What a comprehension asks, it asks of all.
    """
    each = symbols.Item(key.of, symbols.EACH)
    questions = (*m.comparisons, *m.oracle.memo)
    return any(_tells(question, one, sought) for question in questions for one in (key, each))


def _tells(question: Symbol, key: Symbol, sought: Symbol) -> bool:
    match question:
        case symbols.Compare("==", left, right) if key in (left, right):
            other = right if key is left else left
            return other is sought or not _is_name(other)
        case symbols.Compare("in", left, _):
            return key is left
        case symbols.Call(symbols.Attr(of, _), _):
            return key is of
        case _:
            return False


def taken(m: Machine, held: HeapObject, sought: Symbol) -> Value | None:
    """Takes an entry out, with all names by which the table has given it."""
    key = standing(m, held, sought)
    held.keys.pop(key, None)
    found = held.entries.pop(key, None)
    for name in [name for name, value in held.extra.items() if value == found]:
        del held.extra[name]
    return found


def of_one_module(m: Machine, held: HeapObject, sought: Symbol) -> Symbol | None:
    """The first key that may be the parameter that is asked for, which was listed in another way.

    ``handles[p]`` of ``net.parameters()``, and ``handles.pop(net.head.weight, None)``.
    """
    return next((key for key in held.entries if _are_of_modules(m, key, sought)), None)


def are_two(m: Machine, one: Symbol, other: Symbol) -> bool:
    """Whether two keys surely differ: those with the handles of two streams do, one of which the code made.

    ``pages[torch.cuda.current_stream().cuda_stream]`` inside of ``with torch.cuda.stream(self.side)``, and
    behind it: the stream that callers selected is another one than ``self.side``.
    """
    match one, other:
        case symbols.Const(kind, value), symbols.Const(other_kind, other_value):
            return kind is other_kind and value != other_value
        case symbols.Thing("stream", int() as first), symbols.Thing("stream", int() as second):
            both = [m.streams[StreamId(number)] for number in (first, second)]
            made = [stream for stream in both if stream.span is not None and not stream.may_be_current]
            others = [stream for stream in both if stream not in made]
            return first != second and bool(made) and all(one.kind in _FROM_OUTSIDE for one in others)
        case symbols.Tuple(items), symbols.Tuple(others):
            pairs = zip(items, others, strict=False)
            return len(items) != len(others) or any(are_two(m, *pair) for pair in pairs)
        case _:
            return False


def _are_of_modules(m: Machine, one: Symbol, other: Symbol) -> bool:
    places = stored.before(m, one), stored.before(m, other)
    if not all(module_memory.has(m, place) for place in places):
        return False
    listed = [place.of for place in places if isinstance(place, symbols.Item)]
    # Not head.weight and head.bias, nor two that were listed one behind the other.
    return len(listed) == 1 or (len(listed) == len(places) and listed[0] is not listed[1])
