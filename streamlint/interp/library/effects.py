"""Carries out the effects of a framework row."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from typing_extensions import assert_never

from streamlint.interp.library import (
    background,
    callbacks,
    capturing,
    collectives,
    copies,
    devices,
    escape,
    graphs,
    grouped,
    handoffs,
    lending,
    making,
    memory,
    operations,
    overloads,
    processes,
    ready,
    stream_values,
)
from streamlint.interp.library.call import Call
from streamlint.interp.state import arguments, elements, names, symbols
from streamlint.interp.state.values import (
    NONE,
    ApiV,
    BufferV,
    ConstV,
    ContextKind,
    ContextV,
    DeviceV,
    EventV,
    HeapV,
    PartialV,
    QueryV,
    StreamV,
    SymV,
    TupleV,
    Value,
    symbol_of,
)
from streamlint.models import cuda_driver, cuda_runtime
from streamlint.models import schema as fx
from streamlint.models.schema import Role
from streamlint.trace import (
    CURRENT_DEVICE,
    Access,
    CudaCall,
    DestroyEvent,
    DestroyStream,
    Evidence,
    HostAccess,
    KeepAlive,
    Mode,
    Purpose,
    Record,
    Space,
    StreamKind,
    SyncDevice,
    SyncEvent,
    SyncStream,
    Wait,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span
    from streamlint.trace import StreamId


def _placed(api: fx.Api, in_place: Sequence[str], args: Sequence[Value]) -> Iterator[tuple[str, Value]]:
    """Arguments in place, with the parameters that they stand for.

    A function of C has no parameter that may be left out. So what stands behind arguments of unknown number
    is known from the end: ``cuLaunchKernel(function, *self.grid, *self.block, 0, stream, args, 0)``.
    """
    spread = [at for at, value in enumerate(args) if arguments.is_rest(value)]
    if not spread or not api.status:
        return zip(in_place, args, strict=False)
    last = spread[-1] + 1 - len(args)
    front = zip(in_place, args[: spread[0]], strict=False)
    return chain(front, zip(in_place[last:], args[last:], strict=True) if last else ())


def apply(
    m: Machine,
    framework: fx.Framework,
    api: fx.Api,
    receiver: Value | None,
    args: list[Value],
    kwargs: dict[str, Value],
    span: Span,
    *,
    told: Evidence = Evidence.SHOWN,
) -> Value:
    """Runs a row's effects; the value of the call is the last that one returns. ``told`` is ``Call.told``."""
    in_place = overloads.chosen(m, api, args)
    bound = {name: names.settle(m, value) for name, value in _placed(api, in_place, args)}
    bound |= {name: names.settle(m, value) for name, value in kwargs.items()}
    if api.rest is not None:
        bound[api.rest] = TupleV(tuple(args[len(in_place) :]))
    if receiver is not None:
        bound["self"] = receiver
    call = Call(m, framework, api, bound, span)
    call.told = min(told, m.buffers[receiver.id].kind) if isinstance(receiver, BufferV) else told
    result: Value | None = None
    for effect in api.effects:
        made = _carry_out(call, effect)
        result = made if made is not None else result
    if not api.status:
        return result if result is not None else NONE
    success = ApiV(cuda_driver.SUCCESS if framework.lib is fx.Lib.DRIVER else cuda_runtime.SUCCESS)
    if isinstance(result, QueryV):
        return TupleV((result,))
    if result is None:
        return TupleV((success,))
    return TupleV((success, result, *(m.fresh(api.name, span) for _ in range(api.further))))


def _carry_out(call: Call, effect: fx.Effect) -> Value | None:
    m, span = call.m, call.span
    match effect:
        case fx.NewStream():
            return making.stream(call, effect)
        case fx.CurrentStream(device):
            return m.current_stream(call.lib, call.device(device).id)
        case fx.DefaultStream(kind):
            where = call.device("self" if isinstance(call.bound.get("self"), DeviceV) else "device")
            return m.default(m.default_stream if kind is StreamKind.LEGACY else kind, call.lib, where.id)
        case fx.ForeignStream(handle, current_of, null_is_new):
            value = call.value(handle)
            if null_is_new and _is_null(call, value):
                return making.stream(call, fx.NewStream(StreamKind.NON_BLOCKING))
            if current_of is not None and not isinstance(value, (StreamV, SymV)):
                return StreamV(m.current_stream(current_of).id, call.lib)
            if isinstance(value, ConstV) and isinstance(value.value, int):
                return stream_values.handle_stream(m, value.value, call.lib)
            known = value if isinstance(value, StreamV) else stream_values.as_stream(m, value, span, call.lib)
            return StreamV(known.id, call.lib)
        case fx.NewEvent():
            return making.event(call, effect)
        case fx.NewDevice(number):
            return devices.made(m, call.value(number))
        case fx.Makes(path, keeps, alone):
            held = {name: call.bound[name] for name in keeps if name in call.bound}
            if alone:
                return making.alone(call, path, held)
            return PartialV(ApiV(path), (), held) if held else ApiV(path)
        case fx.EnterStream():
            return _enter_stream(call, effect)
        case fx.EnterDevice(device, now):
            if not now:
                return ContextV(ContextKind.DEVICE, call.device(device), call.lib)
            devices.select(m, call.device(device))
            return None
        case fx.SelectsDevice(device, push):
            if push:
                m.pushed.append(devices.current(m))
            devices.select(m, call.device(device))
            return None
        case fx.RestoresDevice():
            popped = devices.current(m)
            devices.select(m, m.pushed.pop() if m.pushed else DeviceV(CURRENT_DEVICE, CURRENT_DEVICE))
            return popped
        case (
            fx.EnterCapture()
            | fx.CaptureStarts()
            | fx.SplitsCapture()
            | fx.JoinsCaptures()
            | fx.CaptureEnds()
            | fx.NewGraph()
            | fx.InstantiatesGraph()
            | fx.GraphsCallables()
            | fx.LaunchesGraph()
        ):
            return graphs.carry_out(call, effect)
        case fx.ChoosesAllocator(allocator, now):
            if not now:
                return ContextV(ContextKind.ALLOCATOR, call.value(allocator), call.lib)
            m.allocator = call.value(allocator)
            return None
        case fx.SyncOnExit(stream):
            return ContextV(ContextKind.SYNC_ON_EXIT, call.stream(stream), call.lib)
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
        case fx.HostWaitsEvent(event):
            _wait_on_host(call, event)
            return None
        case fx.HostWaitsMemory(what):
            ready.wait_for(call, what)
            return None
        case fx.HostWaitsDevice(device, every):
            others = {stream.device for stream in m.streams.values()} if every else set()
            for one in dict.fromkeys((call.device(device).id, *sorted(others))):
                m.emit(SyncDevice(m.site(span), m.lane, device=one, name=call.name()))
            return None
        case fx.Queries():
            return _query(call, effect)
        case fx.Copies():
            return memory.copy(call, effect)
        case fx.Uses():
            memory.use(call, effect)
            return None
        case fx.Computes():
            return _compute(call, effect)
        case fx.Communicates():
            return collectives.run(call, effect)
        case fx.WaitsForResult(result):
            return collectives.wait_for(call, result)
        case fx.Coalesces():
            return collectives.coalesced(call, effect)
        case fx.GivesWritten():
            return collectives.written(call)
        case fx.Defers(func):
            return collectives.deferred(call, func)
        case fx.CallsAll(calls):
            return collectives.all_of(call, calls)
        case fx.GroupStarts(block):
            if block:
                return ContextV(ContextKind.GROUP, NONE, call.lib)
            grouped.start(m)
            return None
        case fx.GroupEnds():
            grouped.end(m, span, call.name())
            return None
        case fx.Launches(kernel, lists, stream, kept_with, makes):
            if makes is not None and kept_with and copies.is_true(m, call.value(kept_with), span, kept_with):
                return _carry_out(call, makes)
            return memory.launch_python(call, kernel, lists, stream)
        case fx.Binds(name, address, mode):
            own = m.bound.setdefault(symbol_of(call.value("self")), {})
            own[symbol_of(call.value(name))] = (call.value(address), mode)
            return None
        case fx.Background():
            return background.run(call, effect)
        case fx.Shares(what):
            return processes.share(call, what)
        case fx.OpensShared():
            return processes.opened(call)
        case fx.Lends():
            return lending.lend(call)
        case fx.Draws():
            lending.draw(call, effect)
            return None
        case fx.TakesBack(unless):
            lending.take_back(call, unless)
            return None
        case fx.Fills():
            background.fill(call, effect)
            return None
        case fx.OrdersAll(why):
            escape.barrier(m, escape.all_streams(m), span, call.name(), why)
            return m.fresh(call.name(), span)
        case fx.HostUses(reads, writes):
            accesses = [
                Access(b.id, mode, b.region)
                for names_, mode in ((reads, Mode.READ), (writes, Mode.WRITE))
                for n in names_
                if (b := call.buffer(n))
            ]
            m.emit(HostAccess(m.site(span), m.lane, accesses=tuple(accesses), name=call.name()))
            return None
        case fx.Allocates():
            return memory.allocate(call, effect)
        case fx.Frees():
            memory.free(call, effect)
            return None
        case fx.Pins(buffer):
            for pinned in call.buffers(buffer):
                m.set_space(pinned, Space.PINNED)
            return None
        case fx.Unpins():
            m.emit(
                SyncDevice(
                    m.site(span),
                    m.lane,
                    memory.OBSERVED,
                    device=m.device,
                    name=call.name(),
                    purpose=Purpose.ASIDE,
                )
            )
            return None
        case fx.GlobalMemory(module, name):
            variable = (symbol_of(call.value(one)) for one in (*module, name))
            return memory.of_module(m, symbols.call("variable", *variable), call.lib, span)
        case fx.Struct():
            return m.fresh(call.name(), span)
        case fx.KeepsAlive(buffer, stream):
            kept = call.buffer(buffer)
            if kept is not None:
                m.emit(
                    KeepAlive(
                        m.site(span),
                        m.lane,
                        buffer=kept.id,
                        stream=call.stream(stream).id,
                        name=call.name(),
                    )
                )
                if m.space(kept) is Space.UNKNOWN:
                    m.set_space(kept, Space.DEVICE)
            return None
        case fx.HostCallback():
            callbacks.run(call, effect)
            return None
        case fx.OrdersNothing():
            m.emit(CudaCall(m.site(span), m.lane, name=call.name()))
            return m.fresh(call.name(), span)
        case fx.ReadsTimes(start, end):
            times = (call.event(start).id, call.event(end).id)
            m.emit(CudaCall(m.site(span), m.lane, name=call.name(), times=times))
            return m.fresh(call.name(), span)
        case fx.Destroys(what):
            gone = call.value(what)
            if isinstance(gone, StreamV):
                m.emit(DestroyStream(m.site(span), m.lane, stream=gone.id))
            elif isinstance(gone, EventV):
                m.emit(DestroyEvent(m.site(span), m.lane, event=gone.id))
            return None
        case fx.Views():
            return memory.view(call, effect)
        case fx.Adopts():
            return _adopt(call, effect)
        case fx.Succeeds(told_by):
            return ConstV(told_by)
        case fx.Returns(what):
            return call.value(what)
        case fx.Pure(own):
            if call.name() == "current_device":
                return devices.current(m)
            answer = capturing.predicate(m, call.name(), call.value("self"), call.lib)
            if answer is not None:
                return ConstV(answer)
            given = (symbol_of(value) for name, value in call.bound.items() if own or name != "self")
            return SymV(symbols.call(call.name(), *given))
        case _:
            assert_never(effect)


def _is_null(call: Call, handle: Value) -> bool:
    """0, or the handle of the legacy default stream."""
    if isinstance(handle, StreamV):
        return call.m.streams[handle.id].kind is StreamKind.LEGACY
    return handle == ConstV(0)


def _compute(call: Call, effect: fx.Computes) -> Value:
    operands = [view for name in effect.reads for view in call.buffers(name)]
    stream, result = call.value(effect.stream), call.value(effect.out)
    if result != NONE:
        memory.use(call, fx.Uses(effect.reads, (effect.out, *effect.also), stream=effect.stream))
    else:
        of = call.buffers(effect.like) if effect.like else operands
        # Without a stream it is the current one of the library that the result is of, if that is told.
        on = stream if effect.like else call.stream(effect.stream)
        result = operations.work(call.m, call.lib, call.name(), operands, on, call.span, like=of)
    waits = call.value(effect.owner) if effect.owner else stream
    operations.host_waits(call.m, call.framework, waits, call.name(), call.span)
    if not effect.also:
        return result
    given = (call.value(name) for name in effect.also)
    return TupleV((result, *(result if value == NONE else value for value in given)))


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


def _adopt(call: Call, effect: fx.Adopts) -> Value:
    view = call.buffer(effect.of)
    if view is None:
        return call.m.fresh(call.name(), call.span)
    unordered = call.value(effect.stream) in (NONE, ConstV(-1))
    stream = None if unordered else call.stream(effect.stream)
    return handoffs.adopted(call.m, view, call.lib, stream, call.span, call.name())


def _enter_stream(call: Call, effect: fx.EnterStream) -> Value | None:
    if call.value(effect.stream) == NONE:
        # torch.cuda.stream(None) changes nothing.
        return None if effect.now else ContextV(ContextKind.NULL, NONE)
    chosen = call.stream(effect.stream)
    forks = call.value(effect.forks)
    if effect.forks_unset if forks == NONE else forks == ConstV(True):
        outer = call.m.current_stream(call.lib)
        stream_values.waits(call.m, chosen.id, outer.id, call.span, call.name())
    if effect.now:
        stream_values.select(call.m, chosen, call.lib)
        return chosen
    joins = call.value(effect.joins) == ConstV(True)
    return ContextV(ContextKind.STREAM, chosen, call.lib, joins=joins)


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
