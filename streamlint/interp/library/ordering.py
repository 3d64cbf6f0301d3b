"""Order that rows make: records, waits of streams and of the host, and questions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import assert_never

from streamlint.frozen import replace
from streamlint.interp.library import capturing, devices, escape, making, ready, stream_values
from streamlint.interp.state import elements
from streamlint.interp.state.values import (
    FALSE,
    NONE,
    ContextKind,
    ContextV,
    EventV,
    HeapV,
    QueryV,
    StreamV,
    TupleV,
    Value,
    symbol_of,
)
from streamlint.models import schema as fx
from streamlint.models.schema import Role
from streamlint.trace import CudaCall, Record, SyncDevice, SyncEvent, SyncStream, Wait

if TYPE_CHECKING:
    from streamlint.interp.library.call import Call
    from streamlint.trace import StreamId


def carry_out(call: Call, effect: fx.WaitEffect) -> Value | None:
    """Effects that order."""
    m, span = call.m, call.span
    match effect:
        case fx.StreamWaitsStream(stream, other):
            _wait_stream(call, stream, other)
            return None
        case fx.StreamWaitsEvent(event, stream, flags):
            _emit_wait(call, call.stream(stream).id, call.event(event), flags)
            return None
        case fx.StreamWaits(what, stream):
            _wait(call, what, stream)
            return None
        case fx.Records():
            return _record(call, effect)
        case fx.HostWaitsStream(stream, or_device):
            waited = call.stream_of_device(stream) if or_device else call.stream(stream)
            m.emit(SyncStream(m.site(span), m.lane, stream=waited.id, name=call.name()))
            return None
        case fx.HostWaitsEvent(event, unless_false):
            if unless_false is None or call.value(unless_false) != FALSE:
                _wait_on_host(call, event)
            return None
        case fx.HostWaitsDevice(device, every):
            others = {stream.device for stream in m.streams.values()} if every else set()
            for one in dict.fromkeys((call.device(device).id, *sorted(others))):
                m.emit(SyncDevice(m.site(span), m.lane, device=one, name=call.name()))
            return None
        case fx.HostWaitsMemory(what):
            ready.wait_for(call, what)
            return None
        case fx.Queries():
            return _query(call, effect)
        case fx.SyncOnExit(stream):
            return ContextV(ContextKind.SYNC_ON_EXIT, call.stream(stream), call.lib)
        case _:
            assert_never(effect)


def _wait_on_host(call: Call, what: str) -> None:
    """For an event, or for all in a list: ``MPI.Request.Waitall([sent, received])``."""
    m, value = call.m, call.value(what)
    listed = elements.listed(m, value) if isinstance(value, (TupleV, HeapV)) else [value]
    waited = [stream_values.as_event(m, one, call.span) for one in listed or ()]
    for event in waited:
        m.emit(SyncEvent(m.site(call.span), m.lane, event=event.id, name=call.name()))
    if listed is None or any(m.events[event.id].span is None for event in waited):
        escape.barrier(m, escape.all_streams(m), call.span, call.name())


def _wait(call: Call, what: str, stream: str) -> None:
    """An event or a stream."""
    if stream_values.is_shown(call.m, call.value(what), Role.STREAM):
        _wait_stream(call, stream, what)
        return
    _emit_wait(call, call.stream(stream).id, call.event(what))


def _emit_wait(call: Call, stream: StreamId, event: EventV, flags: str = "flags") -> None:
    m = call.m
    escape.by_outside_event(m, event, stream, call.span, call.name())
    wait = Wait(m.site(call.span), m.lane, stream=stream, event=event.id, name=call.name())
    if capturing.is_external(call.value(flags)) and m.captures.has(stream):
        m.captures.add_node(wait)
    else:
        m.emit(wait)


def _wait_stream(call: Call, stream: str, other: str) -> None:
    m = call.m
    given = call.value(other)
    several = elements.listed(m, given) if isinstance(given, (TupleV, HeapV)) else None
    others = [call.stream(other)] if several is None else [call.as_stream(one) for one in several]
    for waited in others:
        event = m.event_of("wait_stream", call.span, call.lib)
        m.emit(Record(m.site(call.span), m.lane, stream=waited.id, event=event.id))
        _emit_wait(call, call.stream(stream).id, event)


def _record(call: Call, effect: fx.Records) -> Value:
    m = call.m
    given = call.value(effect.event)
    made = (
        stream_values.as_event(m, given, call.span)
        if given != NONE
        else m.new_event("an event", call.span, call.lib)
    )
    on = call.stream(effect.stream)
    where = devices.of_stream(m, on)
    known = m.events[made.id]
    if known.made_on is None and (given == NONE or call.lib is fx.Lib.TORCH):
        # PyTorch makes the event when it is first recorded; cuda.core makes it for the stream.
        m.events[made.id] = replace(known, made_on=making.event_device(call) or where)
    group = m.group if m.open_groups else 0
    recorded = Record(m.site(call.span), m.lane, stream=on.id, event=made.id, issued_on=where, group=group)
    if capturing.is_external(call.value(effect.flags)) and m.captures.has(on.id):
        m.captures.add_node(recorded)
    else:
        m.emit(recorded)
    return made


def _query(call: Call, effect: fx.Queries) -> Value:
    value = call.value(effect.of)
    value = call.m.roles.get(symbol_of(value), value)
    queried = (
        value if isinstance(value, (StreamV, EventV)) else stream_values.as_stream(call.m, value, call.span)
    )
    site, lane = call.m.site(call.span), call.m.lane
    if isinstance(queried, StreamV):
        call.m.emit(CudaCall(site, lane, name=call.name(), stream=queried.id))
    else:
        call.m.emit(CudaCall(site, lane, name=call.name(), event=queried.id))
    return QueryV(queried, status=effect.status, told_by=effect.told_by)
