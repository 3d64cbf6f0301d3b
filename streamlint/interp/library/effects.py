"""Carries out the effects of a framework row."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from typing_extensions import assert_never

from streamlint.interp.library import (
    accesses,
    background,
    callbacks,
    capturing,
    collectives,
    devices,
    escape,
    graphs,
    lending,
    making,
    ordering,
    overloads,
    processes,
    streams,
)
from streamlint.interp.library.call import Call
from streamlint.interp.state import arguments, names, symbols
from streamlint.interp.state.values import (
    NONE,
    ApiV,
    BufferV,
    ConstV,
    EventV,
    QueryV,
    StreamV,
    SymV,
    TupleV,
    Value,
    symbol_of,
)
from streamlint.models import cuda_driver, cuda_runtime
from streamlint.models import schema as fx
from streamlint.trace import CudaCall, DestroyEvent, DestroyStream, Evidence

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span


def _placed(api: fx.Api, in_place: Sequence[str], args: Sequence[Value]) -> Iterator[tuple[str, Value]]:
    """Arguments in place, with the parameters that they stand for.

    A function of C has no parameter that may be left out. So what stands behind arguments of unknown number
    is known from the end: ``cuLaunchKernel(function, *self.grid, *self.block, 0, stream, args, 0)``.
    """
    spread = [at for at, value in enumerate(args) if arguments.is_rest(value)]
    if not spread or not api.status:
        return zip(in_place, args, strict=False)
    last = spread[-1] + 1 - len(args)
    front = zip(in_place, args[: spread[0]], strict=False)
    return chain(front, zip(in_place[last:], args[last:], strict=True) if last else ())


def apply(
    m: Machine,
    framework: fx.Framework,
    api: fx.Api,
    receiver: Value | None,
    args: list[Value],
    kwargs: dict[str, Value],
    span: Span,
    *,
    told: Evidence = Evidence.SHOWN,
) -> Value:
    """Runs a row's effects; the value of the call is the last that one returns. ``told`` is ``Call.told``."""
    in_place = overloads.chosen(m, api, args)
    bound = {name: names.settle(m, value) for name, value in _placed(api, in_place, args)}
    bound |= {name: names.settle(m, value) for name, value in kwargs.items()}
    if api.rest is not None:
        bound[api.rest] = TupleV(tuple(args[len(in_place) :]))
    if receiver is not None:
        bound["self"] = receiver
    call = Call(m, framework, api, bound, span)
    call.told = min(told, m.buffers[receiver.id].kind) if isinstance(receiver, BufferV) else told
    result: Value | None = None
    for effect in api.effects:
        made = _carry_out(call, effect)
        result = made if made is not None else result
    if not api.status:
        return result if result is not None else NONE
    success = ApiV(cuda_driver.SUCCESS if framework.lib is fx.Lib.DRIVER else cuda_runtime.SUCCESS)
    if isinstance(result, QueryV):
        return TupleV((result,))
    if result is None:
        return TupleV((success,))
    return TupleV((success, result, *(m.fresh(api.name, span) for _ in range(api.further))))


def _carry_out(call: Call, effect: fx.Effect) -> Value | None:
    """What each kind of effects does is told where the rest of that kind is."""
    if isinstance(effect, fx.StreamEffect):
        return streams.carry_out(call, effect)
    if isinstance(effect, fx.DeviceEffect):
        return streams.of_device(call, effect)
    if isinstance(effect, fx.WaitEffect):
        return ordering.carry_out(call, effect)
    if isinstance(effect, fx.WorkEffect):
        return accesses.work(call, effect)
    if isinstance(effect, fx.MemoryEffect):
        return accesses.of_memory(call, effect)
    if isinstance(effect, fx.GraphEffect):
        return graphs.carry_out(call, effect)
    if isinstance(effect, fx.CommunicationEffect):
        return collectives.carry_out(call, effect)
    if isinstance(effect, fx.AsideEffect):
        return _aside(call, effect)
    if isinstance(effect, fx.ObjectEffect):
        return making.carry_out(call, effect)
    return _by_itself(call, effect)


def _aside(call: Call, effect: fx.AsideEffect) -> Value | None:
    """Work beside the streams: of the host, of other processes, of loaders."""
    m, span = call.m, call.span
    match effect:
        case fx.Background():
            return background.run(call, effect)
        case fx.Fills():
            background.fill(call, effect)
            return None
        case fx.Lends():
            return lending.lend(call)
        case fx.TakesBack(unless):
            lending.take_back(call, unless)
            return None
        case fx.Draws():
            lending.draw(call, effect)
            return None
        case fx.OrdersAll(why):
            escape.barrier(m, escape.all_streams(m), span, call.name(), why)
            return m.fresh(call.name(), span)
        case fx.Shares(what):
            return processes.share(call, what)
        case fx.OpensShared():
            return processes.opened(call)
        case _:
            assert_never(effect)


def _by_itself(call: Call, effect: fx.CallEffect) -> Value | None:
    """Effects that neither queue nor order work."""
    m, span = call.m, call.span
    match effect:
        case fx.Struct():
            return m.fresh(call.name(), span)
        case fx.HostCallback():
            callbacks.run(call, effect)
            return None
        case fx.OrdersNothing():
            m.emit(CudaCall(m.site(span), m.lane, name=call.name()))
            return m.fresh(call.name(), span)
        case fx.ReadsTimes(start, end):
            times = (call.event(start).id, call.event(end).id)
            m.emit(CudaCall(m.site(span), m.lane, name=call.name(), times=times))
            return m.fresh(call.name(), span)
        case fx.Destroys(what):
            gone = call.value(what)
            if isinstance(gone, StreamV):
                m.emit(DestroyStream(m.site(span), m.lane, stream=gone.id))
            elif isinstance(gone, EventV):
                m.emit(DestroyEvent(m.site(span), m.lane, event=gone.id))
            return None
        case fx.Returns(what):
            return call.value(what)
        case fx.Succeeds(told_by):
            return ConstV(told_by)
        case fx.Pure(own):
            if call.name() == "current_device":
                return devices.current(m)
            answer = capturing.predicate(m, call.name(), call.value("self"), call.lib)
            if answer is not None:
                return ConstV(answer)
            given = (symbol_of(value) for name, value in call.bound.items() if own or name != "self")
            return SymV(symbols.call(call.name(), *given))
        case _:
            assert_never(effect)
