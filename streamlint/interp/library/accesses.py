"""What rows do to memory: work on it, and where it comes from and goes to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import assert_never

from streamlint.interp.library import copies, handoffs, making, memory, operations
from streamlint.interp.state import symbols
from streamlint.interp.state.values import (
    NONE,
    BufferV,
    ConstV,
    ContextKind,
    ContextV,
    TupleV,
    Value,
    symbol_of,
)
from streamlint.models import members
from streamlint.models import schema as fx
from streamlint.trace import Access, Doubt, HostAccess, KeepAlive, Launch, Mode, Space

if TYPE_CHECKING:
    from streamlint.interp.library.call import Call
    from streamlint.interp.state.machine import Machine
    from streamlint.trace import BufferId

_OPAQUE = frozenset({Doubt.OPAQUE})


def work(call: Call, effect: fx.WorkEffect) -> Value | None:
    """Effects that read and write memory."""
    m, span = call.m, call.span
    match effect:
        case fx.Copies():
            return memory.copy(call, effect)
        case fx.Uses():
            memory.use(call, effect)
            return None
        case fx.HostUses(reads, writes):
            accesses = [
                Access(view.id, mode, view.region)
                for given, mode in ((reads, Mode.READ), (writes, Mode.WRITE))
                for name in given
                if (view := call.buffer(name))
            ]
            m.emit(HostAccess(m.site(span), m.lane, accesses=tuple(accesses), name=call.name()))
            return None
        case fx.Computes():
            return _compute(call, effect)
        case fx.Launches(kernel, lists, stream, kept_with, makes):
            if makes is not None and kept_with and copies.is_true(m, call.value(kept_with), span, kept_with):
                return making.carry_out(call, makes)
            return memory.launch_python(call, kernel, lists, stream)
        case _:
            assert_never(effect)


def _compute(call: Call, effect: fx.Computes) -> Value:
    operands = [view for name in effect.reads for view in call.buffers(name)]
    stream, result = call.value(effect.stream), call.value(effect.out)
    if result != NONE:
        memory.use(call, fx.Uses(effect.reads, (effect.out, *effect.also), stream=effect.stream))
    else:
        of = call.buffers(effect.like) if effect.like else operands
        # Without a stream it is the current one of the library that the result is of, if that is told.
        on = stream if effect.like else call.stream(effect.stream)
        result = operations.work(call.m, call.lib, call.name(), operands, on, call.span, like=of)
    waits = call.value(effect.owner) if effect.owner else stream
    operations.host_waits(call.m, call.framework, waits, call.name(), call.span)
    if not effect.also:
        return result
    given = (call.value(name) for name in effect.also)
    return TupleV((result, *(result if value == NONE else value for value in given)))


def of_memory(call: Call, effect: fx.MemoryEffect) -> Value | None:
    """Effects on where memory comes from, and who has it."""
    m, span = call.m, call.span
    match effect:
        case fx.Allocates():
            return memory.allocate(call, effect)
        case fx.Frees():
            memory.free(call, effect)
            return None
        case fx.Pins(buffer, block):
            views = call.buffers(buffer)
            memory.pin(m, views)
            return ContextV(ContextKind.PINNED, TupleV(tuple(views)), call.lib) if block else None
        case fx.Unpins(buffer):
            memory.unpin(m, call.buffers(buffer), span, call.name())
            return None
        case fx.GlobalMemory(module, name):
            variable = (symbol_of(call.value(one)) for one in (*module, name))
            return memory.of_module(m, symbols.call("variable", *variable), call.lib, span)
        case fx.KeepsAlive(buffer, stream):
            _keep_alive(call, call.buffer(buffer), stream)
            return None
        case fx.Views():
            return memory.view(call, effect)
        case fx.Adopts():
            return _adopt(call, effect)
        case _:
            assert_never(effect)


def _keep_alive(call: Call, kept: BufferV | None, stream: str) -> None:
    m = call.m
    if kept is None:
        return
    on = call.stream(stream).id
    at, name = m.site(call.span), call.name()
    m.emit(KeepAlive(at, m.lane, buffer=kept.id, stream=on, name=name))
    for whole in _may_be_part_of(m, kept):
        m.emit(KeepAlive(at, m.lane, _OPAQUE, buffer=whole, stream=on, name=name))
    if m.space(kept) is Space.UNKNOWN:
        m.set_space(kept, Space.DEVICE)


def _may_be_part_of(m: Machine, kept: BufferV) -> list[BufferId]:
    """Memory of a device that a call got which gave this, and may be no operator of tensors.

    ``batch = next(loader).to(device)``, then ``for t in batch.tensors(): t.record_stream(current)``.
    """
    for op in reversed(m.ops):
        if isinstance(op, Launch) and any(
            access.buffer == kept.id and access.mode.writes for access in op.accesses
        ):
            if members.is_tensor_method(op.name) and Doubt.OPAQUE not in op.doubts:
                return []
            got = dict.fromkeys(access.buffer for access in op.accesses if access.mode.reads)
            return [number for number in got if not m.buffers[number].space.on_host]
    return []


def _adopt(call: Call, effect: fx.Adopts) -> Value:
    view = call.buffer(effect.of)
    if view is None:
        return call.m.fresh(call.name(), call.span)
    unordered = call.value(effect.stream) in (NONE, ConstV(-1))
    stream = None if unordered else call.stream(effect.stream)
    return handoffs.adopted(call.m, view, call.lib, stream, call.span, call.name())
