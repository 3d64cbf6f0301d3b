"""Names for messages: things are called what the user's variables call them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.state import arguments, symbols
from streamlint.interp.state.budgets import short
from streamlint.interp.state.values import (
    BufferV,
    CallbackV,
    EventV,
    GraphV,
    HeapObject,
    HeapV,
    StreamV,
    SymV,
    TupleV,
    Value,
    symbol_of,
)
from streamlint.trace import BufferId, Origin
from streamlint.trace import Symbol as Part

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol


def rename(m: Machine, value: Value, name: str, depth: int = 3) -> None:
    """Names things after the variable that holds them.

    The outermost function's name wins: ``s = make_stream()`` is ``s``, whatever the helper
    called it. Among names of one level a variable's own comes before that of an element
    (``h2d = streams[0]`` is ``h2d``), and then the first.
    """
    match value:
        case BufferV(number) | CallbackV(number):
            if _takes_name(m, ("buffer", number), name):
                m.buffers[number] = replace(m.buffers[number], name=name)
        case StreamV(number):
            if m.streams[number].span is not None and _takes_name(m, ("stream", number), name):
                m.streams[number] = replace(m.streams[number], name=name)
        case EventV(number):
            if m.events[number].span is not None and _takes_name(m, ("event", number), name):
                m.events[number] = replace(m.events[number], name=name)
        case GraphV(number):
            if _takes_name(m, ("graph", number), name):
                m.graphs[number] = replace(m.graphs[number], name=name)
        case SymV(symbol) if symbols.has(symbol, symbols.Thing, symbols.Memory):
            if _takes_name(m, symbol, name):
                m.held_as[symbol] = name
        case HeapV(number) if number in m.monitors:
            if _takes_name(m, ("monitor", number), name):
                m.monitors[number] = replace(m.monitors[number], name=name)
        case TupleV(items) if depth:
            _rename_elements(m, items, name, depth)
        case HeapV(number) if depth and m.heap[number].cls is None:
            if _takes_name(m, symbol_of(value), name):
                m.held_as[symbol_of(value)] = name
            _rename_contents(m, m.heap[number], name, depth)
        case _:
            pass


def _rename_elements(m: Machine, items: tuple[Value, ...] | list[Value], name: str, depth: int) -> None:
    """``streams = [torch.cuda.Stream(), torch.cuda.Stream()]``: two streams, told apart by their places."""
    for position, item in enumerate(items):
        rename(m, item, f"{name}[{position}]" if len(items) > 1 else name, depth - 1)


def _rename_contents(m: Machine, held: HeapObject, name: str, depth: int) -> None:
    _rename_elements(m, held.items, name, depth)
    keyed = {**held.attrs, **{symbols.text_of(at): item for at, item in held.entries.items()}}
    for key, item in keyed.items():
        rename(m, item, f"{name}[{key}]" if len(keyed) > 1 else name, depth - 1)
    if held.sample is not None:
        rename(m, held.sample, name, depth - 1)


def called(m: Machine, symbol: Symbol) -> str:
    """What the user calls an unknown value: a variable that holds it, if it is made of what has no name.

    ``self.batch = next(self.loader)`` with ``self.loader = iter(loader)``: ``batch``, and before that
    ``next(loader)``.
    """
    if symbol in m.held_as:
        return m.held_as[symbol]
    if not symbols.has(symbol, symbols.Thing, symbols.Memory):
        return symbols.text_of(symbol)
    match symbol:
        case symbols.Attr(of, name):
            return short(f"{called(m, of)}.{name}")
        case symbols.Item(of, at):
            return short(f"{called(m, of)}[{called(m, at)}]")
        case symbols.Fresh(what):
            return called(m, what)
        case symbols.Call(func, args):
            return short(f"{called(m, func)}({', '.join(called(m, one) for one in args)})")
        case symbols.Memory(number, region):
            chosen = (part.text for part in region if isinstance(part, Part))
            return short(m.buffers[BufferId(number)].name + "".join(chosen)) or symbols.text_of(symbol)
        case _:
            return symbols.text_of(symbol)


def keep(m: Machine, value: StreamV | EventV, symbol: Symbol, *, in_record: bool = False) -> None:
    """Names what a caller passes after the argument, as long as the path lasts."""
    name, passed = symbols.text_of(symbol), arguments.passed(symbol)
    if isinstance(value, StreamV):
        passed = replace(passed, in_record=in_record) if passed is not None else None
        m.streams[value.id] = replace(m.streams[value.id], name=name, passed=passed)
        m.named["stream", value.id] = 0
    else:
        m.events[value.id] = replace(m.events[value.id], name=name)
        m.named["event", value.id] = 0


def _takes_name(m: Machine, thing: tuple[str, int] | Symbol, name: str) -> bool:
    rank = 2 * (len(m.frames) + m.frame.walks) + name.endswith("]")
    if (name.startswith("_") and len(name) == 1) or m.named.get(thing, rank + 1) <= rank:
        return False
    match thing:
        case ("buffer", int() as number) if m.buffers[BufferId(number)].origin is Origin.ARGUMENT:
            return False
        case _:
            pass
    m.named[thing] = rank
    return True
