"""Streams, events, allocations and captures of PyTorch, through its own trace callbacks.

The callbacks (``torch.cuda._gpu_trace``) are those that PyTorch's CUDA sanitizer uses. They tell of every
record, wait and synchronization that goes through PyTorch, and of the caching allocator. What they do not
tell is wrapped: waits for events that were never recorded, queries, graph captures, and values that a
tensor in host memory gives to Python without an operator.
"""

from __future__ import annotations

import functools
import sys
import weakref
from threading import get_ident
from typing import TYPE_CHECKING, Any

import torch
from torch.cuda import _gpu_trace
from torch.utils._python_dispatch import TorchDispatchMode

from streamlint.confirm.observe.threads import follow
from streamlint.confirm.observe.torch_tracer import Tracer
from streamlint.trace import CaptureMode, FreeKind, Purpose, Space, StreamKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlint.confirm.observe.aside import Aside
    from streamlint.confirm.observe.events import Touched
    from streamlint.confirm.observe.recorder import Recorder
    from streamlint.confirm.observe.registry import EventInfo
    from streamlint.trace import DeviceId, EventId


_DEVICE = Space.DEVICE
_OWN_KIND = StreamKind.NON_BLOCKING
"""Of the streams that PyTorch makes (measured)."""


def install(recorder: Recorder, aside: Aside) -> None:
    """Trace PyTorch from now on, in this thread and in threads that are started later."""
    tracer = Tracer(recorder)
    hooks = _Hooks(tracer, aside)
    hooks.register()
    hooks.patch()
    _leave_out_rules()
    _Mode(tracer, aside).__enter__()
    follow(lambda: _Mode(tracer, aside))


def _replace(owner: type, **methods: Callable[..., Any]) -> None:
    for name, method in methods.items():
        setattr(owner, name, method)


class _Mode(TorchDispatchMode):  # type: ignore[misc]
    def __init__(self, tracer: Tracer, aside: Aside) -> None:
        super().__init__()
        self._tracer = tracer
        self._known = tracer.known
        self._run = tracer.run
        self._under_way = tracer.under_way
        self._depth = aside.depth


_NO_WORDS: dict[str, Any] = {}


def _dispatch(
    self: _Mode, func: Any, _types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
) -> Any:
    known = self._known.get(id(func)) or self._tracer.learn(func)
    if known[2]:  # a view asks the driver for nothing
        return known[0](*args, **kwargs) if kwargs else known[0](*args)
    thread, depth = get_ident(), self._depth
    if thread in depth:
        return self._run(known, args, kwargs or _NO_WORDS)  # within another operator, which is told of, too
    depth[thread] = 1
    try:
        return self._run(known, args, kwargs or _NO_WORDS)
    finally:
        self._under_way.pop(thread, None)
        del depth[thread]


_replace(_Mode, __torch_dispatch__=_dispatch)
"""Not in the class itself: PyTorch wraps it there, to keep its compiler away, at a quarter of the time of an
operator and the import of that compiler. It compiles nothing anyway while such a mode is on."""


def _leave_out_rules() -> None:
    """Before it calls a mode, PyTorch asks in Python whether the operator has a rule of its own for it.

    That takes a microsecond for each operator, and for this mode nobody has one. PyTorch keeps the function
    that it asks from the first operator on.
    """
    from torch._library import simple_registry

    asked = getattr(simple_registry, "find_torch_dispatch_rule", None)
    if asked is not None:
        simple_registry.find_torch_dispatch_rule = lambda operator, mode: (
            None if mode is _Mode else asked(operator, mode)
        )


def _call_at_once(registry: Any, callback: Callable[[int], None]) -> None:
    """Of hundreds of allocations in a step each one went through a loop over its only callback.

    Who registers another one gets the loop back.
    """
    if registry.callback_list:
        registry.add_callback(callback)
        return

    def add(other: Callable[[int], None]) -> None:
        del registry.fire_callbacks, registry.add_callback
        registry.add_callback(callback)
        registry.add_callback(other)

    registry.fire_callbacks, registry.add_callback = callback, add


class _Hooks:
    def __init__(self, tracer: Tracer, aside: Aside) -> None:
        self._tracer = tracer
        self._aside = aside
        self._recorder = tracer.recorder
        self._creating: EventInfo | None = None
        """The event whose first record is under way."""
        self._graphs: weakref.WeakKeyDictionary[Any, list[Touched]] = weakref.WeakKeyDictionary()
        self._replays: weakref.WeakKeyDictionary[Any, EventId] = weakref.WeakKeyDictionary()
        """Recorded behind the last replay of each graph."""

    # ------------------------------------------------------------------ callbacks

    def register(self) -> None:
        torch._C._activate_gpu_trace()
        _gpu_trace.register_callback_for_event_creation(self._event_created)
        _gpu_trace.register_callback_for_event_deletion(self._recorder.forget_event)
        _gpu_trace.register_callback_for_event_record(self._event_recorded)
        _gpu_trace.register_callback_for_event_wait(self._event_waited)
        _call_at_once(_gpu_trace.MemoryAllocationCallbacks, self._allocated)
        _call_at_once(_gpu_trace.MemoryDeallocationCallbacks, self._freed)
        _gpu_trace.register_callback_for_stream_creation(self._stream_created)
        _gpu_trace.register_callback_for_device_synchronization(self._device_synchronized)
        _gpu_trace.register_callback_for_stream_synchronization(self._stream_synchronized)
        _gpu_trace.register_callback_for_event_synchronization(self._event_synchronized)

    def _stream_created(self, handle: int) -> None:
        self._recorder.pool_stream(handle, self._tracer.here(), _OWN_KIND)

    def _event_created(self, handle: int) -> None:
        self._recorder.bind_event(handle, self._tracer.here(), self._creating)
        self._creating = None

    def _event_recorded(self, event: int, stream: int) -> None:
        here = self._tracer.here()
        recorded, on = self._recorder.event(event, here), self._recorder.stream(stream, here)
        self._recorder.record(recorded, on)
        self._tracer.collectives.recorded(recorded, on)

    def _event_waited(self, event: int, stream: int) -> None:
        here = self._tracer.here()
        on = self._recorder.stream(stream, here)
        self._recorder.wait(on, self._recorder.event(event, here))
        self._tracer.collectives.waited(on)

    def _event_synchronized(self, event: int) -> None:
        self._recorder.sync_event(self._recorder.event(event, self._tracer.here()))

    def _stream_synchronized(self, stream: int) -> None:
        self._recorder.sync_stream(self._recorder.stream(stream, self._tracer.here()))

    def _device_synchronized(self) -> None:
        self._recorder.sync_device(self._tracer.here())

    def _allocated(self, address: int) -> None:
        tracer = self._tracer
        number = tracer.device()
        device, handle = tracer.devices[number], tracer.raw_stream(number)
        known = tracer.under_way.get(get_ident())
        if known is not None and known[1] == handle and known[2] == number:
            place, _, _, stream = known
        else:
            place, stream = known and known[0], self._recorder.stream(handle, device)
        self._recorder.born(address, 0, _DEVICE, device, stream, place=place)

    def _freed(self, address: int) -> None:
        known = self._tracer.under_way.get(get_ident())
        self._recorder.died(address, FreeKind.DROPPED, None, "last reference", place=known and known[0])

    # ------------------------------------------------------------------ wrapped methods

    def patch(self) -> None:
        self._patch_events()
        self._patch_streams()
        self._patch_graphs()
        self._patch_host_read()
        self._patch_groups()

    def _patch_groups(self) -> None:
        """``batch_isend_irecv`` launches behind its operators, when the batch ends."""
        if not torch.distributed.is_available():
            return
        group = torch.distributed.ProcessGroup
        end = getattr(group, "_end_coalescing", None)
        if end is None:
            return

        def ended(group: Any, *args: Any) -> Any:
            with self._aside.told():
                return end(group, *args)

        _replace(group, _end_coalescing=ended)

    def _patch_host_read(self) -> None:
        method = torch.Tensor.tolist

        @functools.wraps(method)
        def traced(tensor: Any) -> Any:
            self._tracer.read_by_host(tensor, "tolist()")
            return method(tensor)

        _replace(torch.Tensor, tolist=traced)

    def _patch_streams(self) -> None:
        recorder = self._recorder
        made, query = torch.cuda.Stream.__new__, torch.cuda.Stream.query

        def new(cls: Any, *args: Any, **kwargs: Any) -> Any:
            stream = made(cls, *args, **kwargs)
            if "stream_id" not in kwargs:
                device = self._tracer.devices[stream.device_index]
                if "stream_ptr" in kwargs:
                    recorder.foreign_stream(stream.cuda_stream, device)
                else:
                    recorder.made_stream(stream.cuda_stream, device, _OWN_KIND, pooled=True)
            return stream

        @functools.wraps(query)
        def queried(stream: Any) -> bool:
            done = bool(query(stream))
            if done:
                recorder.sync_stream(self._tracer.stream(stream), "query", Purpose.ANSWER)
            return done

        _replace(torch.cuda.Stream, __new__=new, query=queried)

    def _patch_events(self) -> None:
        tracer, recorder, cls = self._tracer, self._recorder, torch.cuda.Event
        made, record, wait = cls.__new__, cls.record, cls.wait
        query, synchronize, elapsed = cls.query, cls.synchronize, cls.elapsed_time

        def new(cls: Any, *args: Any, **kwargs: Any) -> Any:
            event = made(cls, *args, **kwargs)
            timing = bool(args[0] if args else kwargs.get("enable_timing", False))
            of = "wait_stream" if sys._getframe(2).f_code.co_name == "wait_stream" else ""
            made_here = recorder.loose_event(self._here_or_first(), timing=timing, of=of)
            made_here.external = bool(args[3] if len(args) > 3 else kwargs.get("external", False))
            event.__dict__["_streamlint"] = made_here
            return event

        def info(event: Any) -> EventInfo | None:
            found: EventInfo | None = event.__dict__.get("_streamlint")
            return found

        @functools.wraps(record)
        def recorded(event: Any, stream: Any = None) -> None:
            if not event.cuda_event:
                self._creating = info(event)
            record(event, stream)

        @functools.wraps(wait)
        def waited(event: Any, stream: Any = None) -> None:
            known = info(event)
            on = tracer.current(tracer.device()) if stream is None else tracer.stream(stream)
            if not event.cuda_event and known is not None:
                # It was never recorded: PyTorch does nothing, and tells nobody.
                recorder.wait(on, recorder.known(known))
            try:
                wait(event, stream)
            except RuntimeError:
                if known is not None:
                    # Refused, as a wait for work outside of a capture is.
                    recorder.wait(on, recorder.known(known))
                raise

        @functools.wraps(synchronize)
        def synchronized(event: Any) -> None:
            known = info(event)
            if not event.cuda_event and known is not None:
                recorder.sync_event(recorder.known(known))
            synchronize(event)

        @functools.wraps(query)
        def queried(event: Any) -> bool:
            done = bool(query(event))
            known = info(event)
            if done and event.cuda_event and known is not None:
                recorder.sync_event(recorder.known(known), "query", Purpose.ANSWER)
            return done

        @functools.wraps(elapsed)
        def timed(event: Any, end: Any) -> float:
            times = tuple(recorder.known(known) for known in (info(event), info(end)) if known is not None)
            recorder.call("elapsed_time", times=times)
            return float(elapsed(event, end))

        _replace(
            cls,
            __new__=new,
            record=recorded,
            wait=waited,
            synchronize=synchronized,
            query=queried,
            elapsed_time=timed,
        )

    def _here_or_first(self) -> DeviceId:
        return self._tracer.here() if torch.cuda.is_initialized() else self._tracer.devices[0]

    def _patch_graphs(self) -> None:
        recorder, cls = self._recorder, torch.cuda.CUDAGraph
        begin, end, replay = cls.capture_begin, cls.capture_end, cls.replay

        @functools.wraps(begin)
        def began(graph: Any, *args: Any, **kwargs: Any) -> None:
            mode = args[1] if len(args) > 1 else kwargs.get("capture_error_mode", "global")
            with self._aside.told():
                begin(graph, *args, **kwargs)
            recorder.begin_capture(self._tracer.current(self._tracer.device()), CaptureMode.named(mode))
            self._tracer.captured = self._graphs[graph] = []

        @functools.wraps(end)
        def ended(graph: Any) -> None:
            self._tracer.captured = None
            failed = sys.exc_info()[0] is not None
            recorder.end_capture(self._tracer.current(self._tracer.device()), failed=failed)
            with self._aside.told():
                end(graph)

        @functools.wraps(replay)
        def replayed(graph: Any) -> None:
            stream = self._tracer.current(self._tracer.device())
            done = self._replays.get(graph)
            if done is not None:
                # Two replays of one graph never overlap, whatever streams they are on.
                recorder.wait(stream, done, "graph replay")
            recorder.work(stream, "graph replay", list(self._graphs.get(graph, ())))
            with self._aside.told():
                replay(graph)
            if done is None:
                end_of_replay = recorder.loose_event(self._tracer.here(), timing=None, of="graph replay")
                done = self._replays[graph] = end_of_replay.id
            recorder.record(done, stream)

        _replace(cls, capture_begin=began, capture_end=ended, replay=replayed)
