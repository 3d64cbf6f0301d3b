"""What unresolved code may have done to streams and events that it received."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state.values import (
    CallbackV,
    EventV,
    FuncV,
    HeapV,
    PartialV,
    StreamV,
    SymV,
    TupleV,
    Value,
)
from streamlint.models.schema import Lib
from streamlint.trace import (
    Barrier,
    Doubt,
    Record,
    StreamId,
    StreamKind,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span

_DEPTH = 4
_ESCAPED = frozenset({Doubt.ESCAPE})


def through(m: Machine, values: Iterable[Value], span: Span, name: str) -> None:
    """Marks the streams behind ``values`` as possibly ordered by the call ``name``."""
    values = list(values)
    streams = list(dict.fromkeys(_streams(m, values)))
    _may_be_recorded(m, values, span)
    if streams:
        here = [stream for (_, _, lane), stream in m.current.items() if lane == m.lane]
        here += [stream for (kind, _), stream in m.defaults.items() if kind is StreamKind.CURRENT]
        barrier(m, [*streams, *here], span, name)


def _may_be_recorded(m: Machine, values: Iterable[Value], span: Span) -> None:
    """An event that nothing has recorded yet may be recorded by the code that receives it."""
    for event in _events(m, values, _DEPTH, set()):
        if _recorded_on(m, event.id) is None:
            stream = m.current_stream(Lib.TORCH)
            m.emit(Record(m.site(span), m.lane, _ESCAPED, stream=stream.id, event=event.id))


def handed_back(m: Machine, result: Value, span: Span) -> None:
    """Who gets requests may wait for them before the next call: ``return comm.Irecv(self.ghost)``."""
    requests = [event for event in _events(m, [result], _DEPTH, set()) if event.lib in _WITH_REQUESTS]
    through(m, requests, span, "the caller")


_WITH_REQUESTS = frozenset({Lib.MPI, Lib.KVIKIO, Lib.DISTRIBUTED})
"""Libraries whose calls give a request that is good for nothing but to be waited for."""


def _events(m: Machine, values: Iterable[Value], depth: int, seen: set[int]) -> Iterator[EventV]:
    for value in values:
        match value:
            case EventV() as event:
                yield event
            case TupleV(items) if depth:
                yield from _events(m, items, depth - 1, seen)
            case HeapV(number) if depth and number not in seen:
                seen.add(number)
                held = m.heap[number]
                yield from _events(m, (*held.attrs.values(), *held.items), depth - 1, seen)
            case _:
                pass


def barrier(m: Machine, streams: Iterable[StreamV], span: Span, name: str, why: Doubt = Doubt.ESCAPE) -> None:
    """Marks a call that may order ``streams`` with each other and with the host."""
    ids = tuple(dict.fromkeys(stream.id for stream in streams))
    if ids:
        m.emit(Barrier(m.site(span), m.lane, streams=ids, why=why, name=name))


def recorded_behind(m: Machine, span: Span) -> None:
    """A call that records an event of its own on the current stream: others will wait for it."""
    event = m.new_event("future", None, Lib.TORCH)
    stream = m.current_stream(Lib.TORCH)
    m.emit(Record(m.site(span), m.lane, stream=stream.id, event=event.id))


def by_outside_event(m: Machine, event: EventV, span: Span, name: str) -> None:
    """A wait for an event from code that was not seen: it may have been recorded after anything."""
    if m.events[event.id].span is None and _recorded_on(m, event.id) is None:
        barrier(m, all_streams(m), span, name)


def all_streams(m: Machine) -> list[StreamV]:
    return [StreamV(number) for number in m.streams]


def carries_order(m: Machine, values: Iterable[Value]) -> bool:
    """Whether a call receives what it needs to order the buffers that it receives (a hand-off)."""
    return bool(_streams(m, values))


def _streams(m: Machine, values: Iterable[Value]) -> list[StreamV]:
    found: list[StreamV] = []
    _look_into(m, values, _DEPTH, set(), found)
    return found


def _look_into(m: Machine, values: Iterable[Value], depth: int, seen: set[int], found: list[StreamV]) -> None:
    for value in values:
        role = m.roles.get(value.key) if isinstance(value, SymV) else None
        match role if role is not None else value:
            case StreamV() as stream:
                if not stream.raw:
                    found.append(stream)
            case EventV(number):
                recorded = _recorded_on(m, number)
                if recorded is not None:
                    found.append(StreamV(recorded))
            case TupleV(items) if depth:
                _look_into(m, items, depth - 1, seen, found)
            case HeapV(number) if depth and number not in seen:
                seen.add(number)
                held = m.heap[number]
                inside = (*held.attrs.values(), *held.items, *held.extra.values())
                _look_into(m, inside, depth - 1, seen, found)
            case SymV(_, holds) if depth:
                _look_into(m, holds, depth - 1, seen, found)
            case PartialV(func, args, kwargs) if depth:
                _look_into(m, (func, *args, *kwargs.values()), depth - 1, seen, found)
            case CallbackV(func=func) if depth:
                _look_into(m, (func,), depth, seen, found)
            case FuncV(closure=closure, receiver=receiver) if depth:
                if receiver is not None:
                    _look_into(m, (receiver,), depth - 1, seen, found)
                if closure is not None:
                    _look_into(m, closure.names.values(), min(depth - 1, 1), seen, found)
            case _:
                pass


def _recorded_on(m: Machine, event: int) -> StreamId | None:
    for op in reversed(m.ops):
        if isinstance(op, Record) and op.event == event:
            return op.stream
    return None
