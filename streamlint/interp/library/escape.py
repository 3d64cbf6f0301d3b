"""What unresolved code may have done to streams and events that it received."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from typing_extensions import assert_never

from streamlint.frozen import replace
from streamlint.interp.state import cells, reach, symbols
from streamlint.interp.state.values import (
    CallbackV,
    ConstV,
    EventV,
    FuncV,
    GraphV,
    HeapV,
    PartialV,
    StreamV,
    SymV,
    TupleV,
    Value,
)
from streamlint.models import python, vocabulary
from streamlint.models.schema import Lib
from streamlint.trace import (
    Barrier,
    Callback,
    Copy,
    Doubt,
    EndCapture,
    HostSignal,
    Launch,
    Record,
    Role,
    StreamId,
    StreamKind,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span
    from streamlint.trace import BufferId, EventId, GraphId, MonitorId

_ESCAPED = frozenset({Doubt.ESCAPE})

WAITING = vocabulary.HOST_WAITS | python.JOINS
"""Methods that wait for something, whatever has them."""


def waits(name: str, args: Sequence[Value]) -> bool:
    """Whether a method of something unknown may wait. ``cfg.get("depth")`` does not: it asks a table."""
    match args:
        case [ConstV(str()), *_] if name == python.ASKS_TABLE:
            return False
        case _:
            return name in WAITING


def through(
    m: Machine,
    values: Iterable[Value],
    span: Span,
    name: str,
    *,
    handles: bool = False,
    records: bool = True,
) -> None:
    """Marks the streams behind ``values`` as possibly ordered by the call ``name``.

    ``handles``: also streams of which it got a bare handle, as a call does that gets no memory of a
    device to work on (``driver.synchronize(lane.cuda_stream)``). ``records``: whether it may record events.
    """
    reached = _reached(m, values)
    streams = list(dict.fromkeys(_streams(m, reached, handles=handles)))
    if records:
        _may_be_recorded(m, reached, span)
    graphs = tuple(dict.fromkeys(value.id for value in reached if isinstance(value, GraphV)))
    if streams:
        streams += [stream for (_, _, lane), stream in m.current.items() if lane == m.lane]
        streams += [stream for (kind, _), stream in m.defaults.items() if kind is StreamKind.CURRENT]
    barrier(m, streams, span, name, graphs=graphs)


def _may_be_recorded(m: Machine, reached: Iterable[_Orders], span: Span) -> None:
    """An event that nothing has recorded yet may be recorded by the code that receives it."""
    for value in reached:
        if isinstance(value, EventV) and _recorded_on(m, value.id) is None:
            stream = m.current_stream(Lib.TORCH)
            m.emit(Record(m.site(span), m.lane, _ESCAPED, stream=stream.id, event=value.id))


def handed_back(m: Machine, result: Value, span: Span) -> None:
    """Who gets requests may wait for them before the next call: ``return comm.Irecv(self.ghost)``."""
    reached = _reached(m, [result])
    requests = [value for value in reached if isinstance(value, EventV) and value.lib in _WITH_REQUESTS]
    through(m, requests, span, "the caller")


_WITH_REQUESTS = frozenset({Lib.MPI, Lib.KVIKIO, Lib.DISTRIBUTED})
"""Libraries whose calls give a request that is good for nothing but to be waited for."""


def barrier(
    m: Machine,
    streams: Iterable[StreamV],
    span: Span,
    name: str,
    why: Doubt = Doubt.ESCAPE,
    *,
    graphs: tuple[GraphId, ...] = (),
) -> None:
    """Marks a call that may order ``streams`` with each other and with the host, and launch ``graphs``."""
    ids = tuple(dict.fromkeys(stream.id for stream in streams))
    if ids or graphs:
        m.emit(Barrier(m.site(span), m.lane, streams=ids, why=why, name=name, graphs=graphs))


def recorded_behind(m: Machine, span: Span) -> None:
    """A call that records an event of its own on the current stream: others will wait for it."""
    event = m.new_event("future", None, Lib.TORCH)
    m.events[event.id] = replace(m.events[event.id], handed=True)
    stream = m.current_stream(Lib.TORCH)
    m.emit(Record(m.site(span), m.lane, stream=stream.id, event=event.id))


def by_outside_event(m: Machine, event: EventV, stream: StreamId, span: Span, name: str) -> None:
    """A wait for an event from code that was not seen: it may have been recorded after anything.

    That a call got the event, and may have recorded it then, says nothing about what was recorded since. One
    that came with the call was recorded before it: after nothing that the call itself has done.
    """
    if m.events[event.id].span is not None:
        return
    if not any(isinstance(op, Record) and op.event == event.id and not op.doubts for op in m.ops):
        before = _used_before(m) if _came_with_the_call(m, event) else m.streams
        since = m.streams.keys() - before
        barrier(m, map(StreamV, sorted({stream, *before})), span, name)
        if since:
            barrier(m, map(StreamV, sorted({stream, *since})), span, name, Doubt.INFERRED)


def _came_with_the_call(m: Machine, event: EventV) -> bool:
    """Whether it is an argument of the call that runs, or an element of one.

    An object that came with it may get its events later: ``task.launch(); side.wait_event(task.done)``.
    """
    for symbol, role in m.roles.items():
        given = symbol
        while isinstance(given, symbols.Item):
            given = given.of
        if role == event and isinstance(given, symbols.Param) and given.call == m.call:
            return True
    return False


def _used_before(m: Machine) -> set[StreamId]:
    """Streams with work that the call that runs did not issue itself."""
    issued = (op for op in m.ops if op.at.call != m.call or op.role is Role.BEFORE_CALL)
    return {op.stream for op in issued if isinstance(op, (Launch, Copy))}


def all_streams(m: Machine) -> list[StreamV]:
    return [StreamV(number) for number in m.streams]


def carries_order(m: Machine, values: Iterable[Value]) -> bool:
    """Whether a call receives what it needs to order the buffers that it receives (a hand-off)."""
    return bool(_streams(m, _reached(m, values)))


def _streams(m: Machine, reached: Iterable[_Orders], *, handles: bool = False) -> list[StreamV]:
    """The streams that some values lead to: also those of events, and of flags that a callback sets."""
    found: list[StreamV] = []
    for value in reached:
        match value:
            case StreamV(raw=raw):
                found += [value] if handles or not raw else []
            case EventV(number):
                recorded = _recorded_on(m, number)
                found += [StreamV(recorded)] if recorded is not None else []
            case HeapV(number):
                found += [StreamV(stream) for stream in _announced(m, m.monitors[number].id)]
            case GraphV():
                pass
            case _:
                assert_never(value)
    return found


def events_in(m: Machine, values: Iterable[Value]) -> list[EventId]:
    """The events that a call receives: ``queue.put((page, copied))``."""
    return [value.id for value in _reached(m, values) if isinstance(value, EventV)]


def written_by_graphs(m: Machine, values: Iterable[Value]) -> set[BufferId]:
    """The memory that graphs which a call receives write when they are launched, and nothing has used since.

    Whoever gets both can launch the graph first.
    """
    graphs = {value.id for value in _reached(m, values) if isinstance(value, GraphV)}
    written: set[BufferId] = set()
    for op in m.ops if graphs else ():
        if isinstance(op, EndCapture) and op.graph in graphs:
            written |= {access.buffer for access in op.writes}
        elif isinstance(op, (Launch, Copy)):
            written -= {access.buffer for access in op.accesses}
    return written


_Orders: TypeAlias = StreamV | EventV | GraphV | HeapV
"""A stream, an event, a graph, or a lock, flag or queue."""

_LEADS = frozenset({HeapV, SymV, TupleV, PartialV, CallbackV, FuncV, StreamV, EventV, GraphV})
"""Values that orders can be got at from; the others lead nowhere."""


def _reached(m: Machine, values: Iterable[Value]) -> list[_Orders]:
    """All that orders work and can be got at from some values, however deep, each object once."""
    found: list[_Orders] = []
    if not (m.streams or m.events or m.graphs or m.monitors):
        return found
    waiting = [value for value in values if type(value) in _LEADS][::-1]
    seen: set[SymV] = set()
    nested: dict[int, Value] = {}
    objects: set[int] = set()
    scopes: cells.Seen = set()
    while waiting:
        value = waiting.pop()
        if isinstance(value, SymV):
            value = m.roles.get(value.symbol, value)
        if isinstance(value, HeapV):
            if value.id in objects:
                continue
            objects.add(value.id)
            if value.id in m.monitors:
                found.append(value)
        elif isinstance(value, SymV):
            if not value.holds or value in seen:
                continue
            seen.add(value)
        elif isinstance(value, (StreamV, EventV, GraphV)):
            found.append(value)
            continue
        elif id(value) in nested:
            continue
        else:
            # a = (a, a), again and again. What is looked into is kept, so that its number stays its own.
            nested[id(value)] = value
        inside = [inner for inner in _inside(m, value, scopes) if type(inner) in _LEADS]
        if inside:
            waiting += inside[::-1]
    return found


def _inside(m: Machine, value: Value, scopes: cells.Seen) -> Iterable[Value]:
    """What can be got at from a value at once; ``scopes`` are the closures that were looked through."""
    match value:
        case HeapV(number):
            held = m.heap[number]
            return (*held.attrs.values(), *held.entries.values(), *held.items, *held.extra.values())
        case CallbackV(func=func):
            return (func,)
        case _:
            return reach.inside(m, value, scopes)


def _announced(m: Machine, monitor: MonitorId) -> Iterator[StreamId]:
    """The streams on which a queued host function sets a flag: who waits for it waits for what came before.

    ``stream.launch_host_func(lambda flag: flag.set(), done)``
    """
    lanes = {op.lane for op in m.ops if isinstance(op, HostSignal) and op.monitor == monitor}
    yield from (op.stream for op in m.ops if isinstance(op, Callback) and op.body in lanes)


def _recorded_on(m: Machine, event: int) -> StreamId | None:
    for op in reversed(m.ops):
        if isinstance(op, Record) and op.event == event:
            return op.stream
    return None
