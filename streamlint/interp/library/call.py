"""One call of a row of a table, and what its arguments stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.library import devices, extents, stream_values, tensors
from streamlint.interp.state import names, symbols
from streamlint.interp.state.values import (
    NONE,
    ApiV,
    BufferV,
    ConstV,
    DeviceV,
    EventV,
    Flavor,
    HeapV,
    PartialV,
    StreamV,
    SymV,
    TupleV,
    Value,
)
from streamlint.models import schema as fx
from streamlint.models import warp
from streamlint.models.schema import Role
from streamlint.trace import Evidence, StreamKind

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span
    from streamlint.trace import DeviceId


class Call:
    """One call of a row: its arguments by parameter name."""

    told = Evidence.SHOWN
    """What the call shows of its arguments and its result is no surer than that it is this call."""

    def __init__(
        self, m: Machine, framework: fx.Framework, api: fx.Api, bound: dict[str, Value], span: Span
    ) -> None:
        self.m = m
        self.framework = framework
        self.lib = framework.lib
        self.api = api
        self.bound = bound
        self.span = span

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
        return self.as_stream(self.value(name))

    def as_stream(self, value: Value) -> StreamV:
        match value:
            case StreamV():
                return value
            case ConstV(None):
                return self.m.current_stream(self.lib, self.own_device())
            case ConstV(int() as handle):
                return stream_values.handle_stream(self.m, handle, self.lib)
            case ApiV() if self.lib in (fx.Lib.RUNTIME, fx.Lib.DRIVER):
                return self.m.default(self.m.default_stream, self.lib)
            case SymV(symbols.Attr(_, "default_stream")) if self.lib is fx.Lib.CORE:
                return self.m.default(StreamKind.LEGACY, self.lib)
            case _:
                return stream_values.as_stream(self.m, value, self.span, self.lib)

    def stream_of_device(self, name: str) -> StreamV:
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
        """``count`` bytes from where a pointer points."""
        return extents.sized(self.m, view, self.value(count))

    def device(self, name: str) -> DeviceV:
        device = devices.meant(self.m, self.value(name))
        if self.lib is fx.Lib.TORCH:
            devices.has_streams(self.m, device)
        return device

    def own_device(self) -> DeviceId | None:
        """The device whose current stream a call of Warp's uses: the one it names, or that of its memory.

        ``wp.launch(step, dim=n, device="cuda:1")``; a copy uses the target's, or the source's where the
        target is on the host (``copy`` in warp/context.py). None is the current device.
        """
        if self.lib is not fx.Lib.WARP:
            return None
        if self.value("device") != NONE:
            named = devices.as_device(self.m, self.value("device"))
            return None if named.is_host or named.id.startswith("?") else named.id
        for name in warp.DEVICE_OF:
            value = self.value(name)
            if isinstance(value, BufferV) and not self.m.space(value).on_host:
                return self.m.buffers[value.id].device
        return None

    def name(self) -> str:
        """What the call is called: ``mix`` where ``mix = module.get_function("mix")`` is called."""
        made = self.api.name.endswith("()")
        match self.m.frame.calling:
            case ir.Call(func=ir.Name(id=name) | ir.Attr(name=name)) as calling if made:
                return name if calling.span == self.span else self._last_name()
            case _:
                return self._last_name()

    def _last_name(self) -> str:
        return self.api.name.rpartition(".")[2].removesuffix("()")
