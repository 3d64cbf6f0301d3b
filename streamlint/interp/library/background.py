"""Work that heeds no stream: threads that fill device memory, network cards that read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.facts import makers
from streamlint.interp.library import copies, memory
from streamlint.interp.state import elements, symbols
from streamlint.interp.state.values import NONE, ConstV, HeapV, StreamV, SymV, TupleV, symbol_of
from streamlint.models.onnx import STREAM_OPTION
from streamlint.trace import (
    Access,
    Doubt,
    HostAccess,
    Launch,
    Mode,
    Purpose,
    Record,
    Space,
    StreamId,
    StreamKind,
    SyncStream,
)

if TYPE_CHECKING:
    from streamlint.interp.library.call import Call
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.values import EventV, Value
    from streamlint.models import schema as fx


_OPAQUE = frozenset({Doubt.OPAQUE})
_OF_THE_GPU = frozenset({Space.DEVICE, Space.MANAGED, Space.PINNED})


def run(call: Call, effect: fx.Background) -> EventV | None:
    """Starts work aside; the result is what to wait for.

    It is modelled as a non-blocking stream of its own, which nothing orders but what the host knew before.
    """
    m, span = call.m, call.span
    only = effect.when
    if only is not None and call.value(only.parameter) != ConstV(only.value):
        return None
    if effect.after_default:
        before = m.default(m.default_stream, call.lib).id
        m.emit(SyncStream(m.site(span), m.lane, stream=before, name=call.name(), purpose=Purpose.ASIDE))
    part = call.value(effect.at)
    used = [
        Access(view.id, mode, view.region if part == NONE else elements.selected(m, view, part))
        for names, mode in ((effect.reads, Mode.READ), (effect.writes, Mode.WRITE))
        for name in names
        for view in call.buffers(name)
        if not effect.only_gpu or m.space(view) in _OF_THE_GPU
    ]
    if effect.bound is not None:
        if (given := _given_stream(m, call.value("self"))) is not None:
            _run_on(call, effect, given)
            return None
        # Of a session that was made elsewhere it is not known whether it was given a stream.
        told = _OPAQUE if makers.of_symbol(m, symbol_of(call.value("self"))) else _OPAQUE | {Doubt.ASSUMED}
        used += [
            access
            for access in memory.bound(call, effect.bound, told)
            if m.buffers[access.buffer].space in _OF_THE_GPU
        ]
    if effect.waits and all(m.buffers[access.buffer].space.on_host for access in used):
        m.emit(HostAccess(m.site(span), m.lane, accesses=tuple(used), name=call.name()))
        return None
    if effect.waits and _is_told_not_to_wait(call, effect):
        m.emit(Launch(m.site(span), m.lane, stream=_of_object(call), accesses=tuple(used), name=call.name()))
        return None
    stream = m.new_stream(StreamKind.NON_BLOCKING, call.name(), span, call.lib).id
    m.streams[stream] = replace(m.streams[stream], by_call=True)
    m.emit(Launch(m.site(span), m.lane, stream=stream, accesses=tuple(used), name=call.name()))
    if effect.waits:
        m.emit(SyncStream(m.site(span), m.lane, stream=stream, name=call.name(), purpose=Purpose.ASIDE))
        return None
    done = m.new_event(f"the result of {call.name()}", span, call.lib, of_call=True)
    m.emit(Record(m.site(span), m.lane, stream=stream, event=done.id))
    if effect.ends is not None:
        m.roles[symbol_of(call.value(effect.ends))] = done
        return None
    return done


def fill(call: Call, effect: fx.Fills) -> None:
    """``feed_ndarray(out, images, cuda_stream=side)``; of memory of the host nothing is queued."""
    m, span = call.m, call.span
    targets = [view for view in call.buffers(effect.what) if not m.space(view).on_host]
    given = call.value(effect.stream)
    stream = call.stream(effect.stream).id if given != NONE else own_stream(call)
    accesses = tuple(Access(view.id, Mode.WRITE, view.region) for view in targets)
    if accesses:
        m.emit(
            Launch(
                m.site(span),
                m.lane,
                stream=stream,
                accesses=accesses,
                name=call.name(),
                library=call.lib.product,
            )
        )
        told = given != NONE
        if effect.unless is not None:
            told = copies.is_true(m, call.value(effect.unless), span, effect.unless)
        if not told:
            m.emit(SyncStream(m.site(span), m.lane, stream=stream, name=call.name(), purpose=Purpose.ASIDE))


def own_stream(call: Call) -> StreamId:
    name = f"{call.lib.product}'s stream"
    return call.m.own_stream(StreamKind.NON_BLOCKING, name, call.span, call.lib, call.m.device).id


def _run_on(call: Call, effect: fx.Background, given: Value) -> None:
    """A session on the stream of its options, where what was queued comes first."""
    m, span = call.m, call.span
    stream = _handle_in(given)
    if stream is None:
        return
    used = [
        access
        for access in memory.bound(call, str(effect.bound))
        if m.buffers[access.buffer].space in _OF_THE_GPU
    ]
    m.emit(Launch(m.site(span), m.lane, stream=stream.id, accesses=tuple(used), name=call.name()))
    if not _is_told_not_to_wait(call, effect):
        m.emit(SyncStream(m.site(span), m.lane, stream=stream.id, name=call.name(), purpose=Purpose.ASIDE))


def _handle_in(given: Value) -> StreamV | None:
    """``str(stream.cuda_stream)``"""
    match given:
        case StreamV():
            return given
        case SymV(_, (StreamV() as stream,)):
            return stream
        case _:
            return None


def _is_told_not_to_wait(call: Call, effect: fx.Background) -> bool:
    """``options.add_run_config_entry("disable_synchronize_execution_providers", "1")``"""
    options, _, option = (effect.unless or "").partition(".")
    kept = call.m.bound.get(symbol_of(call.value(options)), {})
    told = kept.get(symbols.constant(option))
    return bool(option) and told is not None and told.address == ConstV("1")


def _of_object(call: Call) -> StreamId:
    """The stream on which an object queues all of its runs."""
    m, own = call.m, symbols.call("stream", symbol_of(call.value("self")))
    if own not in m.roles:
        m.roles[own] = m.new_stream(StreamKind.NON_BLOCKING, call.name(), call.span, call.lib)
    made = m.roles[own]
    assert isinstance(made, StreamV)
    return made.id


def _given_stream(m: Machine, value: Value, depth: int = 4) -> Value | None:
    """``InferenceSession(path, providers=[("CUDAExecutionProvider", {"user_compute_stream": handle})])``"""
    match value:
        case SymV(_, holds) | TupleV(holds):
            parts: tuple[Value, ...] = holds
        case HeapV(number):
            held = m.heap[number]
            if symbols.constant(STREAM_OPTION) in held.entries:
                return held.entries[symbols.constant(STREAM_OPTION)]
            parts = (*held.items, *held.entries.values())
        case _:
            parts = ()
    found = (_given_stream(m, part, depth - 1) for part in parts if depth)
    return next((stream for stream in found if stream is not None), None)
