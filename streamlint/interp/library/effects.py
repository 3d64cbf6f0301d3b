"""Carries out the effects of a framework row."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from typing_extensions import assert_never

from streamlint.interp.library import (
    background,
    callbacks,
    collectives,
    devices,
    escape,
    graphs,
    handoffs,
    making,
    memory,
    stream_values,
    tensors,
)
from streamlint.interp.state import captures, elements, names, symbols
from streamlint.interp.state.values import (
    NONE,
    ApiV,
    BufferV,
    ConstV,
    ContextKind,
    ContextV,
    DeviceV,
    EventV,
    Flavor,
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
    UNBOUNDED,
    Access,
    CudaCall,
    DestroyEvent,
    DestroyStream,
    Evidence,
    HostAccess,
    Interval,
    KeepAlive,
    Mode,
    Record,
    Space,
    StreamKind,
    SyncDevice,
    SyncEvent,
    SyncStream,
    Wait,
)

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span
    from streamlint.trace import StreamId


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
    """Runs a row's effects; the value of the call is the last that one returns. ``told``: see ``Call``."""
    in_place = api.names_of(len(args))
    bound = {name: names.settle(m, value) for name, value in zip(in_place, args, strict=False)}
    bound |= {name: names.settle(m, value) for name, value in kwargs.items()}
    if api.rest is not None:
        bound[api.rest] = TupleV(tuple(args[len(in_place) :]))
    if receiver is not None:
        bound["self"] = receiver
    call = Call(m, framework, api, bound, span)
    call.told = min(told, m.buffers[receiver.id].kind) if isinstance(receiver, BufferV) else told
    result: Value | None = None
    for effect in api.effects:
        made = call.carry_out(effect)
        result = made if made is not None else result
    if not api.status:
        return result if result is not None else NONE
    success = ApiV(cuda_driver.SUCCESS if framework.lib is fx.Lib.DRIVER else cuda_runtime.SUCCESS)
    if isinstance(result, QueryV):
        return TupleV((result,))
    if result is None:
        return TupleV((success,))
    return TupleV((success, result, *(m.fresh(api.name, span) for _ in range(api.further))))


class Call:
    """One call of a row: its arguments by parameter name."""

    told = Evidence.SHOWN
    """What the call shows of its arguments and its result is no surer than that it is this call."""

    def __init__(
        self, m: Machine, framework: fx.Framework, api: fx.Api, bound: dict[str, Value], span: Span
    ) -> None:
        self.m = m
        self.lib = framework.lib
        self.api = api
        self.bound = bound
        self.span = span

    # -------------------------------------------------------------- arguments

    def value(self, name: str | None) -> Value:
        """The argument of a parameter, or a field of it: ``"p.srcPtr/srcArray"`` is the first that is set."""
        if name is None:
            return NONE
        owner, _, parts = name.partition(".")
        found = self.bound.get(owner, NONE)
        if not parts:
            return found
        fields = [self._field(found, part) for part in parts.split("/")]
        return next((f for f in fields if f != NONE and not isinstance(f, SymV)), fields[0])

    def _field(self, options: Value, name: str) -> Value:
        """``nonblocking`` of ``StreamOptions(nonblocking=False)`` or ``{"nonblocking": False}``."""
        match options:
            case PartialV(kwargs=kept):
                return kept.get(name, NONE)
            case HeapV(number):
                held = self.m.heap[number]
                return held.entries.get(symbols.constant(name), held.attrs.get(name, NONE))
            case SymV(symbol):
                return names.settle(self.m, SymV(symbols.Attr(symbol, name)))
            case _:
                return NONE

    def stream(self, name: str | None) -> StreamV:
        """A stream argument; none given means the current stream, or the default stream of the runtime."""
        return self._as_stream(self.value(name))

    def _as_stream(self, value: Value) -> StreamV:
        match value:
            case StreamV():
                return value
            case ConstV(None):
                return self.m.current_stream(self.lib, devices.of_call(self))
            case ConstV(int() as handle):
                return stream_values.handle_stream(self.m, handle, self.lib)
            case ApiV() if self.lib in (fx.Lib.RUNTIME, fx.Lib.DRIVER):
                return self.m.default(self.m.default_stream, self.lib)
            case SymV(symbols.Attr(_, "default_stream")) if self.lib is fx.Lib.CORE:
                return self.m.default(StreamKind.LEGACY, self.lib)
            case _:
                return stream_values.as_stream(self.m, value, self.span, self.lib)

    def _of_device(self, name: str) -> StreamV:
        """A stream, or the current one of a device: ``wp.synchronize_stream(self.device)``."""
        value = self.value(name)
        if isinstance(value, StreamV) or stream_values.is_shown(self.m, value, Role.STREAM):
            return self.stream(name)
        return self.m.current_stream(self.lib, self.device(name).id)

    def event(self, name: str) -> EventV:
        return stream_values.as_event(self.m, self.value(name), self.span)

    def buffer(self, name: str) -> BufferV | None:
        found = tensors.buffers_in(self.m, [self.value(name)])
        if found:
            return self.m.is_memory(found[0], self.told)
        value = self.value(name)
        if isinstance(value, SymV):
            return tensors.as_buffer(self.m, value, Flavor.POINTER, self.told)
        return None

    def buffers(self, name: str) -> list[BufferV]:
        """The memory of an argument, or of each element of one that is a list."""
        value = self.value(name)
        if isinstance(value, (TupleV, HeapV)):
            return tensors.buffers_in(self.m, [value])
        found = self.buffer(name)
        return [found] if found is not None else []

    def sized(self, view: BufferV, count: str | None) -> BufferV:
        """``count`` bytes from where a pointer points; all of the allocation stays the whole of it.

        How many bytes a row has is not known: what starts at ``x[1].data_ptr()`` is taken to be that row.
        """
        size = self.value(count)
        if (
            view.flavor is not Flavor.POINTER
            or not isinstance(size, ConstV)
            or not isinstance(size.value, int)
        ):
            return view
        match view.region:
            case ():
                whole = self.m.sizes.get(view.id) in (None, symbol_of(size))
                return view if whole else BufferV(view.id, (Interval(0, size.value),), view.flavor)
            case (Interval(lo, hi),) if hi == UNBOUNDED:
                return BufferV(view.id, (Interval(lo, lo + size.value),), view.flavor)
            case _:
                return view

    def device(self, name: str) -> DeviceV:
        return devices.meant(self.m, self.value(name))

    def name(self) -> str:
        return self.api.name.rpartition(".")[2].removesuffix("()")

    # -------------------------------------------------------------- effects

    def carry_out(self, effect: fx.Effect) -> Value | None:
        m, span = self.m, self.span
        match effect:
            case fx.NewStream():
                return making.stream(self, effect)
            case fx.CurrentStream(device):
                return m.current_stream(self.lib, self.device(device).id)
            case fx.DefaultStream(kind):
                where = self.device("self" if isinstance(self.bound.get("self"), DeviceV) else "device")
                return m.default(m.default_stream if kind is StreamKind.LEGACY else kind, self.lib, where.id)
            case fx.ForeignStream(handle, current_of):
                value = self.value(handle)
                if current_of is not None and not isinstance(value, (StreamV, SymV)):
                    return StreamV(m.current_stream(current_of).id, self.lib)
                if isinstance(value, ConstV) and isinstance(value.value, int):
                    return stream_values.handle_stream(m, value.value, self.lib)
                known = (
                    value if isinstance(value, StreamV) else stream_values.as_stream(m, value, span, self.lib)
                )
                return StreamV(known.id, self.lib)
            case fx.NewEvent():
                return making.event(self, effect)
            case fx.NewDevice(number):
                return devices.made(m, self.value(number))
            case fx.Makes(path, keeps):
                held = {name: self.bound[name] for name in keeps if name in self.bound}
                return PartialV(ApiV(path), (), held) if held else ApiV(path)
            case fx.EnterStream():
                return self._enter_stream(effect)
            case fx.EnterDevice(device, now):
                if not now:
                    return ContextV(ContextKind.DEVICE, self.device(device), self.lib)
                devices.select(m, self.device(device))
                return None
            case fx.SelectsDevice(device, push):
                if push:
                    m.pushed.append(devices.current(m))
                devices.select(m, self.device(device))
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
                return graphs.carry_out(self, effect)
            case fx.SyncOnExit(stream):
                return ContextV(ContextKind.SYNC_ON_EXIT, self.stream(stream), self.lib)
            case fx.StreamWaitsStream(stream, other):
                self._wait_stream(stream, other)
                return None
            case fx.StreamWaitsEvent(event, stream, flags):
                self._emit_wait(self.stream(stream).id, self.event(event), flags)
                return None
            case fx.StreamWaits(what, stream):
                self._wait(what, stream)
                return None
            case fx.Records():
                return self._record(effect)
            case fx.HostWaitsStream(stream, or_device):
                waited = self._of_device(stream) if or_device else self.stream(stream)
                m.emit(SyncStream(m.site(span), m.lane, stream=waited.id, name=self.name()))
                return None
            case fx.HostWaitsEvent(event):
                self._wait_on_host(event)
                return None
            case fx.HostWaitsDevice(device, every):
                others = {stream.device for stream in m.streams.values()} if every else set()
                for one in dict.fromkeys((self.device(device).id, *sorted(others))):
                    m.emit(SyncDevice(m.site(span), m.lane, device=one, name=self.name()))
                return None
            case fx.Queries():
                return self._query(effect)
            case fx.Copies():
                return memory.copy(self, effect)
            case fx.Uses():
                memory.use(self, effect)
                return None
            case fx.Communicates():
                return collectives.run(self, effect)
            case fx.Defers(func):
                return collectives.deferred(self, func)
            case fx.CallsAll(calls):
                return collectives.all_of(self, calls)
            case fx.Launches(kernel, lists, stream):
                return memory.launch_python(self, kernel, lists, stream)
            case fx.Binds(name, address):
                own = m.bound.setdefault(symbol_of(self.value("self")), {})
                own[symbol_of(self.value(name))] = self.value(address)
                return None
            case fx.Background():
                return background.run(self, effect)
            case fx.OrdersAll(why):
                escape.barrier(m, escape.all_streams(m), span, self.name(), why)
                return m.fresh(self.name(), span)
            case fx.HostUses(reads, writes):
                accesses = [
                    Access(b.id, mode, b.region)
                    for names_, mode in ((reads, Mode.READ), (writes, Mode.WRITE))
                    for n in names_
                    if (b := self.buffer(n))
                ]
                m.emit(HostAccess(m.site(span), m.lane, accesses=tuple(accesses), name=self.name()))
                return None
            case fx.Allocates():
                return memory.allocate(self, effect)
            case fx.Frees():
                memory.free(self, effect)
                return None
            case fx.Pins(buffer):
                for pinned in self.buffers(buffer):
                    m.set_space(pinned, Space.PINNED)
                return None
            case fx.Unpins():
                m.emit(SyncDevice(m.site(span), m.lane, memory.OBSERVED, device=m.device, name=self.name()))
                return None
            case fx.GlobalMemory(module, name):
                variable = (symbol_of(self.value(one)) for one in (*module, name))
                return memory.of_module(m, symbols.call("variable", *variable), self.lib, span)
            case fx.Struct():
                return m.fresh(self.name(), span)
            case fx.KeepsAlive(buffer, stream):
                kept = self.buffer(buffer)
                if kept is not None:
                    m.emit(
                        KeepAlive(
                            m.site(span),
                            m.lane,
                            buffer=kept.id,
                            stream=self.stream(stream).id,
                            name=self.name(),
                        )
                    )
                    if m.space(kept) is Space.UNKNOWN:
                        m.set_space(kept, Space.DEVICE)
                return None
            case fx.HostCallback():
                callbacks.run(self, effect)
                return None
            case fx.OrdersNothing():
                m.emit(CudaCall(m.site(span), m.lane, name=self.name()))
                return m.fresh(self.name(), span)
            case fx.ReadsTimes(start, end):
                times = (self.event(start).id, self.event(end).id)
                m.emit(CudaCall(m.site(span), m.lane, name=self.name(), times=times))
                return m.fresh(self.name(), span)
            case fx.Destroys(what):
                gone = self.value(what)
                if isinstance(gone, StreamV):
                    m.emit(DestroyStream(m.site(span), m.lane, stream=gone.id))
                elif isinstance(gone, EventV):
                    m.emit(DestroyEvent(m.site(span), m.lane, event=gone.id))
                return None
            case fx.Views():
                return memory.view(self, effect)
            case fx.Adopts():
                return self._adopt(effect)
            case fx.Succeeds(told_by):
                return ConstV(told_by)
            case fx.Returns(what):
                return self.value(what)
            case fx.Pure():
                if self.name() == "current_device":
                    return devices.current(m)
                capturing = captures.predicate(m, self.name(), self.value("self"), self.lib)
                if capturing is not None:
                    return ConstV(capturing)
                given = (symbol_of(value) for name, value in self.bound.items() if name != "self")
                return SymV(symbols.call(self.name(), *given))
            case _:
                assert_never(effect)

    def _wait_on_host(self, what: str) -> None:
        """For an event, or for all in a list: ``MPI.Request.Waitall([sent, received])``."""
        m, value = self.m, self.value(what)
        listed = elements.listed(m, value) if isinstance(value, (TupleV, HeapV)) else [value]
        waited = [stream_values.as_event(m, one, self.span) for one in listed or ()]
        for event in waited:
            m.emit(SyncEvent(m.site(self.span), m.lane, event=event.id, name=self.name()))
        if listed is None or any(m.events[event.id].span is None for event in waited):
            escape.barrier(m, escape.all_streams(m), self.span, self.name())

    def _wait(self, what: str, stream: str) -> None:
        """An event or a stream."""
        if stream_values.is_shown(self.m, self.value(what), Role.STREAM):
            self._wait_stream(stream, what)
            return
        self._emit_wait(self.stream(stream).id, self.event(what))

    def _emit_wait(self, stream: StreamId, event: EventV, flags: str = "flags") -> None:
        m = self.m
        escape.by_outside_event(m, event, stream, self.span, self.name())
        wait = Wait(m.site(self.span), m.lane, stream=stream, event=event.id, name=self.name())
        if captures.is_external(self.value(flags)) and m.captures.has(stream):
            m.captures.add_node(wait)
        else:
            m.emit(wait)

    def _adopt(self, effect: fx.Adopts) -> Value:
        view = self.buffer(effect.of)
        if view is None:
            return self.m.fresh(self.name(), self.span)
        unordered = self.value(effect.stream) in (NONE, ConstV(-1))
        stream = None if unordered else self.stream(effect.stream)
        return handoffs.adopted(self.m, view, self.lib, stream, self.span, self.name())

    def _enter_stream(self, effect: fx.EnterStream) -> Value | None:
        if self.value(effect.stream) == NONE:
            # torch.cuda.stream(None) changes nothing.
            return None if effect.now else ContextV(ContextKind.NULL, NONE)
        chosen = self.stream(effect.stream)
        forks = self.value(effect.forks)
        if effect.forks_unset if forks == NONE else forks == ConstV(True):
            outer = self.m.current_stream(self.lib)
            stream_values.waits(self.m, chosen.id, outer.id, self.span, self.name())
        if effect.now:
            stream_values.select(self.m, chosen, self.lib)
            return chosen
        joins = self.value(effect.joins) == ConstV(True)
        return ContextV(ContextKind.STREAM, chosen, self.lib, joins=joins)

    def _wait_stream(self, stream: str, other: str) -> None:
        m = self.m
        given = self.value(other)
        several = elements.listed(m, given) if isinstance(given, (TupleV, HeapV)) else None
        others = [self.stream(other)] if several is None else [self._as_stream(one) for one in several]
        for waited in others:
            event = m.event_of("wait_stream", self.span, self.lib)
            m.emit(Record(m.site(self.span), m.lane, stream=waited.id, event=event.id))
            self._emit_wait(self.stream(stream).id, event)

    def _record(self, effect: fx.Records) -> Value:
        m = self.m
        given = self.value(effect.event)
        made = (
            stream_values.as_event(m, given, self.span)
            if given != NONE
            else m.new_event("an event", self.span, self.lib)
        )
        on = self.stream(effect.stream)
        where = devices.of_stream(m, on)
        known = m.events[made.id]
        if known.made_on is None and (given == NONE or self.lib is fx.Lib.TORCH):
            # PyTorch makes the event when it is first recorded; cuda.core makes it for the stream.
            m.events[made.id] = replace(known, made_on=making.event_device(self) or where)
        recorded = Record(m.site(self.span), m.lane, stream=on.id, event=made.id, issued_on=where)
        if captures.is_external(self.value(effect.flags)) and m.captures.has(on.id):
            m.captures.add_node(recorded)
        else:
            m.emit(recorded)
        return made

    def _query(self, effect: fx.Queries) -> Value:
        value = self.value(effect.of)
        value = self.m.roles.get(symbol_of(value), value)
        queried = (
            value
            if isinstance(value, (StreamV, EventV))
            else stream_values.as_stream(self.m, value, self.span)
        )
        site, lane = self.m.site(self.span), self.m.lane
        if isinstance(queried, StreamV):
            self.m.emit(CudaCall(site, lane, name=self.name(), stream=queried.id))
        else:
            self.m.emit(CudaCall(site, lane, name=self.name(), event=queried.id))
        return QueryV(queried, status=effect.status, told_by=effect.told_by)
