"""cuda-python: the functions of ``cuda.bindings`` wrapped by the rows of the models tables.

The rows say which argument is the stream, the event, the destination and the number of bytes, and what
the call does; there is no second table here.
"""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING, Any

from streamlint.confirm.observe.events import Strides, Touch
from streamlint.confirm.observe.host_access import is_callback_thread
from streamlint.models.copying import explicit_effect
from streamlint.models.cuda_runtime import DISABLE_TIMING_FLAG, NON_BLOCKING_FLAG
from streamlint.models.schema import (
    Allocates,
    Api,
    CaptureEnds,
    CaptureStarts,
    Copies,
    Destroys,
    Effect,
    Framework,
    Frees,
    HostCallback,
    HostWaitsDevice,
    HostWaitsEvent,
    HostWaitsStream,
    NewEvent,
    NewStream,
    OrdersAll,
    Pins,
    Queries,
    ReadsTimes,
    Records,
    StreamWaitsEvent,
    Uses,
)
from streamlint.trace import AllocKind, CaptureMode, Doubt, FreeKind, Mode, Purpose, Space

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from streamlint.confirm.observe.aside import Aside
    from streamlint.confirm.observe.device import Device
    from streamlint.confirm.observe.events import Body, Touched
    from streamlint.confirm.observe.host_functions import HostFunctions
    from streamlint.confirm.observe.recorder import Recorder
    from streamlint.trace import DeviceId, EventId, StreamId

_OPAQUE = frozenset({Doubt.OPAQUE})
_OBSERVED = frozenset({Doubt.OBSERVED})
_REACHED_BY_HOST = (Space.PINNED, Space.MANAGED)
_EXTERNAL = 1


def install(
    module: ModuleType,
    framework: Framework,
    recorder: Recorder,
    device: Device,
    functions: HostFunctions,
    aside: Aside,
) -> None:
    """Wrap each function of ``module`` that the tables know."""
    calls = Calls(recorder, device, functions)
    for api in framework.functions:
        function = getattr(module, api.name, None)
        # A record such as CUlaunchConfig is a type, which other extensions look up as one.
        if function is not None and not isinstance(function, type):
            setattr(module, api.name, _wrapped(function, api, calls, aside))


def _wrapped(function: Callable[..., Any], api: Api, calls: Calls, aside: Aside) -> Callable[..., Any]:
    @functools.wraps(function)
    def traced(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip(api.names, args, strict=False))
        given.update({name: value for name, value in kwargs.items() if name in api.names})
        call = Call(api, given)
        if calls.in_callback(api.name):
            return function(*args, **kwargs)
        for effect in api.effects:
            calls.before(call, effect)
        for name, value in call.instead.items():
            number = api.names.index(name)
            args = (*args[:number], value, *args[number + 1 :]) if number < len(args) else args
            kwargs.update({name: value} if name in kwargs else {})
        with aside.told():
            result = function(*args, **kwargs)
        for effect in api.effects:
            if _succeeded(result):
                calls.after(call, effect, result)
            else:
                calls.refused(call, effect)
        return result

    return traced


class Call:
    """A call of a function of the tables: its row, and its arguments by the names of the row."""

    def __init__(self, api: Api, given: dict[str, Any]) -> None:
        self.name = api.name
        self.given = given
        self.instead: dict[str, int] = {}
        """What is to be handed over in the place of parameters."""

    def number(self, *names: str | None) -> int:
        """The number of the first of these parameters that was given: runtime and driver name them apart."""
        values = (self._value(name) for name in names if name is not None)
        return next((address_of(value) for value in values if value is not None), 0)

    def _value(self, name: str) -> Any:
        """A parameter, or a field of one: ``config.hStream``."""
        record, _, field = name.partition(".")
        value = self.given.get(record)
        return getattr(value, field, None) if field else value

    def flags(self) -> int:
        return self.number("flags", "Flags")

    def bytes(self) -> int:
        """The size of an allocation; 0 for one in rows."""
        return self.number("size", "bytesize")

    def height(self) -> int:
        return self.number("height", "Height")

    def ends(self, name: str) -> Iterator[tuple[int, int, Strides | None]]:
        """Where the call touches memory at ``name``: the address, the bytes to the last one, the rows if any.

        ``name`` is a parameter, a list of addresses beside a list of sizes, or fields of a record
        (``"p.dstPtr/dstArray"``).
        """
        record, _, fields = name.partition(".")
        value = self.given.get(record)
        if fields:
            yield from _in_record(value, fields.split("/"))
        elif isinstance(value, list | tuple):
            sizes = self.given.get("sizes", ())
            yield from ((address_of(one), size, None) for one, size in zip(value, sizes, strict=False))
        elif value is not None:
            yield address_of(value), *self._extent(name)

    def _extent(self, name: str) -> tuple[int, Strides | None]:
        width, height = self.number("width", "Width") * self._element(), self.height()
        if not height:
            return self.number("count", "ByteCount") or self.number("N") * self._element(), None
        pitch = self.number(*{"dst": ("dpitch",), "src": ("spitch",)}.get(name, ("pitch", "dstPitch")))
        span = pitch * (height - 1) + width
        return span, None if pitch <= width else Strides(pitch, 0, width)

    def _element(self) -> int:
        """The bytes of an element: ``cuMemsetD32Async`` counts elements of 32 bits."""
        digits = self.name.rpartition("D")[2].removesuffix("Async")
        return int(digits) // 8 if digits.isdecimal() else 1

    def position(self, name: str) -> int:
        return list(self.given).index(name) if name in self.given else -2


class Calls:
    """Carries out effects: what a call queues when it is made, what it gives when it returned."""

    def __init__(self, recorder: Recorder, device: Device, functions: HostFunctions) -> None:
        self._recorder = recorder
        self._device = device
        self._functions = functions
        self._last: Body | None = None
        """Of the host function that was queued last."""

    def in_callback(self, name: str) -> bool:
        """Whether a thread of the driver calls, for a host callback; such calls are noted here."""
        if self._last is None or not is_callback_thread():
            return False
        self._recorder.call(name, lane=(self._functions.running() or self._last).lane)
        return True

    # ------------------------------------------------------------------ effects

    def before(self, call: Call, effect: Effect) -> None:
        recorder = self._recorder
        match effect:
            case StreamWaitsEvent() | Records() if recorder.capturing and call.flags() == _EXTERNAL:
                # A node of the graph: it orders the graph's work when it is launched.
                pass
            case StreamWaitsEvent(event=event, stream=stream):
                recorder.wait(self._stream(call, stream), self._event(call, event), call.name)
            case Records(event=event, stream=stream):
                recorder.record(self._event(call, event), self._stream(call, stream))
            case HostWaitsStream(stream=stream):
                recorder.sync_stream(self._stream(call, stream), call.name)
            case HostWaitsEvent(event=event):
                recorder.sync_event(self._event(call, event), call.name)
            case HostWaitsDevice():
                recorder.sync_device(self._here(), call.name)
            case Copies():
                self._copy(call, effect)
            case Uses():
                self._use(call, effect)
            case HostCallback():
                self._late(call, effect)
                self._last = recorder.callback(self._stream(call, effect.stream), call.name)
                self._functions.queue(self._last)
            case ReadsTimes(start=start, end=end):
                recorder.call(call.name, times=(self._event(call, start), self._event(call, end)))
            case Queries(of=of):
                is_stream = _is_stream(of)
                recorder.call(
                    call.name,
                    stream=self._stream(call, of) if is_stream else None,
                    event=None if is_stream else self._event(call, of),
                )
            case CaptureEnds(stream=stream):
                recorder.end_capture(self._stream(call, stream))
            case Frees(buffer=buffer, stream=stream, later=False):
                on = None if stream is None else self._stream(call, stream)
                freed = recorder.blocks.get(call.number(buffer))
                if effect.device_wide and (freed is None or freed.stream is None):
                    # Observed, not promised; cudaFree of cudaMallocAsync memory does not wait (measured).
                    recorder.sync_device(self._here(), call.name, Purpose.ASIDE, _OBSERVED)
                recorder.died(call.number(buffer), FreeKind.EXPLICIT, on, call.name)
            case Destroys(what=what) if _is_stream(what):
                recorder.destroy_stream(call.number(what), self._here())
            case Destroys(what=event):
                recorder.destroy_event(call.number(event))
            case OrdersAll():
                # Memory is waited for, or written for others that wait: nothing is said across.
                recorder.sync_device(self._here(), call.name, Purpose.ASIDE)
            case _:
                pass

    def after(self, call: Call, effect: Effect, result: Any) -> None:
        recorder = self._recorder
        match effect:
            case NewStream(kind=kind, flag=flag, flag_kind=flag_kind):
                made = flag_kind if call.number(flag) & NON_BLOCKING_FLAG else kind
                recorder.made_stream(address_of(result[1]), self._here(), made)
            case NewEvent(untimed=untimed):
                timing = not call.number(untimed) & DISABLE_TIMING_FLAG
                recorder.made_event(address_of(result[1]), self._here(), timing=timing)
            case Allocates(space=space, stream=stream, queued=queued):
                on = None if stream is None else self._stream(call, stream)
                size = call.bytes() or _pitched(call, result)
                block = recorder.born(address_of(result[1]), size, space, self._here(), on, name=call.name)
                block.kind = AllocKind.QUEUED if queued else AllocKind.CALL
            case Pins(buffer=buffer):
                address = call.number(buffer)
                block = recorder.born(address, call.bytes(), Space.PINNED, self._here(), name=call.name)
                block.kind = AllocKind.CALL
            case Queries(of=of) if int(result[0]) == 0:
                if _is_stream(of):
                    recorder.sync_stream(self._stream(call, of), call.name, Purpose.ANSWER)
                else:
                    recorder.sync_event(self._event(call, of), call.name, Purpose.ANSWER)
            case CaptureStarts(stream=stream):
                mode = CaptureMode.named(call.number("mode") or 0)
                recorder.begin_capture(self._stream(call, stream), mode)
            case _:
                pass

    def refused(self, call: Call, effect: Effect) -> None:
        """The call failed: an allocation is not permitted in a capture, and still is what was tried."""
        if isinstance(effect, Allocates) and effect.stream is None and self._recorder.capturing:
            self._recorder.refused_allocation(effect.space, self._here(), call.name)

    def _late(self, call: Call, effect: HostCallback) -> None:
        """Have the host function begin late, which is known by its address here."""
        address = call.number(effect.function)
        if address:
            # The deprecated kind of them gets a status.
            late = self._functions.late_address(address, status=effect.deprecated)
            call.instead[effect.function] = late

    # ------------------------------------------------------------------ arguments

    def _here(self) -> DeviceId:
        return self._device.current()

    def _stream(self, call: Call, name: str | None) -> StreamId:
        return self._recorder.stream(call.number(name), self._here())

    def _event(self, call: Call, name: str) -> EventId:
        return self._recorder.event(call.number(name), self._here())

    def _copy(self, call: Call, effect: Copies) -> None:
        source = next(self._touched(call, effect.src, Mode.READ), None)
        target = next(self._touched(call, effect.dst, Mode.WRITE), None)
        if source is None or target is None:
            return
        how = explicit_effect(target.block.space, source.block.space, blocking=effect.blocking)
        self._recorder.move(self._stream(call, effect.stream), call.name, source, target, how)

    def _touched(self, call: Call, name: str, mode: Mode) -> Iterator[Touch]:
        for address, span, rows in call.ends(name):
            if not address or not span:
                continue
            block = self._recorder.find(address)
            if block is None:
                space, start, length = self._device.memory(address)
                block = self._recorder.unseen(start, length or span, space, self._here())
            lo = address - block.start
            strides = None if rows is None else rows._replace(column=lo % rows.pitch)
            yield Touch(block, mode, lo, lo + span, strides, operand=call.position(name.partition(".")[0]))

    def _use(self, call: Call, effect: Uses) -> None:
        touches: list[Touched] = []
        for names, mode in (
            (effect.reads, Mode.READ),
            (effect.writes, Mode.WRITE),
            (effect.updates, Mode.UPDATE),
        ):
            touches += [touch for name in names for touch in self._touched(call, name, mode)]
        for name in effect.packed:
            touches += self._packed(call.given.get(name), call.position(name))
        stream = self._stream(call, effect.stream)
        self._recorder.work(stream, call.name, touches)
        if effect.host_waits and any(touch[0].space in _REACHED_BY_HOST for touch in touches):
            self._recorder.sync_stream(stream, call.name, Purpose.ASIDE)

    def _packed(self, arguments: Any, position: int) -> list[Touch]:
        """Kernel arguments, ``((a, b), (c_void_p, c_int))``: addresses of known blocks are used in whole."""
        if not isinstance(arguments, tuple) or not arguments or not isinstance(arguments[0], tuple):
            return []
        touches = []
        for value in arguments[0]:
            try:
                block = self._recorder.find(address_of(value))
            except (TypeError, ValueError):
                continue
            if block is not None:
                touches.append(Touch(block, Mode.UPDATE, 0, block.size, operand=position, doubts=_OPAQUE))
        return touches


def address_of(value: Any) -> int:
    """The number behind a handle, a pointer, a flag, or an object with memory."""
    if isinstance(value, int):
        return value
    for attribute in ("value", "ctypes"):
        inner = getattr(value, attribute, None)
        if attribute == "ctypes" and inner is not None:
            return int(inner.data)
        if isinstance(inner, int):
            return inner
    try:
        return int(value)
    except (TypeError, ValueError):
        pass
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(value))
    except (TypeError, ValueError):
        return 0


def _in_record(record: Any, fields: list[str]) -> Iterator[tuple[int, int, Strides | None]]:
    """The end of a copy that a record describes: ``CUDA_MEMCPY2D`` with pitches, a 3D one in whole."""
    for field in fields:
        value = getattr(record, field, None)
        pointer = getattr(value, "ptr", value)
        address = 0 if pointer is None else address_of(pointer)
        if not address:
            continue
        if hasattr(record, "WidthInBytes"):
            width, height = int(record.WidthInBytes), max(1, int(record.Height))
            pitch = int(getattr(record, f"{field[:3]}Pitch")) or width
            span = pitch * (height - 1) + width
            yield address, span, None if pitch <= width else Strides(pitch, 0, width)
        else:
            extent = record.extent
            yield address, int(extent.width) * int(extent.height) * int(extent.depth), None
        return


def _is_stream(parameter: str) -> bool:
    """``stream`` of the runtime, ``hStream`` of the driver."""
    return parameter.lower().endswith("stream")


def _succeeded(result: Any) -> bool:
    return isinstance(result, tuple) and bool(result) and int(result[0]) in (0, 600)


def _pitched(call: Call, result: Any) -> int:
    """The size of an allocation in rows: the pitch is the last result."""
    return int(result[-1]) * call.height()
