"""Streams, events and devices of rows: which are made, and which are current."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import assert_never

from streamlint.interp.library import devices, making, stream_values
from streamlint.interp.state.values import (
    NONE,
    ConstV,
    ContextKind,
    ContextV,
    DeviceV,
    StreamV,
    SymV,
    Value,
)
from streamlint.models import schema as fx
from streamlint.trace import CURRENT_DEVICE, StreamKind

if TYPE_CHECKING:
    from streamlint.interp.library.call import Call


def carry_out(call: Call, effect: fx.StreamEffect) -> Value | None:
    """Effects on streams and events."""
    m, span = call.m, call.span
    match effect:
        case fx.NewStream():
            return making.stream(call, effect)
        case fx.CurrentStream(device):
            return m.current_stream(call.lib, call.device(device).id)
        case fx.DefaultStream(kind):
            where = call.device("self" if isinstance(call.bound.get("self"), DeviceV) else "device")
            return m.default(m.default_stream if kind is StreamKind.LEGACY else kind, call.lib, where.id)
        case fx.ForeignStream(handle, current_of, null_is_new, gives):
            by = gives or call.lib
            value = call.value(handle)
            if null_is_new and _is_null(call, value):
                return making.stream(call, fx.NewStream(StreamKind.NON_BLOCKING))
            if current_of is not None and not isinstance(value, (StreamV, SymV)):
                return StreamV(m.current_stream(current_of).id, by)
            if isinstance(value, ConstV) and isinstance(value.value, int):
                return stream_values.handle_stream(m, value.value, by)
            known = value if isinstance(value, StreamV) else stream_values.as_stream(m, value, span, by)
            return StreamV(known.id, by)
        case fx.EnterStream():
            return _enter_stream(call, effect)
        case fx.NewEvent():
            return making.event(call, effect)
        case _:
            assert_never(effect)


def _is_null(call: Call, handle: Value) -> bool:
    """0, or the handle of the legacy default stream."""
    if isinstance(handle, StreamV):
        return call.m.streams[handle.id].kind is StreamKind.LEGACY
    return handle == ConstV(0)


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
        stream_values.use(call.m, chosen, call.lib)
        return chosen
    joins = call.value(effect.joins) == ConstV(True)
    return ContextV(ContextKind.STREAM, chosen, call.lib, joins=joins)


def of_device(call: Call, effect: fx.DeviceEffect) -> Value | None:
    """Effects on devices."""
    m = call.m
    match effect:
        case fx.NewDevice(number):
            return devices.made(m, call.value(number))
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
        case _:
            assert_never(effect)
