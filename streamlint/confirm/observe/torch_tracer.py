"""PyTorch's operators, as a dispatch mode sees them: which memory they read, write, allocate and copy."""

from __future__ import annotations

import functools
import weakref
from threading import get_ident
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from streamlint.confirm.observe.events import Touch
from streamlint.confirm.observe.layout import layout
from streamlint.confirm.observe.torch_collectives import Collectives
from streamlint.confirm.observe.torch_ops import Operator, Special, is_view, operator_of
from streamlint.models.copying import host_effect
from streamlint.models.schema import Lib
from streamlint.trace import Doubt, FreeKind, HostEffect, Mode, Purpose, Space

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from streamlint.confirm.observe.events import Block, Place, Touched
    from streamlint.confirm.observe.recorder import Recorder
    from streamlint.trace import DeviceId, StreamId

_Tensor = torch.Tensor
_NO_DOUBT: frozenset[Doubt] = frozenset()
_LIBRARY = Lib.TORCH.product
_POOL = "PyTorch's pool of pinned memory"
"""It hands a page out again when PyTorch's own copies are done (measured), and knows of no others."""

_DEVICE = Space.DEVICE


class Known(NamedTuple):
    """What is known of an operator from its first call on."""

    call: Callable[..., Any]
    operator: Operator | None
    is_view: bool
    func: Any
    """Kept alive, because operators are found by their identity: the hash of one is a function in Python."""


class Tracer:
    """Tells the recorder what operators do to memory."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.known: dict[int, Known] = {}
        self._blocks = recorder.blocks
        self._hosts: dict[int, Block] = {}
        """Host memory that a copy between host and device has used, by address, as long as it lives."""
        self._followed = 0
        """So many blocks of host memory have been among these."""
        self._storages: dict[int, weakref.ref[Any]] = {}
        self.devices = [str(number) for number in range(64)]
        self.under_way: dict[int, tuple[Place, int, int, StreamId]] = {}
        """By thread: where the operator is that it runs, its stream by handle, device and number. To look for
        that for each block takes longer than all else that is told of it."""
        self.captured: list[Touched] | None = None
        """What the graph that is being captured touches."""
        self.raw_stream: Callable[[int], int] = torch._C._cuda_getCurrentRawStream
        self.device: Callable[[], int] = torch._C._cuda_getDevice
        self.collectives = Collectives(recorder, self._touch, self.current)

    # ------------------------------------------------------------------ operators

    def learn(self, func: Any) -> Known:
        schema = func._schema
        # An overload calls this by way of a function in Python.
        call = func._op if type(func) is torch._ops.OpOverload else func
        known = self.known[id(func)] = Known(call, operator_of(schema), is_view(schema), func)
        return known

    def run(self, known: Known, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        call, operator, _, _ = known
        if operator is None:
            return call(*args, **kwargs)
        if operator.special is not Special.NONE:
            done, result = self._special(operator, call, args, kwargs)
            if done:
                return result
        touches: list[Touched] = []
        device = self._inputs(operator, args, kwargs, touches)
        if device >= 0:
            handle = self.raw_stream(device)
            stream = self.recorder.stream(handle, self.devices[device])
            work = self.recorder.work(stream, operator.name, touches)
            self.under_way[get_ident()] = work.place, handle, device, stream
            result = call(*args, **kwargs)
        else:
            # The results of a factory tell its device.
            result = call(*args, **kwargs)
            device = _device_of(result)
            if device >= 0:
                self.recorder.work(self.current(device), operator.name, touches)
            elif operator.name == "_pin_memory" or kwargs.get("pin_memory"):
                self._follow_page(result)
        if operator.fills_result and device >= 0:
            self._touch_all((result,) if isinstance(result, _Tensor) else result, Mode.WRITE, -1, touches)
        if self.captured is not None:
            self.captured += touches
        return result

    def _inputs(
        self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], touches: list[Touched]
    ) -> int:
        """Collect what is touched; returns a device that is among the arguments, or -1."""
        device, count = -1, len(args)
        host: list[Touched] | None = None
        touch_all = self._touch_all
        for number, mode in operator.positional:
            if number >= count:
                break
            value = args[number]
            if isinstance(value, _Tensor):
                left = touch_all((value,), mode, number, touches)
                if device < 0:
                    device = value.get_device()
            elif isinstance(value, (list, tuple)):
                left = touch_all(value, mode, number, touches)
                if device < 0:
                    device = _device_of(value)
            else:
                continue
            if left is not None:
                host = self._on_host(left, mode, number, host)
        if kwargs:
            for name, mode in operator.keywords:
                value = kwargs.get(name)
                if value is not None:
                    some = (value,) if isinstance(value, _Tensor) else _tensors(value)
                    left = touch_all(some, mode, -2, touches)
                    if left is not None:
                        host = self._on_host(left, mode, -2, host)
                    if device < 0:
                        device = _device_of(value)
        if host:
            self.recorder.host(operator.name, host)
        return device

    def _touch_all(
        self, tensors: Iterable[Any], mode: Mode, operand: int, touches: list[Touched]
    ) -> list[Any] | None:
        """Note what is on a device; returns tensors in host memory, if there are any.

        This runs for each tensor of each operator. Nearly all of them are the whole of their memory.
        """
        left: list[Any] | None = None
        blocks = self._blocks
        for tensor in tensors:
            try:
                address = tensor.data_ptr()
            except (RuntimeError, AttributeError):  # a tensor without memory of its own; something else
                continue
            block = blocks.get(address)
            if block is not None and block.space is _DEVICE:
                if tensor.is_contiguous():
                    size = tensor.nbytes
                    if size > block.size:  # noqa: PLR1730  max() is a call
                        # The caching allocator tells no size.
                        block.size = size
                    if size:
                        touches.append((block, mode, 0, size, None, operand, _NO_DOUBT))
                else:
                    _append(touches, tensor, block, mode, 0, operand)
            elif not tensor.is_cuda:
                if self._knows_host_memory():
                    left = [tensor] if left is None else [*left, tensor]
            elif address:
                block = block or self._block_around(tensor, address)
                _append(touches, tensor, block, mode, address - block.start, operand)
        return left

    def _on_host(
        self, tensors: list[Any], mode: Mode, operand: int, host: list[Touched] | None
    ) -> list[Touched]:
        host = [] if host is None else host
        for tensor in tensors:
            self._touch_host(tensor, mode, operand, host)
        return host

    def _touch(self, tensor: Any, mode: Mode, operand: int, touches: list[Touched]) -> None:
        self._touch_all((tensor,), mode, operand, touches)

    def _block_around(self, tensor: Any, address: int) -> Block:
        """The block of a view that begins in the middle of it."""
        start = address - tensor.storage_offset() * tensor.element_size()
        block = self._blocks.get(start) or self.recorder.find(start)
        if block is None:
            block = self.recorder.unseen(start, 0, Space.DEVICE, self.devices[tensor.get_device()])
        return block

    def current(self, device: int) -> StreamId:
        return self.recorder.stream(self.raw_stream(device), self.devices[device])

    def stream(self, stream: Any) -> StreamId:
        """The stream of an object of ``torch.cuda.Stream``, or of the generic class."""
        if not hasattr(stream, "cuda_stream"):
            kind = {"device_index": stream.device_index, "device_type": stream.device_type}
            stream = torch.cuda.Stream(stream_id=stream.stream_id, **kind)
        return self.recorder.stream(stream.cuda_stream, self.devices[stream.device_index])

    def here(self) -> DeviceId:
        return self.devices[self.device()]

    # ------------------------------------------------------------------ operators that are more than work

    def _special(
        self, operator: Operator, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[bool, Any]:
        """Handles the operator if it is more than device work here; false otherwise."""
        match operator.special:
            case Special.ITEM:
                if args[0].is_cuda:
                    return True, self._item(func, args, kwargs)
                # An optimizer asks each of its counters of steps, which no copy has ever used.
                self.read_by_host(args[0], operator.name)
                return True, func(*args, **kwargs)
            case Special.COLLECTIVE:
                return True, self.collectives.run(operator, func, args, kwargs)
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
        touches: list[Touched] = []
        self._touch(args[0], Mode.READ, 0, touches)
        stream = self.current(args[0].get_device())
        self.recorder.work(stream, "item()", touches)
        result = func(*args, **kwargs)
        self.recorder.sync_stream(stream, "item()", Purpose.VALUES)
        return result

    def _keep(self, tensor: Any, stream: Any) -> None:
        block = self.recorder.find(tensor.data_ptr()) if tensor.is_cuda else None
        if block is not None:
            self.recorder.keep(block, self.stream(stream))

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
        move = self.recorder.move(
            self.current(number),
            "copy",
            self._end(source, Mode.READ, 1 if target is not None else 0),
            None if target is None else self._end(target, Mode.WRITE, 0),
            HostEffect.ASYNC if target is None else _effect(target, source, blocking=blocking),
            _LIBRARY,
        )
        result = func(*args, **kwargs)
        if target is None:
            move.target = self._end(result, Mode.WRITE, -1)
            move.effect = _effect(result, source, blocking=blocking)
        if self.captured is not None:
            self.captured += [end for end in (move.source, move.target) if end is not None]
        return result

    def _between_devices(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], target: Any, source: Any
    ) -> Any:
        """PyTorch orders a copy between devices with the current streams of both (measured)."""
        there = target.get_device() if target is not None else _index(torch.device(kwargs["device"]))
        reading, writing = self.current(source.get_device()), self.current(there)
        touches: list[Touched] = []
        self._touch(source, Mode.READ, 0, touches)
        self.recorder.order(writing, reading, self.devices[there], "a copy between devices")
        self.recorder.work(reading, "copy", touches)
        result = func(*args, **kwargs)
        self._touch(target if target is not None else result, Mode.WRITE, -1, touches)
        self.recorder.order(reading, writing, self.devices[there], "a copy between devices")
        return result

    def _end(self, tensor: Any, mode: Mode, operand: int) -> Touch | None:
        touches: list[Touched] = []
        if tensor.is_cuda:
            self._touch(tensor, mode, operand, touches)
        else:
            self._follow_host(tensor)
            self._touch_host(tensor, mode, operand, touches)
        return Touch(*touches[0]) if touches else None

    # ------------------------------------------------------------------ host memory

    def _knows_host_memory(self) -> bool:
        """Whether a copy has used some: one of PyTorch, or ``cudaMemcpyAsync(page.data_ptr(), ...)``."""
        return bool(self._hosts) or self.recorder.host_blocks > self._followed

    def _follow_host(self, tensor: Any) -> None:
        start = tensor.data_ptr() - tensor.storage_offset() * tensor.element_size()
        if not start or start in self._hosts or self.recorder.find(start) is not None:
            return
        storage = tensor.untyped_storage()
        space = Space.PINNED if tensor.is_pinned() else Space.PAGEABLE
        self._follow(self.recorder.unseen(start, storage.nbytes(), space, "cpu"), storage)

    def _follow_page(self, page: Any) -> None:
        """A new page of the pool of pinned memory."""
        start = page.data_ptr()
        if start and start not in self._hosts:
            storage = page.untyped_storage()
            block = self.recorder.born(start, storage.nbytes(), Space.PINNED, "cpu")
            block.pool, block.pool_awaits = _POOL, _LIBRARY
            self._follow(block, storage)

    def _follow(self, block: Block, storage: Any) -> None:
        self._followed += 1
        self._hosts[block.start] = block
        self._storages[block.start] = weakref.ref(storage, functools.partial(self._host_gone, block))

    def _host_gone(self, block: Block, _: object) -> None:
        self._hosts.pop(block.start, None)
        self._storages.pop(block.start, None)
        if block.pool is None:
            self.recorder.forget_block(block)
        else:
            self.recorder.died(block.start, FreeKind.DROPPED, name="last reference")

    def _touch_host(self, tensor: Any, mode: Mode, operand: int, touches: list[Touched]) -> None:
        address = tensor.data_ptr()
        start, offset = address, tensor.storage_offset()
        if offset:
            start -= offset * tensor.element_size()
        block = self._hosts.get(start)
        if block is None and self.recorder.host_blocks > self._followed:
            block = self.recorder.find(start)
        if block is not None and address:
            _append(touches, tensor, block, mode, address - block.start, operand)

    def read_by_host(self, tensor: Any, name: str) -> None:
        """A value of host memory goes to Python without an operator."""
        if not tensor.is_cuda and self._knows_host_memory():
            touches: list[Touched] = []
            self._touch_host(tensor, Mode.READ, 0, touches)
            if touches:
                self.recorder.host(name, touches)


# ----------------------------------------------------------------------------- tensors


def _tensors(value: Any) -> Iterable[Any]:
    """The tensors in a list or tuple argument."""
    if isinstance(value, (list, tuple)):
        return [item for item in value if isinstance(item, _Tensor)]
    return ()


def _device_of(value: Any) -> int:
    """The device of the first tensor on one, or -1."""
    for tensor in (value,) if isinstance(value, _Tensor) else _tensors(value):
        if tensor.is_cuda:
            return int(tensor.get_device())
    return -1


def _append(touches: list[Touched], tensor: Any, block: Block, mode: Mode, lo: int, operand: int) -> None:
    strides = None
    if tensor.is_contiguous():
        hi = lo + tensor.nbytes
    elif tensor.numel():
        span, strides = layout(tuple(tensor.shape), tensor.stride(), tensor.element_size(), lo)
        hi = lo + span
    else:
        return
    if hi > lo:
        block.size = max(block.size, hi)  # the caching allocator tells no size
        touches.append((block, mode, lo, hi, strides, operand, _NO_DOUBT))


def _is_elsewhere(source: Any, device: torch.device) -> bool:
    if source.is_cuda and device.type == "cuda":
        return bool(_index(device) != source.get_device())
    return bool(source.is_cuda != (device.type == "cuda"))


def _index(device: torch.device) -> int:
    return int(torch.cuda.current_device()) if device.index is None else device.index


def _space(tensor: Any) -> Space:
    if tensor.is_cuda:
        return Space.DEVICE
    return Space.PINNED if tensor.is_pinned() else Space.PAGEABLE


def _effect(target: Any, source: Any, *, blocking: bool) -> HostEffect:
    return host_effect(_space(target), _space(source), blocking=blocking)
