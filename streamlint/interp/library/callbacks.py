"""Host functions queued on a stream: their bodies run in stream order, on a lane of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.state.ends import Cut, PathEnds, Returned
from streamlint.interp.state.values import (
    NONE,
    ApiV,
    CallbackV,
    ConstV,
    Flavor,
    FuncV,
    HeapV,
    MethodV,
    PartialV,
    Shape,
    Value,
)
from streamlint.models import host
from streamlint.models.schema import Lib
from streamlint.trace import Callback, CallbackEnd, LaneId, Origin, Space

if TYPE_CHECKING:
    from streamlint.interp.library.call import Call
    from streamlint.interp.state.machine import Machine
    from streamlint.models import schema as fx


_KEEPS_NOTHING = frozenset({Lib.RUNTIME, Lib.DRIVER})
"""cuda-python hands over a bare address; CuPy, Numba and cuda.core keep what they get until it has run."""


def _is_code(m: Machine, value: Value) -> bool:
    """Whether it can be run: a function, an object that can be called, or ``finished.put`` of a queue."""
    is_object = isinstance(value, HeapV) and m.heap[value.id].shape is Shape.INSTANCE
    return is_object or isinstance(value, (FuncV, PartialV, MethodV))


def wrap(m: Machine, value: Value) -> Value:
    """``prototype(value)``, where the prototype comes from ``CFUNCTYPE``."""
    if _is_code(m, value):
        memory = m.new_buffer("", Space.PAGEABLE, Origin.ALLOCATED, Flavor.POINTER, None)
        return CallbackV(memory.id, value)
    return value


def decorated(m: Machine, function: ir.Function, value: Value) -> Value:
    """A nested function whose decorator is a prototype: ``@CFUNCTYPE(None, c_void_p)``."""
    for decorator in function.decorators:
        match decorator:
            case ir.Name() | ir.Attr() | ir.Call(func=ir.Attr(name="CFUNCTYPE") | ir.Name(id="CFUNCTYPE")):
                if m.python.evaluate(m, decorator) == ApiV(host.PROTOTYPE):
                    value = wrap(m, value)
            case _:
                pass
    return value


def run(call: Call, effect: fx.HostCallback) -> None:
    """The host function runs in stream order, on a thread of the driver: a lane of its own."""
    m = call.m
    stream = call.stream(effect.stream)
    function, code = call.value(effect.function), None
    if isinstance(function, CallbackV):
        code = function.id if call.lib in _KEEPS_NOTHING else None
        function = function.func
    if call.lib not in _KEEPS_NOTHING:
        # stream.launch_host_func(store, (key, staging)): the library holds both until the function has run.
        m.life.kept += [function, call.value(effect.data)] if effect.data else [function]
    body = LaneId(m.lanes)
    m.lanes += 1
    name = "cudaStreamAddCallback" if effect.deprecated else call.name()
    m.emit(Callback(m.site(call.span), m.lane, stream=stream.id, body=body, code=code, name=name))
    if _is_code(m, function):
        data = call.value(effect.data) if effect.data else NONE
        _run_body(call, function, arguments(function, data, effect, call.value(effect.stream)), body)
    m.emit(CallbackEnd(m.site(call.span), m.lane, stream=stream.id, body=body))


def _run_body(call: Call, function: Value, args: list[Value], body: LaneId) -> None:
    m = call.m
    outer = m.lane
    m.lane = body
    try:
        m.python.call(m, function, args, {}, call.span)
    except (Returned, PathEnds):
        pass
    except Cut:
        m.cut.append("callback")
        raise
    finally:
        m.lane = outer


def arguments(function: Value, data: Value, effect: fx.HostCallback, stream: Value = NONE) -> list[Value]:
    """A host function gets its data; the older callback gets stream, status and data."""
    count = 3 if effect.deprecated or effect.status else 1
    if isinstance(function, FuncV):
        count = _parameters(function, count)
    if count == 3:
        return [stream, ConstV(0), data]
    return [data] if count == 1 else [NONE] * max(0, count - 1) + [data] if count else []


def _parameters(function: FuncV, usual: int) -> int:
    """How many values the function takes; ``usual`` if it takes any number."""
    code = ir.code_of(function.function)
    if code is None or any(param.kind == "*" for param in code.params):
        return usual
    bound = 1 if function.receiver is not None else 0
    return sum(1 for p in code.params if p.kind == "positional" and p.default is None) - bound
