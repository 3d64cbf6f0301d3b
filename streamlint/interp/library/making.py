"""What rows make: streams, events, and other objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import assert_never

from streamlint import ir
from streamlint.frozen import replace
from streamlint.interp.facts import answers
from streamlint.interp.library import devices
from streamlint.interp.state import symbols
from streamlint.interp.state.put_off import Bound
from streamlint.interp.state.values import (
    FALSE,
    NONE,
    ApiV,
    ConstV,
    ContextKind,
    ContextV,
    DeviceV,
    EventV,
    PartialV,
    StreamV,
    symbol_of,
)
from streamlint.models import cuda_runtime
from streamlint.models import schema as fx
from streamlint.models.schema import Lib
from streamlint.trace import StreamKind

if TYPE_CHECKING:
    from streamlint.interp.library.call import Call
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.interp.state.values import SymV, Value
    from streamlint.trace import Mode

CONTEXTS = frozenset({Lib.DRIVER, Lib.PYCUDA})
"""Libraries whose streams and events belong to the current context, which need not be that of a device."""
LATE = frozenset({Lib.TORCH, Lib.CORE})
"""Libraries whose events belong to the device where they are recorded first."""


def carry_out(call: Call, effect: fx.ObjectEffect) -> Value | None:
    """Effects on objects that only their own rows know."""
    m = call.m
    match effect:
        case fx.Makes(path, keeps, is_alone, told_apart):
            held = {name: call.bound[name] for name in keeps if name in call.bound}
            if is_alone:
                return alone(call, path, held)
            if told_apart:
                held["self"] = m.result(path, call.span)
            return PartialV(ApiV(path), (), held) if held else ApiV(path)
        case fx.Binds(name, address, mode):
            _bind(call, symbol_of(call.value(name)), call.value(address), mode)
            return None
        case fx.ChoosesAllocator(allocator, now):
            if not now:
                return ContextV(ContextKind.ALLOCATOR, call.value(allocator), call.lib)
            m.allocator = call.value(allocator)
            return None
        case _:
            assert_never(effect)


def _is_named_by_caller(m: Machine) -> bool:
    match m.frame.calling, m.frame.code:
        case ir.Call(args=[ir.Arg(value=ir.Name(id=name)), *_]), ir.Function(params=params):
            return any(param.name == name for param in params)
        case _:
            return False


def _bind(call: Call, name: Symbol, address: Value, mode: Mode | None) -> None:
    """An engine has the same tensors in each call: those that a statement binds replace all that it has bound
    in earlier calls.

    ``for name, x in given.items(): context.set_tensor_address(name, x.data_ptr())``, where ``y=None`` may be
    given or left out. Names that callers pass are bound in a call each: ``def bind(self, name, x): ...``.
    """
    m = call.m
    own = m.bound.setdefault(symbol_of(call.value("self")), {})
    if not _is_named_by_caller(m):
        for other in [other for other, kept in own.items() if kept.at == call.span and kept.call < m.call]:
            del own[other]
    own[name] = Bound(address, mode, call.span, m.call)


def stream(call: Call, effect: fx.NewStream) -> StreamV:
    if effect.null is not None and answers.constant(call.m, call.value(effect.null)):
        return call.m.default(StreamKind.LEGACY, call.lib)
    if effect.wraps is not None and call.value(effect.wraps) != NONE:
        return StreamV(call.stream(effect.wraps).id, call.lib)
    device = call.device("self" if isinstance(call.bound.get("self"), DeviceV) else "device")
    made_on = device.exact if call.lib not in CONTEXTS else None
    made = call.m.new_stream(_kind(call, effect), "", call.span, call.lib, device.id, made_on)
    devices.is_named(call.m, made, device)
    return made


def alone(call: Call, path: str, held: dict[str, Value]) -> SymV:
    """``Pipeline(batch_size=8, exec_dynamic=False)``: two of them are two, with options of their own."""
    made = call.m.result(path, call.span)
    call.m.makers[made.symbol] = path
    for name, value in held.items():
        call.m.roles[symbols.Attr(made.symbol, name)] = value
    return made


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
    devices.is_named(m, made, devices.current(m))
    m.events[made.id] = replace(m.events[made.id], timing=_timing(call, effect), made_on=event_device(call))
    if call.value("external") not in (NONE, FALSE):
        # Of a flag that is not known: what a capture makes of the event is not known, and is no mistake.
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


def event_device(call: Call) -> str | None:
    """The device of an event when it is made; None if it gets one later, or that is not known."""
    return None if call.lib in LATE or call.lib in CONTEXTS else call.m.exact_device
