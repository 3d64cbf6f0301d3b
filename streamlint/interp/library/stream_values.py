"""Streams and events: what a value stands for, which stream is current, and one that waits for another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.facts import classes, shown_roles
from streamlint.interp.library import devices
from streamlint.interp.state import arguments, names, naming, symbols
from streamlint.interp.state.values import (
    NONE,
    BufferV,
    ConstV,
    EventV,
    HeapV,
    Shape,
    StreamV,
    SymV,
    TupleV,
    Value,
    symbol_of,
)
from streamlint.models import cuda_runtime
from streamlint.models.schema import Lib, Role
from streamlint.models.vocabulary import STREAM_PROTOCOL
from streamlint.trace import Record, StreamChoice, StreamKind, Wait

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span
    from streamlint.trace import DeviceId, LaneId, StreamId


def select(m: Machine, stream: StreamV, lib: Lib | None) -> None:
    """Makes ``stream`` the current one, on its device."""
    owner = lib or stream.lib or Lib.TORCH
    device = m.streams[stream.id].device
    m.current[owner, device, m.lane] = stream
    if owner is Lib.TORCH:
        # torch.cuda.stream also makes the stream's device current.
        devices.select(m, devices.meant(m, stream))
    elif device != m.device:
        m.current[owner, m.device, m.lane] = stream
    if owner is Lib.CUPY:
        m.selected_on[stream.id] = m.device_symbol


def use(m: Machine, stream: StreamV, lib: Lib) -> None:
    """``stream.use()`` of CuPy's, and ``torch.cuda.set_stream(stream)``: until another one is selected."""
    if lib is Lib.CUPY:
        place = lib, m.streams[stream.id].device, m.lane
        m.used.setdefault(place, m.current.get(place))
    select(m, stream, lib)


def before_use(m: Machine) -> dict[tuple[Lib, DeviceId, LaneId], StreamV]:
    """The current streams that blocks have made so: CuPy goes back to them behind a block of a stream.

    ``first.use()``, then ``with second: ...``: behind that the null stream is current, and not ``first``
    (measured with CuPy 14.2).
    """
    return {place: stream for place, stream in {**m.current, **m.used}.items() if stream is not None}


def is_another(m: Machine, stream: StreamV) -> None:
    """Who enters a block of a stream does not take it for the one that is current anyway."""
    known = m.streams[stream.id]
    if known.may_be_current and not known.current_at_caller:
        m.streams[stream.id] = replace(known, may_be_current=False)


def waits(m: Machine, waiting: StreamId, other: StreamId, span: Span, name: str) -> None:
    """One stream waits for what is queued on another one now."""
    event = m.event_of(name, span, None)
    m.emit(Record(m.site(span), m.lane, stream=other, event=event.id))
    m.emit(Wait(m.site(span), m.lane, stream=waiting, event=event.id, name=name))


def is_shown(m: Machine, value: Value, role: Role) -> bool:
    """Whether a value is a stream, or an event, as far as the path or the text of the program shows it."""
    value = names.settle(m, value)
    if not isinstance(value, SymV):
        return isinstance(value, StreamV if role is Role.STREAM else EventV)
    if shown_roles.of_symbol(m, value.symbol) is role:
        return True
    made = m.python.stream_of(m, value.symbol)
    return made is not None and is_shown(m, made, role)


def as_stream(m: Machine, value: Value, span: Span | None, lib: Lib | None = None) -> StreamV:
    """A value as a stream; an unknown one becomes a stream from outside, the same each time."""
    value = names.settle(m, value)
    if isinstance(value, StreamV):
        return value
    if isinstance(value, ConstV) and isinstance(value.value, int):
        return handle_stream(m, value.value, lib)
    if isinstance(value, SymV):
        wrapped = {held.id for held in value.holds if isinstance(held, StreamV) and held.raw}
        if len(wrapped) == 1:
            # Stream(ptr=torch.cuda.current_stream().cuda_stream), with a namedtuple as Stream.
            return StreamV(wrapped.pop(), lib)
        passed = m.python.stream_of(m, value.symbol)
        stream = (
            StreamV(passed.id, passed.lib)
            if isinstance(passed, StreamV)
            else _from_outside(m, value.symbol, lib)
        )
        m.roles[value.symbol] = stream
        return stream
    if isinstance(value, HeapV) and m.heap[value.id].shape is Shape.INSTANCE:
        protocol = classes.method(m, value, STREAM_PROTOCOL)
        if protocol is not None and span is not None:
            match names.settle(m, m.python.call(m, protocol, [], {}, span)):
                case TupleV((_, handle)):
                    return as_stream(m, handle, span, lib)
                case _:
                    pass
        held = {one for one in m.heap[value.id].attrs.values() if isinstance(one, StreamV)}
        if len(held) == 1:
            return held.pop()
    # What it is, is not known; but the same object is the same stream each time.
    key = symbols.call("the stream of", symbol_of(value))
    if key not in m.roles:
        m.roles[key] = m.new_stream(StreamKind.UNKNOWN, naming.called(m, symbol_of(value)), None, lib)
    found = m.roles[key]
    assert isinstance(found, StreamV)
    return StreamV(found.id, lib)


def by_protocol(m: Machine, value: StreamV | SymV, span: Span) -> Value:
    """``version, handle = stream.__cuda_stream__()``, which only streams have."""
    return TupleV((ConstV(0), replace(as_stream(m, value, span), raw=True)))


def _from_outside(m: Machine, symbol: symbols.Symbol, lib: Lib | None) -> StreamV:
    passed = arguments.passed(symbol)
    made = m.new_stream(StreamKind.UNKNOWN, naming.called(m, symbol), None, lib, passed=passed)
    if passed is None and symbol in m.owners:
        m.streams[made.id] = replace(m.streams[made.id], put_there=True)
    return made


def handle_stream(m: Machine, handle: int, lib: Lib | None) -> StreamV:
    """A stream given as a number: 0 and 1 are the legacy default stream, 2 the per-thread one."""
    if handle == cuda_runtime.PER_THREAD_HANDLE:
        return m.default(StreamKind.PER_THREAD, lib)
    if handle in cuda_runtime.LEGACY_HANDLES:
        return m.default(StreamKind.LEGACY if handle == 1 else m.default_stream, lib)
    return as_stream(m, SymV(symbols.Thing("stream handle ", handle)), None, lib)


def as_event(m: Machine, value: Value, span: Span) -> EventV:
    """A value as an event; an unknown one becomes an event from outside, the same each time."""
    del span
    value = names.settle(m, value)
    if isinstance(value, EventV):
        return value
    symbol = symbol_of(value)
    place = symbols.call("event", symbol)
    role = m.roles.get(place)
    if isinstance(role, EventV):
        return role
    passed = m.python.stream_of(m, symbol) if isinstance(value, SymV) else None
    made = passed if isinstance(passed, EventV) else m.new_event(symbols.text_of(symbol), None, None)
    m.roles[place] = made
    if isinstance(value, SymV):
        m.roles[symbol] = made
    return made


def bound_stream(m: Machine, view: BufferV) -> StreamId | None:
    """The stream that a Numba array was made with, which it keeps; None if it was made without one."""
    made_on = m.buffers[view.id].alloc_stream
    return made_on if made_on is not None and m.streams[made_on].kind is not StreamKind.LEGACY else None


def stream_choice(m: Machine, given: Value, data: Sequence[Value]) -> StreamChoice:
    """How a call chose its stream: ``given`` stands where it takes one, ``data`` goes to the kernel."""
    given = names.settle(m, given)
    if given in (NONE, ConstV(0)) and _holds_stream(m, data):
        return StreamChoice.AS_DATA
    return StreamChoice.LEFT_OUT if given == NONE else StreamChoice.NAMED


def _holds_stream(m: Machine, values: Iterable[Value], depth: int = 3) -> bool:
    """Whether a stream is among kernel arguments: ``(x.data.ptr, n, stream.ptr)``."""
    for value in values:
        match names.settle(m, value):
            case StreamV():
                return True
            case TupleV(items) if depth and _holds_stream(m, items, depth - 1):
                return True
            case HeapV(number) if depth and m.heap[number].shape is not Shape.INSTANCE:
                if _holds_stream(m, m.heap[number].items, depth - 1):
                    return True
            case _:
                pass
    return False
