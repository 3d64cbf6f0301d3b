"""By which names code gets at an event when a call from outside is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state import cells, reach, symbols
from streamlint.interp.state.values import (
    CallbackV,
    EventV,
    HeapV,
    Shape,
    TupleV,
    Value,
)
from streamlint.trace import EventId, Holders

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.state.machine import Machine


def holders(m: Machine, wanted: set[EventId]) -> dict[EventId, Holders]:
    """The attributes and variables that hold each event, directly or in a container.

    Not of those that a caller has, or that a function or an object of unseen code may have: a caller waits
    for ``return out, done``, and ``hooks.append(done.wait)`` is called by whoever has the hooks.
    """
    attributes: dict[EventId, set[str]] = {}
    variables: dict[EventId, set[str]] = {}
    hidden: set[EventId] = set()
    for held in m.heap.values():
        if held.shape is Shape.INSTANCE:
            for name, value in held.attrs.items():
                _note(m, value, name, attributes, hidden)
    for (module, name), value in m.globals.items():
        found = dict[EventId, set[str]]()
        _note(m, value, name, found, hidden)
        for number in found:
            span, known = m.events[number].span, m.project.module(module)
            if span is None or known is None or span.path != known.path:
                hidden.add(number)
            variables.setdefault(number, set()).add(name)
    for place, value in m.roles.items():
        name = _attribute(place)
        if name:
            _note(m, value, name, attributes, hidden)
        else:
            hidden.update(_events(m, value, hidden))
    for value in (*m.life.outside, *m.life.lent, *m.remembered.values()):
        hidden.update(_events(m, value, hidden))
    named = attributes.keys() | variables.keys()
    return {
        number: Holders(frozenset(attributes.get(number, ())), frozenset(variables.get(number, ())))
        for number in (wanted & named) - hidden
    }


def _attribute(place: symbols.Symbol) -> str:
    """``done`` of ``self.state.done[0]``; nothing where it begins at what a caller passes."""
    while isinstance(place, symbols.Item):
        place = place.of
    if isinstance(place, symbols.Attr) and symbols.root(place) == symbols.SELF:
        return place.name
    return ""


def _note(m: Machine, value: Value, name: str, found: dict[EventId, set[str]], hidden: set[EventId]) -> None:
    for number in _events(m, value, hidden):
        found.setdefault(number, set()).add(name)


def _events(m: Machine, value: Value, hidden: set[EventId]) -> Iterator[EventId]:
    """The events that a value holds, or a container in it; ``hidden`` gets those that functions hold."""
    waiting: list[tuple[Value, bool]] = [(value, True)]
    seen: set[int] = set()
    scopes: cells.Seen = set()
    while waiting:
        here, is_plain = waiting.pop()
        match here:
            case EventV(number) if is_plain:
                yield number
            case EventV(number):
                hidden.add(number)
            case TupleV(items):
                waiting += [(item, is_plain) for item in items]
            case HeapV(number) if m.heap[number].shape is not Shape.INSTANCE and number not in seen:
                seen.add(number)
                held = m.heap[number]
                inside = [*held.items, *held.entries.values(), *held.extra.values()]
                inside += [] if held.sample is None else [held.sample]
                waiting += [(item, is_plain) for item in inside]
            case HeapV():
                pass
            case CallbackV(func=func):
                waiting.append((func, False))
            case _:
                waiting += [(item, False) for item in reach.inside(m, here, scopes)]
