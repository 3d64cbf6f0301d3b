"""What contexts select when they are entered: current streams and devices, captures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import models
from streamlint.interp.facts import classes
from streamlint.interp.library import (
    capturing,
    collectives,
    devices,
    graphs,
    grouped,
    memory,
    stream_values,
    tensors,
    threads,
)
from streamlint.interp.state import flavors, names, symbols
from streamlint.interp.state.values import (
    NONE,
    ApiV,
    BufferV,
    ContextKind,
    ContextV,
    DeviceV,
    EventV,
    GeneratorV,
    HeapV,
    MethodV,
    PartialV,
    StreamV,
    SymV,
    Value,
    symbol_of,
)
from streamlint.models.schema import Lib, Role
from streamlint.trace import (
    Purpose,
    SyncDevice,
    SyncStream,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.source import Span


class _Restore:
    """What leaving a context does."""

    def __init__(self, m: Machine, value: ContextV | None, span: Span) -> None:
        self.m = m
        self.value = value
        self.span = span
        self.is_of_cupy = _is_stream_of_cupy(value)
        self.current = stream_values.before_use(m) if self.is_of_cupy else dict(m.current)
        self.device = devices.current(m)
        self.default_device, self.default_since = m.default_device, m.default_since
        self.allocator = m.allocator
        self.stacked: list[Callable[[], object]] = []
        """What else is left with it, the last first: contexts that were entered on an ``ExitStack``."""
        self.pool: Symbol | None = None
        """A pool of threads that the block is left with."""
        self.raised = False
        """Whether an exception leaves the block."""

    def __call__(self) -> None:
        m = self.m
        if self.pool is not None and not m.cut:
            threads.shut_down(m, self.pool, self.span)
        if self.value is None:
            return
        match self.value.kind:
            case ContextKind.SYNC_ON_EXIT:
                if isinstance(self.value.value, StreamV) and not m.cut:
                    m.emit(
                        SyncStream(
                            m.site(self.span), m.lane, stream=self.value.value.id, name="leaving the block"
                        )
                    )
            case ContextKind.CAPTURE:
                if isinstance(self.value.value, StreamV) and not m.cut:
                    into = names.settle(m, self.value.graph) if self.value.graph is not None else NONE
                    graphs.end(m, self.value.value.id, into, self.span, self.value.lib, raised=self.raised)
            case ContextKind.CLOSING:
                if not m.cut:
                    m.python.call(m, MethodV(self.value.value, "close"), [], {}, self.span)
            case ContextKind.WAITING:
                if not m.cut:
                    m.python.call(m, MethodV(self.value.value, "__exit__"), [], {}, self.span)
            case ContextKind.STACK:
                m.stacks.pop(self.value, None)
                for leave in reversed(self.stacked):
                    leave()
            case ContextKind.GROUP:
                grouped.end(m, self.span, "leaving the block")
            case ContextKind.COALESCED:
                if not m.cut:
                    collectives.has_coalesced(m, self.value, self.span)
            case ContextKind.PINNED:
                if not m.cut:
                    memory.unpin(m, tensors.buffers_in(m, [self.value.value]), self.span, "leaving the block")
            case ContextKind.ALLOCATOR:
                m.allocator = self.allocator
            case ContextKind.STREAM | ContextKind.DEVICE | ContextKind.NULL:
                pass
        m.current = self.current
        m.default_device, m.default_since = self.default_device, self.default_since
        devices.select(m, self.device)
        if self.is_of_cupy:
            m.used = {}
        if self.value.joins and isinstance(self.value.value, StreamV) and not m.cut:
            outer = m.current_stream(self.value.lib or Lib.TORCH)
            stream_values.waits(m, outer.id, self.value.value.id, self.span, "leaving the block")


def _is_stream_of_cupy(value: ContextV | None) -> bool:
    if value is None or value.kind is not ContextKind.STREAM or not isinstance(value.value, StreamV):
        return False
    return (value.lib or value.value.lib) is Lib.CUPY


def enter(m: Machine, value: Value, span: Span) -> tuple[Value, _Restore]:
    """Makes a context take effect; the second result undoes it."""
    context = as_context(m, value, span)
    restore = _Restore(m, context, span)
    restore.pool = threads.pool_of(m, names.settle(m, value))
    if restore.pool is not None:
        return value, restore
    if context is None and _is_made(names.settle(m, value)):
        # with kvikio.CuFile(path) as file:
        return value, restore
    if context is None:
        return SymV(symbols.call("entering", symbol_of(names.settle(m, value)))), restore
    match context.kind:
        case ContextKind.STREAM:
            if restore.is_of_cupy:
                m.used = {}
            if isinstance(context.value, StreamV):
                stream_values.is_another(m, context.value)
                stream_values.select(m, context.value, context.lib)
            return value, restore
        case ContextKind.DEVICE:
            if isinstance(context.value, DeviceV) and context.value.places:
                devices.make_default(m, context.value)
            elif isinstance(context.value, DeviceV):
                devices.select(m, devices.meant(m, context.value))
            return value, restore
        case ContextKind.ALLOCATOR:
            m.allocator = context.value
            return value, restore
        case ContextKind.CAPTURE:
            lib = context.lib or Lib.TORCH
            if lib is Lib.TORCH:
                # torch.cuda.graph synchronizes the device before it begins the capture.
                m.emit(
                    SyncDevice(
                        m.site(span), m.lane, device=m.device, name="torch.cuda.graph", purpose=Purpose.ASIDE
                    )
                )
            if isinstance(context.value, StreamV):
                stream_values.select(m, context.value, lib)
                capturing.begin(m, context.value, lib, context.mode, span, pool=context.pool or NONE)
            return value, restore
        case ContextKind.NULL | ContextKind.CLOSING | ContextKind.WAITING:
            return context.value, restore
        case ContextKind.STACK:
            m.stacks[context] = restore.stacked
            return context, restore
        case ContextKind.SYNC_ON_EXIT | ContextKind.PINNED:
            return context.value, restore
        case ContextKind.COALESCED:
            return collectives.coalesces(m, context), restore
        case ContextKind.GROUP:
            grouped.start(m)
            return context.value, restore


def by_hand(
    m: Machine, thing: ContextV | StreamV | DeviceV, name: str, args: list[Value], span: Span
) -> Value:
    """``ctx.__enter__()`` and ``ctx.__exit__(...)``, and ``stack.enter_context(ctx)`` of an ``ExitStack``.

    What is entered on a stack is left with the ``with`` statement of the stack, or where it is closed.
    A stream or a device of CuPy's is such a context itself.
    """
    context = as_context(m, thing, span)
    assert context is not None, "all three are contexts"
    match name:
        case "__enter__":
            bound, m.entered[thing] = enter(m, context, span)
            return bound
        case "__exit__":
            leave = m.entered.pop(thing, None)
            if leave is not None:
                leave()
                return NONE
            return by_hand(m, context, "close", [], span) if context.kind is ContextKind.STACK else NONE
        case "close":
            for undo in reversed(m.stacks.pop(context, [])):
                undo()
            return NONE
        case _:
            stacked = m.stacks.setdefault(context, [])
            if name == "callback":
                stacked.append(lambda: m.python.call(m, args[0], args[1:], {}, span))
                return args[0]
            bound, undo = _of_program(m, names.settle(m, args[0]), span) or enter(m, args[0], span)
            stacked.append(undo)
            return bound


def _of_program(m: Machine, value: Value, span: Span) -> tuple[Value, Callable[[], object]] | None:
    """Enters what the program says itself, ``stack.enter_context(lane(stream))``, as far as its yield."""
    match value:
        case GeneratorV(context=True):
            step = m.python.step_generator(m, value, NONE, span)
            if step is None:
                return None
            return step[0], lambda: None if m.cut else m.python.step_generator(m, value, NONE, span)
        case HeapV() if (entering := classes.method(m, value, "__enter__")) is not None:
            leaving = classes.method(m, value, "__exit__")
            bound = m.python.call(m, entering, [], {}, span)
            if leaving is None:
                return bound, lambda: None
            return bound, lambda: None if m.cut else m.python.call(m, leaving, [NONE, NONE, NONE], {}, span)
        case _:
            return None


def is_by_hand(context: ContextV | StreamV | DeviceV, name: str, args: list[Value]) -> bool:
    if name in ("__enter__", "__exit__"):
        return True
    taken = {"enter_context": len(args) == 1, "callback": bool(args), "close": True}
    return isinstance(context, ContextV) and context.kind is ContextKind.STACK and taken.get(name, False)


def as_context(m: Machine, value: Value, span: Span) -> ContextV | None:
    """What ``with value:`` selects; None for contexts that have nothing to do with order."""
    match value:
        case ContextV():
            return value
        case StreamV(_, lib):
            return ContextV(ContextKind.STREAM, value, lib or Lib.TORCH)
        case DeviceV():
            return ContextV(ContextKind.DEVICE, value, Lib.TORCH)
        case BufferV() if models.find_method(Role.BUFFER, flavors.library(m, value), "close") is not None:
            # with resource.allocate(n, stream=s) as block: the end of the block closes it
            return ContextV(ContextKind.CLOSING, value)
        case EventV(lib=Lib() as lib) if models.find_method(Role.EVENT, lib, "__exit__") is not None:
            # with event_overlap: the end of the block makes the current stream wait
            return ContextV(ContextKind.WAITING, value, lib)
        case SymV() if stream_values.is_shown(m, value, Role.STREAM):
            # with self.lane: the attribute was set by code that was not seen.
            lib = m.project.arrays_of(m.frame.env.module)
            return ContextV(ContextKind.STREAM, stream_values.as_stream(m, value, span, lib), lib)
        case _:
            return None


def _is_made(value: Value) -> bool:
    """Whether it is an object of a library that only its own rows know: ``cupy.RawKernel()``."""
    made = value.func if isinstance(value, PartialV) else value
    return isinstance(made, ApiV) and made.path.endswith("()")
