"""Carries out the effects of a framework row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import assert_never

from streamlint import ir
from streamlint.interp import calls, contexts, copies, escape, names, tensors
from streamlint.interp.machine import Cut, PathEnds, Returned, device_id
from streamlint.interp.values import (
    NONE,
    ApiV,
    BufferV,
    ConstV,
    ContextKind,
    ContextV,
    DeviceV,
    EventV,
    Flavor,
    FuncV,
    HeapV,
    PartialV,
    QueryV,
    Shape,
    StreamV,
    SymV,
    TupleV,
    Value,
    key_of,
)
from streamlint.models import cuda_runtime
from streamlint.models import schema as fx
from streamlint.trace import (
    Access,
    BeginCapture,
    Callback,
    CallbackEnd,
    CudaCall,
    DestroyEvent,
    DestroyStream,
    Doubt,
    EndCapture,
    Free,
    HostAccess,
    Interval,
    KeepAlive,
    LaneId,
    Launch,
    Mode,
    Origin,
    Record,
    Space,
    StreamKind,
    SyncDevice,
    SyncEvent,
    SyncStream,
    Wait,
)

if TYPE_CHECKING:
    from streamlint.interp.machine import Machine
    from streamlint.source import Span

OBSERVED = frozenset({Doubt.OBSERVED})


def apply(
    m: Machine,
    framework: fx.Framework,
    api: fx.Api,
    receiver: Value | None,
    args: list[Value],
    kwargs: dict[str, Value],
    span: Span,
) -> Value:
    """Runs a row's effects; the value of the call is the last one that an effect returns."""
    bound = {name: names.settle(m, value) for name, value in zip(api.names, args, strict=False)}
    bound |= {name: names.settle(m, value) for name, value in kwargs.items()}
    if receiver is not None:
        bound["self"] = receiver
    call = _Call(m, framework, api, bound, span)
    result: Value | None = None
    for effect in api.effects:
        made = call.carry_out(effect)
        result = made if made is not None else result
    if not api.status:
        return result if result is not None else NONE
    success = ApiV(cuda_runtime.SUCCESS)
    if isinstance(result, QueryV):
        return TupleV((result,))
    return TupleV((success,)) if result is None else TupleV((success, result))


def unknown_runtime_call(m: Machine, path: str, args: list[Value], span: Span) -> Value:
    """A runtime function without a row: it orders nothing, and its result is unknown."""
    del args
    name = path.rpartition(".")[2]
    m.emit(CudaCall(m.site(span), m.lane, name=name))
    if not name.startswith("cuda") or "_t" in name or name[4:5].islower():
        return m.fresh(name, span)
    return TupleV((ApiV(cuda_runtime.SUCCESS), m.fresh(name, span)))


class _Call:
    """One call of a row: its arguments by parameter name."""

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
        return self.bound.get(name, NONE) if name is not None else NONE

    def stream(self, name: str | None) -> StreamV:
        """A stream argument; none given means the current stream, or the default stream of the runtime."""
        value = self.value(name)
        match value:
            case StreamV():
                return value
            case ConstV(None):
                return self.m.current_stream(self.lib)
            case ConstV(int() as handle):
                return handle_stream(self.m, handle, self.lib)
            case ApiV() if self.lib is fx.Lib.RUNTIME:
                return self.m.default(self.m.default_stream, self.lib)
            case _:
                return contexts.as_stream(self.m, value, self.span, self.lib)

    def event(self, name: str) -> EventV:
        return as_event(self.m, self.value(name), self.span)

    def buffer(self, name: str) -> BufferV | None:
        found = tensors.buffers_in(self.m, [self.value(name)])
        if found:
            return found[0]
        value = self.value(name)
        if isinstance(value, SymV):
            return tensors.as_buffer(self.m, value, Flavor.POINTER)
        return None

    def sized(self, view: BufferV, count: str | None) -> BufferV:
        """``count`` bytes from where a pointer points; all of the allocation stays the whole of it."""
        size = self.value(count)
        if view.flavor is not Flavor.POINTER or not isinstance(size, ConstV) or not isinstance(size.value, int):
            return view
        match view.region:
            case ():
                whole = self.m.sizes.get(view.id) in (None, key_of(size))
                return view if whole else BufferV(view.id, (Interval(0, size.value),), view.flavor)
            case (Interval(lo),):
                return BufferV(view.id, (Interval(lo, lo + size.value),), view.flavor)
            case _:
                return view

    def device(self, name: str) -> str:
        value = self.value(name)
        if isinstance(value, StreamV):
            return self.m.streams[value.id].device
        found = copies.as_device(self.m, value)
        if value == NONE or found is None:
            return self.m.device
        return self.m.device if found.id == "cur" else device_id(found, self.m.device)

    def name(self) -> str:
        return self.api.name

    # -------------------------------------------------------------- effects

    def carry_out(self, effect: fx.Effect) -> Value | None:  # noqa: C901, PLR0911, PLR0912, PLR0915
        m, span = self.m, self.span
        match effect:
            case fx.NewStream():
                return self._new_stream(effect)
            case fx.CurrentStream(device):
                return m.current_stream(self.lib, self.device(device))
            case fx.DefaultStream(kind):
                return m.default(
                    m.default_stream if kind is StreamKind.LEGACY else kind, self.lib, self.device("device")
                )
            case fx.ForeignStream(handle):
                value = self.value(handle)
                return value if isinstance(value, StreamV) else contexts.as_stream(m, value, span, self.lib)
            case fx.NewEvent():
                return m.new_event("an event", span, self.lib)
            case fx.EnterStream(stream, now):
                return self._enter_stream(stream, now=now)
            case fx.EnterDevice(device) | fx.SelectsDevice(device):
                target = DeviceV(self.device(device))
                if isinstance(effect, fx.SelectsDevice) or effect.now:
                    m.device = target.id
                    return None
                return ContextV(ContextKind.DEVICE, target, self.lib)
            case fx.EnterCapture(stream):
                chosen = self.value(stream)
                capture = (
                    chosen
                    if isinstance(chosen, StreamV)
                    else m.new_stream(StreamKind.NON_BLOCKING, "the capture stream", span, self.lib)
                )
                return ContextV(ContextKind.CAPTURE, capture, self.lib)
            case fx.SyncOnExit(stream):
                return ContextV(ContextKind.SYNC_ON_EXIT, self.stream(stream), self.lib)
            case fx.StreamWaitsStream(stream, other):
                self._wait_stream(stream, other)
                return None
            case fx.StreamWaitsEvent(event, stream):
                waited = self.event(event)
                m.emit(
                    Wait(
                        m.site(span), m.lane, stream=self.stream(stream).id, event=waited.id, name=self.name()
                    )
                )
                return None
            case fx.Records(event, stream):
                return self._record(event, stream)
            case fx.HostWaitsStream(stream):
                m.emit(SyncStream(m.site(span), m.lane, stream=self.stream(stream).id, name=self.name()))
                return None
            case fx.HostWaitsEvent(event):
                waited = self.event(event)
                m.emit(SyncEvent(m.site(span), m.lane, event=waited.id, name=self.name()))
                if m.events[waited.id].span is None:
                    escape.barrier(m, escape.all_streams(m), span, self.name())
                return None
            case fx.HostWaitsDevice(device):
                m.emit(SyncDevice(m.site(span), m.lane, device=self.device(device), name=self.name()))
                return None
            case fx.Queries(of, status):
                return self._query(of, status=status)
            case fx.Copies():
                return self._copy(effect)
            case fx.Uses():
                self._use(effect)
                return None
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
                return self._allocate(effect)
            case fx.Frees(buffer, stream, _):
                freed = self.buffer(buffer)
                if freed is not None:
                    on = self.stream(stream).id if stream is not None else None
                    # cudaFree of memory from cudaMallocAsync does not wait for anything (measured).
                    if effect.device_wide and m.buffers[freed.id].alloc_stream is None:
                        m.emit(SyncDevice(m.site(span), m.lane, OBSERVED, device=m.device, name=self.name()))
                    m.emit(Free(m.site(span), m.lane, buffer=freed.id, stream=on, name=self.name()))
                return None
            case fx.Pins(buffer):
                pinned = self.buffer(buffer)
                if pinned is not None:
                    m.set_space(pinned, Space.PINNED)
                return None
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
                self._callback(effect)
                return None
            case fx.OrdersNothing():
                m.emit(CudaCall(m.site(span), m.lane, name=self.name()))
                return m.fresh(self.name(), span)
            case fx.Destroys(what):
                gone = self.value(what)
                if isinstance(gone, StreamV):
                    m.emit(DestroyStream(m.site(span), m.lane, stream=gone.id))
                elif isinstance(gone, EventV):
                    m.emit(DestroyEvent(m.site(span), m.lane, event=gone.id))
                return None
            case fx.CaptureStarts(stream):
                m.capturing += 1
                m.emit(BeginCapture(m.site(span), m.lane, stream=self.stream(stream).id))
                return None
            case fx.CaptureEnds(stream):
                m.capturing = max(0, m.capturing - 1)
                m.emit(EndCapture(m.site(span), m.lane, stream=self.stream(stream).id))
                return m.fresh("graph", span)
            case fx.Views(of, array):
                seen = self.buffer(of)
                if seen is None:
                    return m.fresh("view", span)
                return BufferV(seen.id, seen.region, Flavor.ARRAY if array else seen.flavor)
            case fx.Returns(what):
                return self.value(what)
            case fx.Pure():
                if self.name() == "current_device":
                    return DeviceV(m.device)
                return SymV(
                    f"{self.name()}({','.join(key_of(v) for k, v in self.bound.items() if k != 'self')})"
                )
            case _:
                assert_never(effect)

    def _new_stream(self, effect: fx.NewStream) -> Value:
        kind = effect.kind
        if effect.flag is not None:
            match self.value(effect.flag):
                case ConstV(int() | bool() as flag):
                    kind = effect.flag_kind if int(flag) & cuda_runtime.NON_BLOCKING_FLAG else effect.kind
                case ConstV(None):
                    pass
                case _:
                    kind = StreamKind.UNKNOWN
        return self.m.new_stream(kind, "a stream", self.span, self.lib, self.device("device"))

    def _enter_stream(self, stream: str, *, now: bool) -> Value | None:
        value = self.value(stream)
        if value == NONE:
            # torch.cuda.stream(None) changes nothing.
            return None if now else ContextV(ContextKind.NULL, NONE)
        chosen = self.stream(stream)
        if now:
            contexts.select(self.m, chosen, self.lib)
            return None
        return ContextV(ContextKind.STREAM, chosen, self.lib)

    def _wait_stream(self, stream: str, other: str) -> None:
        m = self.m
        event = m.new_event("the event of wait_stream", self.span, self.lib)
        m.emit(Record(m.site(self.span), m.lane, stream=self.stream(other).id, event=event.id))
        m.emit(
            Wait(m.site(self.span), m.lane, stream=self.stream(stream).id, event=event.id, name=self.name())
        )

    def _record(self, event: str, stream: str) -> Value:
        m = self.m
        given = self.value(event)
        made = (
            as_event(m, given, self.span) if given != NONE else m.new_event("an event", self.span, self.lib)
        )
        m.emit(Record(m.site(self.span), m.lane, stream=self.stream(stream).id, event=made.id))
        return made

    def _query(self, of: str, *, status: bool) -> Value:
        value = self.value(of)
        queried = (
            value if isinstance(value, (StreamV, EventV)) else contexts.as_stream(self.m, value, self.span)
        )
        self.m.emit(CudaCall(self.m.site(self.span), self.m.lane, name=self.name()))
        return QueryV(queried, status=status)

    def _copy(self, effect: fx.Copies) -> Value | None:
        dst, src = self.buffer(effect.dst), self.buffer(effect.src)
        blocking = effect.blocking
        if effect.unless is not None:
            blocking = not copies.is_true(self.m, self.value(effect.unless), self.span, effect.unless)
        if dst is not None and src is not None:
            self._by_kind(dst, src)
            copies.on_stream(
                self.m,
                self.sized(dst, effect.count),
                self.sized(src, effect.count),
                self.stream(effect.stream).id,
                self.span,
                blocking=blocking,
                name=self.name(),
            )
        return self.value(effect.returns) if effect.returns is not None else None

    def _by_kind(self, dst: BufferV, src: BufferV) -> None:
        """``cudaMemcpyDeviceToHost`` tells where unknown pointers point."""
        kind = self.value("kind")
        text = kind.path if isinstance(kind, ApiV) else ""
        sides = {
            "DeviceToHost": (Space.UNKNOWN, Space.DEVICE),
            "HostToDevice": (Space.DEVICE, Space.UNKNOWN),
            "DeviceToDevice": (Space.DEVICE, Space.DEVICE),
        }
        for word, spaces in sides.items():
            if text.endswith(word):
                for view, space in zip((dst, src), spaces, strict=True):
                    if self.m.space(view) is Space.UNKNOWN and space is not Space.UNKNOWN:
                        self.m.set_space(view, space)

    def _use(self, effect: fx.Uses) -> None:
        m = self.m
        accesses: list[Access] = []
        for group, mode in (
            (effect.reads, Mode.READ),
            (effect.writes, Mode.WRITE),
            (effect.updates, Mode.UPDATE),
        ):
            for name in group:
                view = self.buffer(name)
                if view is not None:
                    part = self.sized(view, "count")
                    accesses.append(Access(part.id, mode, part.region))
        for name in effect.packed:
            accesses += [
                Access(v.id, Mode.UPDATE, v.region)
                for v in tensors.buffers_in(m, [self.value(name)], unknown=False, depth=4)
            ]
        m.emit(
            Launch(
                m.site(self.span),
                m.lane,
                stream=self.stream(effect.stream).id,
                accesses=tuple(accesses),
                name=self.name(),
            )
        )

    def _allocate(self, effect: fx.Allocates) -> Value:
        on = (
            self.stream(None if effect.stream == "current" else effect.stream).id
            if effect.stream is not None
            else None
        )
        made = self.m.new_buffer("", effect.space, Origin.ALLOCATED, Flavor.POINTER, self.span, on)
        if "size" in self.bound:
            self.m.sizes[made.id] = key_of(self.bound["size"])
        return made

    def _callback(self, effect: fx.HostCallback) -> None:
        """The host function runs in stream order, on a thread of the driver: a lane of its own."""
        m = self.m
        stream = self.stream(effect.stream)
        function = self.value(effect.function)
        body = LaneId(m.lanes)
        m.lanes += 1
        name = "cudaStreamAddCallback" if effect.deprecated else self.name()
        m.emit(Callback(m.site(self.span), m.lane, stream=stream.id, body=body, name=name))
        if isinstance(function, (FuncV, PartialV)) or (
            isinstance(function, HeapV) and m.heap[function.id].shape is Shape.INSTANCE
        ):
            self._run_body(function, effect, body)
        m.emit(CallbackEnd(m.site(self.span), m.lane, stream=stream.id, body=body))

    def _run_body(self, function: Value, effect: fx.HostCallback, body: LaneId) -> None:
        m = self.m
        outer = m.lane
        m.lane = body
        try:
            calls.call(
                m,
                function,
                callback_arguments(function, self.value(effect.data) if effect.data else NONE, effect),
                {},
                self.span,
            )
        except (Returned, PathEnds):
            pass
        except Cut:
            m.cut.append("callback")
            raise
        finally:
            m.lane = outer


def callback_arguments(function: Value, data: Value, effect: fx.HostCallback) -> list[Value]:
    """A host function gets its data; the older callback gets stream, status and data."""
    count = 3 if effect.deprecated else 1
    if isinstance(function, FuncV) and isinstance(function.function, ir.Function):
        bound = 1 if function.receiver is not None else 0
        count = sum(1 for p in function.function.params if p.kind == "positional") - bound
    return [data] if count == 1 else [NONE] * max(0, count - 1) + [data] if count else []


def handle_stream(m: Machine, handle: int, lib: fx.Lib | None) -> StreamV:
    """A stream given as a number: 0 and 1 are the legacy default stream, 2 the per-thread one."""
    if handle == cuda_runtime.PER_THREAD_HANDLE:
        return m.default(StreamKind.PER_THREAD, lib)
    if handle in cuda_runtime.LEGACY_HANDLES:
        return m.default(StreamKind.LEGACY if handle == 1 else m.default_stream, lib)
    return contexts.as_stream(m, SymV(f"stream handle {handle}"), None, lib)


def as_event(m: Machine, value: Value, span: Span) -> EventV:
    """A value as an event; an unknown one becomes an event from outside, the same each time."""
    del span
    value = names.settle(m, value)
    if isinstance(value, EventV):
        return value
    key = key_of(value)
    role = m.roles.get(f"event:{key}")
    if isinstance(role, EventV):
        return role
    made = m.new_event(key, None, None)
    m.roles[f"event:{key}"] = made
    if isinstance(value, SymV):
        m.roles[value.key] = made
    return made
