"""What rows make: streams, events and objects that stand for a device."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from streamlint.interp import decide
from streamlint.interp.values import NONE, ConstV, DeviceV, EventV, StreamV, SymV
from streamlint.models import cuda_runtime
from streamlint.trace import CURRENT_DEVICE, StreamKind

if TYPE_CHECKING:
    from streamlint.interp.effects import Call
    from streamlint.models import schema as fx


def stream(call: Call, effect: fx.NewStream) -> StreamV:
    if effect.null is not None and decide.constant(call.m, call.value(effect.null)):
        return call.m.default(StreamKind.LEGACY, call.lib)
    if effect.wraps is not None and call.value(effect.wraps) != NONE:
        return StreamV(call.stream(effect.wraps).id, call.lib)
    device = call.device("self" if isinstance(call.bound.get("self"), DeviceV) else "device")
    return call.m.new_stream(_kind(call, effect), "a stream", call.span, call.lib, device)


def _kind(call: Call, effect: fx.NewStream) -> StreamKind:
    if effect.flag is None:
        return effect.kind
    match call.value(effect.flag):
        case ConstV(int() | bool() as flag):
            return effect.flag_kind if int(flag) & cuda_runtime.NON_BLOCKING_FLAG else effect.kind
        case ConstV(None):
            return effect.unset or effect.kind
        case _:
            return StreamKind.UNKNOWN


def event(call: Call, effect: fx.NewEvent) -> EventV:
    m = call.m
    made = m.new_event("an event", call.span, call.lib)
    m.events[made.id] = replace(m.events[made.id], timing=_timing(call, effect))
    if call.value("external") == ConstV(True):
        m.captures.external.add(made.id)
    return made


def _timing(call: Call, effect: fx.NewEvent) -> bool | None:
    """Whether times can be read from a new event; ``None`` if a flag is not known."""
    match call.value(effect.timing), call.value(effect.untimed):
        case ConstV(bool() as wanted), _:
            return wanted
        case ConstV(None), ConstV(None):
            return effect.timed
        case ConstV(None), ConstV(bool() as untimed):
            return not untimed
        case ConstV(None), ConstV(int() as flags):
            return not flags & cuda_runtime.DISABLE_TIMING_FLAG
        case _:
            return None


def device(call: Call, number: str) -> DeviceV:
    """``Device(0)`` is taken to be the device current at entry, as it is unless code selected another."""
    match call.value(number):
        case ConstV(int() as index) if index > 0 or call.m.device != CURRENT_DEVICE:
            return DeviceV(str(index))
        case DeviceV() as known:
            return known
        case SymV(key):
            return DeviceV(f"?{key}")
        case _:
            return DeviceV(call.m.device)
