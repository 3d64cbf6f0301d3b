"""PyTorch: operators through a dispatch mode, streams, events and memory through PyTorch's own trace callbacks.

The callbacks (``torch.cuda._gpu_trace``) are those that PyTorch's CUDA sanitizer uses. They tell of every
record, wait and synchronization that goes through PyTorch, and of the caching allocator. What they do not
tell is wrapped: waits for events that were never recorded, queries, graph captures, and values that a
tensor in host memory gives to Python without an operator.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch.cuda import _gpu_trace
from torch.utils._python_dispatch import TorchDispatchMode

from streamlint.confirm.observe.events import Block, Strides, Touch
from streamlint.confirm.observe.torch_ops import Operator, Special, operator_of
from streamlint.models.copying import host_effect
from streamlint.trace import FreeKind, HostEffect, Mode, Space

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from streamlint.confirm.observe.recorder import EventInfo, Recorder
    from streamlint.trace import DeviceId, StreamId

_UNKNOWN = object()


def install(recorder: Recorder) -> None:
    """Trace PyTorch from now on, in this thread and in threads that are started later."""
    tracer = _Tracer(recorder)
    tracer.register()
    tracer.patch()
    _Mode(tracer).__enter__()
    _follow_threads(tracer)


class _Mode(TorchDispatchMode):
    def __init__(self, tracer: _Tracer) -> None:
        super().__init__()
        self._dispatch = tracer.dispatch

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return self._dispatch(func, args, kwargs or {})


def _follow_threads(tracer: _Tracer) -> None:
    """A dispatch mode holds for one thread: enter it in each new one."""
    start = threading.Thread.start

    @functools.wraps(start)
    def traced(thread: threading.Thread) -> None:
        run = thread.run

        def with_mode() -> None:
            with _Mode(tracer):
                run()

        thread.run = with_mode  # type: ignore[method-assign]
        start(thread)

    threading.Thread.start = traced  # type: ignore[method-assign]


class _Tracer:
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._operators: dict[Any, Operator | None] = {}
        self._hosts: dict[int, Block] = {}
        """Host memory that a copy between host and device has used, by address, as long as it lives."""
        self._storages: dict[int, weakref.ref[Any]] = {}
        self._devices = [str(number) for number in range(64)]
        self._creating: EventInfo | None = None
        self._captured: list[Touch] | None = None
        self._graphs: weakref.WeakKeyDictionary[Any, list[Touch]] = weakref.WeakKeyDictionary()
        self._raw_stream: Callable[[int], int] = torch._C._cuda_getCurrentRawStream
        self._device: Callable[[], int] = torch._C._cuda_getDevice

    # ------------------------------------------------------------------ operators

    def dispatch(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        operator = self._operators.get(func, _UNKNOWN)
        if operator is _UNKNOWN:
            operator = self._operators[func] = operator_of(func._schema)
        if not isinstance(operator, Operator):
            return func(*args, **kwargs)
        if operator.special is not Special.NONE:
            done, result = self._special(operator, func, args, kwargs)
            if done:
                return result
        touches: list[Touch] = []
        device = self._inputs(operator, args, kwargs, touches)
        if device >= 0:
            self._recorder.work(self._current(device), operator.name, touches)
            result = func(*args, **kwargs)
        else:
            # The results of a factory tell its device.
            result = func(*args, **kwargs)
            device = _device_of(result)
            if device >= 0:
                self._recorder.work(self._current(device), operator.name, touches)
        if operator.fills_result and device >= 0:
            self._results(result, touches)
        if self._captured is not None:
            self._captured += touches
        return result

    def _inputs(
        self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], touches: list[Touch]
    ) -> int:
        """Collect what is touched; returns a device that is among the arguments, or -1."""
        device = -1
        number = -1
        host: list[Touch] = []
        for value, mode in zip(args, operator.positional, strict=False):
            number += 1
            if mode is None:
                continue
            for tensor in (value,) if isinstance(value, torch.Tensor) else _tensors(value):
                if tensor.is_cuda:
                    device = tensor.get_device() if device < 0 else device
                    self._touch(tensor, mode, number, touches)
                elif self._hosts:
                    self._touch_host(tensor, mode, number, host)
        for key, value in kwargs.items():
            mode = operator.keywords.get(key)
            if mode is None:
                continue
            for tensor in (value,) if isinstance(value, torch.Tensor) else _tensors(value):
                if tensor.is_cuda:
                    device = tensor.get_device() if device < 0 else device
                    self._touch(tensor, mode, -2, touches)
                elif self._hosts:
                    self._touch_host(tensor, mode, -2, host)
        if host:
            self._recorder.host(operator.name, host)
        return device

    def _results(self, result: Any, touches: list[Touch]) -> None:
        for tensor in (result,) if isinstance(result, torch.Tensor) else _tensors(result):
            if tensor.is_cuda:
                self._touch(tensor, Mode.WRITE, -1, touches)

    def _touch(self, tensor: Any, mode: Mode, operand: int, touches: list[Touch]) -> None:
        try:
            address = tensor.data_ptr()
        except RuntimeError:  # a tensor without memory of its own, such as a sparse one
            return
        if not address:
            return
        block = self._recorder.blocks.get(address)
        if block is None:
            start = address - tensor.storage_offset() * tensor.element_size()
            block = self._recorder.blocks.get(start) or self._recorder.find(start)
            if block is None:
                block = self._recorder.unseen(start, 0, Space.DEVICE, self._devices[tensor.get_device()])
        touches.append(_touch_of(tensor, block, mode, address - block.start, operand))

    def _current(self, device: int) -> StreamId:
        return self._recorder.stream(self._raw_stream(device), self._devices[device])

    # ------------------------------------------------------------------ operators that are more than work

    def _special(
        self, operator: Operator, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[bool, Any]:
        """Handles the operator if it is more than device work here; false otherwise."""
        match operator.special:
            case Special.ITEM if args[0].is_cuda:
                return True, self._item(func, args, kwargs)
            case Special.KEEP:
                self._keep(args[0], args[1] if len(args) > 1 else kwargs["s"])
                return True, func(*args, **kwargs)
            case Special.COPY:
                source = args[1] if len(args) > 1 else kwargs["src"]
                blocking = not (args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
                if args[0].device != source.device and (args[0].is_cuda or source.is_cuda):
                    return True, self._copy(func, args, kwargs, args[0], source, blocking=blocking)
            case Special.TO:
                source, device = args[0], kwargs.get("device")
                blocking = not kwargs.get("non_blocking", False)
                if device is not None and _is_elsewhere(source, torch.device(device)):
                    return True, self._copy(func, args, kwargs, None, source, blocking=blocking)
        return False, None

    def _item(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``x.item()`` waits for the current stream, and for no other (measured)."""
        touches: list[Touch] = []
        self._touch(args[0], Mode.READ, 0, touches)
        stream = self._current(args[0].get_device())
        self._recorder.work(stream, "item()", touches)
        result = func(*args, **kwargs)
        self._recorder.sync_stream(stream, "item()")
        return result

    def _keep(self, tensor: Any, stream: Any) -> None:
        block = self._recorder.find(tensor.data_ptr()) if tensor.is_cuda else None
        if block is not None:
            self._recorder.keep(block, self._stream(stream))

    def _copy(
        self,
        func: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        target: Any,  # None: the result of the operator
        source: Any,
        *,
        blocking: bool,
    ) -> Any:
        to_cuda = target.is_cuda if target is not None else torch.device(kwargs["device"]).type == "cuda"
        if to_cuda and source.is_cuda:
            return self._between_devices(func, args, kwargs, target, source)
        on = source if source.is_cuda else target
        number = _index(torch.device(kwargs["device"])) if on is None else on.get_device()
        move = self._recorder.move(
            self._current(number),
            "copy",
            self._end(source, Mode.READ, 1 if target is not None else 0),
            None if target is None else self._end(target, Mode.WRITE, 0),
            HostEffect.ASYNC if target is None else _effect(target, source, blocking=blocking),
        )
        result = func(*args, **kwargs)
        if target is None:
            move.target = self._end(result, Mode.WRITE, -1)
            move.effect = _effect(result, source, blocking=blocking)
        return result

    def _between_devices(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], target: Any, source: Any
    ) -> Any:
        """PyTorch orders a copy between devices with the current streams of both (measured)."""
        there = target.get_device() if target is not None else _index(torch.device(kwargs["device"]))
        reading, writing = self._current(source.get_device()), self._current(there)
        touches: list[Touch] = []
        self._touch(source, Mode.READ, 0, touches)
        self._recorder.order(writing, reading, self._devices[there], "a copy between devices")
        self._recorder.work(reading, "copy", touches)
        result = func(*args, **kwargs)
        self._touch(target if target is not None else result, Mode.WRITE, -1, touches)
        self._recorder.order(reading, writing, self._devices[there], "a copy between devices")
        return result

    def _end(self, tensor: Any, mode: Mode, operand: int) -> Touch | None:
        touches: list[Touch] = []
        if tensor.is_cuda:
            self._touch(tensor, mode, operand, touches)
        else:
            self._follow_host(tensor)
            self._touch_host(tensor, mode, operand, touches)
        return touches[0] if touches else None

    # ------------------------------------------------------------------ host memory

    def _follow_host(self, tensor: Any) -> None:
        start = tensor.data_ptr() - tensor.storage_offset() * tensor.element_size()
        if not start or start in self._hosts or self._recorder.find(start) is not None:
            return
        storage = tensor.untyped_storage()
        space = Space.PINNED if tensor.is_pinned() else Space.PAGEABLE
        block = self._hosts[start] = self._recorder.unseen(start, storage.nbytes(), space, "cpu")
        self._storages[start] = weakref.ref(storage, functools.partial(self._host_gone, block))

    def _host_gone(self, block: Block, _: object) -> None:
        # The allocator of pinned memory hands it out again only when the copies that use it are done (measured).
        self._hosts.pop(block.start, None)
        self._storages.pop(block.start, None)
        self._recorder.forget_block(block)

    def _touch_host(self, tensor: Any, mode: Mode, operand: int, touches: list[Touch]) -> None:
        address = tensor.data_ptr()
        start = address - tensor.storage_offset() * tensor.element_size()
        block = self._hosts.get(start) or self._recorder.find(start)
        if block is not None and address:
            touches.append(_touch_of(tensor, block, mode, address - block.start, operand))

    def read_by_host(self, tensor: Any, name: str) -> None:
        """A value of host memory goes to Python without an operator."""
        if self._hosts and not tensor.is_cuda:
            touches: list[Touch] = []
            self._touch_host(tensor, Mode.READ, 0, touches)
            if touches:
                self._recorder.host(name, touches)

    # ------------------------------------------------------------------ callbacks

    def register(self) -> None:
        torch._C._activate_gpu_trace()
        _gpu_trace.register_callback_for_event_creation(self._event_created)
        _gpu_trace.register_callback_for_event_deletion(self._recorder.forget_event)
        _gpu_trace.register_callback_for_event_record(self._event_recorded)
        _gpu_trace.register_callback_for_event_wait(self._event_waited)
        _gpu_trace.register_callback_for_memory_allocation(self._allocated)
        _gpu_trace.register_callback_for_memory_deallocation(self._freed)
        _gpu_trace.register_callback_for_device_synchronization(self._device_synchronized)
        _gpu_trace.register_callback_for_stream_synchronization(self._stream_synchronized)
        _gpu_trace.register_callback_for_event_synchronization(self._event_synchronized)

    def _here(self) -> DeviceId:
        return self._devices[self._device()]

    def _event_created(self, handle: int) -> None:
        self._recorder.bind_event(handle, self._here(), self._creating)
        self._creating = None

    def _event_recorded(self, event: int, stream: int) -> None:
        here = self._here()
        self._recorder.record(self._recorder.event(event, here), self._recorder.stream(stream, here))

    def _event_waited(self, event: int, stream: int) -> None:
        here = self._here()
        self._recorder.wait(self._recorder.stream(stream, here), self._recorder.event(event, here))

    def _event_synchronized(self, event: int) -> None:
        self._recorder.sync_event(self._recorder.event(event, self._here()))

    def _stream_synchronized(self, stream: int) -> None:
        self._recorder.sync_stream(self._recorder.stream(stream, self._here()))

    def _device_synchronized(self) -> None:
        self._recorder.sync_device(self._here())

    def _allocated(self, address: int) -> None:
        number = self._device()
        self._recorder.born(address, 0, Space.DEVICE, self._devices[number], self._current(number))

    def _freed(self, address: int) -> None:
        self._recorder.died(address, FreeKind.DROPPED, name="last reference")

    # ------------------------------------------------------------------ wrapped methods

    def patch(self) -> None:
        self._patch_events()
        self._patch_streams()
        self._patch_graphs()
        self._patch_host_read()

    def _patch_host_read(self) -> None:
        method = torch.Tensor.tolist

        @functools.wraps(method)
        def traced(tensor: Any) -> Any:
            self.read_by_host(tensor, "tolist()")
            return method(tensor)

        torch.Tensor.tolist = traced  # type: ignore[method-assign]

    def _patch_streams(self) -> None:
        recorder = self._recorder
        made, query = torch.cuda.Stream.__new__, torch.cuda.Stream.query

        def new(cls: Any, *args: Any, **kwargs: Any) -> Any:
            stream = made(cls, *args, **kwargs)
            if "stream_id" not in kwargs:
                device = self._devices[stream.device_index]
                recorder.made_stream(stream.cuda_stream, device, recorder.where())
            return stream

        @functools.wraps(query)
        def queried(stream: Any) -> bool:
            done = bool(query(stream))
            if done:
                recorder.sync_stream(self._stream(stream), "query")
            return done

        torch.cuda.Stream.__new__ = new  # type: ignore[method-assign,assignment]
        torch.cuda.Stream.query = queried  # type: ignore[method-assign]

    def _stream(self, stream: Any) -> StreamId:
        if not hasattr(stream, "cuda_stream"):
            kind = {"device_index": stream.device_index, "device_type": stream.device_type}
            stream = torch.cuda.Stream(stream_id=stream.stream_id, **kind)
        return self._recorder.stream(stream.cuda_stream, self._devices[stream.device_index])

    def _patch_events(self) -> None:
        recorder, cls = self._recorder, torch.cuda.Event
        made, record, wait = cls.__new__, cls.record, cls.wait
        query, synchronize, elapsed = cls.query, cls.synchronize, cls.elapsed_time

        def new(cls: Any, *args: Any, **kwargs: Any) -> Any:
            event = made(cls, *args, **kwargs)
            timing = bool(args[0] if args else kwargs.get("enable_timing", False))
            name = "the event of wait_stream" if sys._getframe(2).f_code.co_name == "wait_stream" else ""
            event.__dict__["_streamlint"] = recorder.loose_event(self._here_or_first(), timing=timing, name=name)
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
            if not event.cuda_event and known is not None:
                # It was never recorded: PyTorch does nothing, and tells nobody.
                on = self._stream(stream) if stream is not None else self._current(self._device())
                recorder.wait(on, known.id)
            wait(event, stream)

        @functools.wraps(synchronize)
        def synchronized(event: Any) -> None:
            known = info(event)
            if not event.cuda_event and known is not None:
                recorder.sync_event(known.id)
            synchronize(event)

        @functools.wraps(query)
        def queried(event: Any) -> bool:
            done = bool(query(event))
            known = info(event)
            if done and event.cuda_event and known is not None:
                recorder.sync_event(known.id, "query")
            return done

        @functools.wraps(elapsed)
        def timed(event: Any, end: Any) -> float:
            times = tuple(known.id for known in (info(event), info(end)) if known is not None)
            recorder.call("elapsed_time", times=times)
            return float(elapsed(event, end))

        cls.__new__ = new  # type: ignore[method-assign,assignment]
        for method in (recorded, waited, synchronized, queried, timed):
            setattr(cls, method.__name__, method)

    def _here_or_first(self) -> DeviceId:
        return self._here() if torch.cuda.is_initialized() else self._devices[0]

    def _patch_graphs(self) -> None:
        recorder, cls = self._recorder, torch.cuda.CUDAGraph
        begin, end, replay = cls.capture_begin, cls.capture_end, cls.replay

        @functools.wraps(begin)
        def began(graph: Any, *args: Any, **kwargs: Any) -> None:
            mode = args[1] if len(args) > 1 else kwargs.get("capture_error_mode", "global")
            begin(graph, *args, **kwargs)
            recorder.begin_capture(self._current(self._device()), relaxed=mode == "relaxed")
            self._captured = self._graphs[graph] = []

        @functools.wraps(end)
        def ended(graph: Any) -> None:
            self._captured = None
            recorder.end_capture(self._current(self._device()))
            end(graph)

        @functools.wraps(replay)
        def replayed(graph: Any) -> None:
            recorder.work(self._current(self._device()), "graph replay", list(self._graphs.get(graph, ())))
            replay(graph)

        cls.capture_begin, cls.capture_end, cls.replay = began, ended, replayed  # type: ignore[method-assign]


# ----------------------------------------------------------------------------- tensors


def _tensors(value: Any) -> Iterable[Any]:
    """The tensors in a list or tuple argument."""
    if isinstance(value, (list, tuple)):
        return [item for item in value if isinstance(item, torch.Tensor)]
    return ()


def _device_of(result: Any) -> int:
    for tensor in (result,) if isinstance(result, torch.Tensor) else _tensors(result):
        if tensor.is_cuda:
            return int(tensor.get_device())
    return -1


def _touch_of(tensor: Any, block: Block, mode: Mode, lo: int, operand: int) -> Touch:
    if tensor.is_contiguous():
        hi = lo + tensor.nbytes
        strides = None
    else:
        span, strides = layout(tuple(tensor.shape), tensor.stride(), tensor.element_size(), lo)
        hi = lo + span
    if hi > block.size:
        # The caching allocator tells no size.
        block.size = hi
    return Touch(block, mode, lo, hi, strides, operand)


def layout(
    shape: tuple[int, ...], stride: tuple[int, ...], item: int, offset: int
) -> tuple[int, Strides | None]:
    """The bytes from the first to the last of a view, and its columns if it is not dense.

    ``offset`` is the place of its first byte in its block, and ``item`` the size of an element.
    """
    axes = sorted((step * item, count) for step, count in zip(stride, shape, strict=True) if count > 1 and step)
    span = item + sum(step * (count - 1) for step, count in axes)
    width = item
    while axes and axes[0][0] <= width:
        step, count = axes.pop(0)
        width = max(width, step * (count - 1) + width)
    if not axes:
        return span, None
    pitch = axes[0][0]
    column = offset % pitch
    if column + width > pitch or any(step % pitch for step, _ in axes):
        column, width = 0, pitch
    return span, Strides(pitch, column, width)


def _is_elsewhere(source: Any, device: torch.device) -> bool:
    if source.is_cuda and device.type == "cuda":
        return _index(device) != source.get_device()
    return source.is_cuda != (device.type == "cuda")


def _index(device: torch.device) -> int:
    return int(torch.cuda.current_device()) if device.index is None else device.index


def _space(tensor: Any) -> Space:
    if tensor.is_cuda:
        return Space.DEVICE
    return Space.PINNED if tensor.is_pinned() else Space.PAGEABLE


def _effect(target: Any, source: Any, *, blocking: bool) -> HostEffect:
    return host_effect(_space(target), _space(source), blocking=blocking)
