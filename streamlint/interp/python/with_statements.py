"""``with`` statements: what is entered, the block, and what is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.facts import classes
from streamlint.interp.library import escape, monitors, saved_hooks
from streamlint.interp.python import binding, contexts, expr, given_objects
from streamlint.interp.state import lifetime, names, symbols
from streamlint.interp.state.ends import Jumped, PathEnds, Returned
from streamlint.interp.state.values import (
    NONE,
    ConstV,
    GeneratorV,
    HeapV,
    Shape,
    SymV,
    Value,
)
from streamlint.models.torch import WITHOUT_GRADIENTS
from streamlint.trace import MAIN_LANE, MonitorKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.interp.state.machine import Machine


def _calls_nothing(body: Sequence[ir.Stmt]) -> bool:
    """Whether a block holds nothing but operators and assignments: ``y = x * 2``."""
    return not any(isinstance(node, (ir.Call, ir.With)) for node in ir.walk(tuple(body)))


def _is_gradless(value: Value) -> bool:
    return isinstance(value, SymV) and symbols.function_called(value.symbol) in WITHOUT_GRADIENTS


_HELD = (MonitorKind.LOCK, MonitorKind.SEMAPHORE)
"""What a block takes, and gives back at its end."""


def run_with(m: Machine, items: Sequence[ir.WithItem], body: Sequence[ir.Stmt]) -> None:
    """Enters the first item and runs the rest inside it."""
    if not items:
        m.python.run_block(m, body)
        return
    item, *rest = items
    value = given_objects.settled(m, names.settle(m, expr.evaluate(m, item.context)), "__enter__")
    match value:
        case GeneratorV(context=True):
            _generator(m, value, item, rest, body)
        case HeapV() if value.id in m.monitors and m.monitors[value.id].kind in _HELD:
            monitors.wait(m, value, item.context.span, "with")
            try:
                run_with(m, rest, body)
            finally:
                if not m.cut:
                    monitors.signal(m, value, item.context.span, "leaving the block")
        case HeapV() if m.heap[value.id].shape is Shape.INSTANCE and _manager(m, value) is not None:
            _user_manager(m, value, item, rest, body)
        case ConstV(None):
            # with self.lanes[n]:, where nobody has put one: that raises an error.
            m.uses_none = True
            raise PathEnds
        case _:
            bound, leave = contexts.enter(m, value, item.context.span)
            if item.target is not None:
                binding.assign(m, item.target, bound)
            outer, gradless = m.frame.operators_only, m.frame.gradless
            m.frame.operators_only = outer or (leave.current != m.current and _calls_nothing(body))
            m.frame.gradless = gradless or _is_gradless(value)
            # What a call makes, nobody else can hold.
            may_lock = isinstance(value, SymV) and not isinstance(item.context, ir.Call)
            m.blocks_of += may_lock
            if isinstance(value, SymV) and m.lane != MAIN_LANE:
                # with guard: page.add_(part), in a thread: it may be a lock that others hold.
                m.asking.append(len(m.ops))
            try:
                with lifetime.holding(m, value), saved_hooks.entered(m, value):
                    run_with(m, rest, body)
            except PathEnds:
                leave.raised = True
                raise
            finally:
                m.blocks_of -= may_lock
                m.frame.operators_only, m.frame.gradless = outer, gradless
                leave()
                if not m.cut and isinstance(value, SymV):
                    # with pool.lease() as stream: what is not seen may wait for it in the end.
                    escape.through(m, [value, bound], item.context.span, "leaving the block")


def _generator(
    m: Machine, value: GeneratorV, item: ir.WithItem, rest: Sequence[ir.WithItem], body: Sequence[ir.Stmt]
) -> None:
    """``@contextmanager``: the generator runs, and the block runs at its yield.

    A block that is left by ``return`` or ``break`` leaves its own function, after the generator is done.
    """
    frame, depth = m.frame, len(m.calls)
    left: list[Returned | Jumped] = []

    def at_yield(bound: Value) -> Value:
        with m.back_in(frame, depth):
            try:
                if item.target is not None:
                    binding.assign(m, item.target, bound)
                run_with(m, rest, body)
            except (Returned, Jumped) as leaving:
                left.append(leaving)
        return NONE

    m.python.run_generator(m, value, at_yield, item.context.span)
    if left:
        raise left[0]


def _user_manager(
    m: Machine, value: HeapV, item: ir.WithItem, rest: Sequence[ir.WithItem], body: Sequence[ir.Stmt]
) -> None:
    entering, leaving = _manager(m, value) or (None, None)
    given_objects.is_entered(m, value)
    bound = m.python.call(m, entering, [], {}, item.context.span) if entering else value
    if item.target is not None:
        binding.assign(m, item.target, bound)
    feeder = m.feeders.get(m.lane)
    try:
        with lifetime.holding(m, value), saved_hooks.entered(m, value):
            run_with(m, rest, body)
    finally:
        if m.feeders.get(m.lane) is not feeder:
            # with self.as_current(): for x in source: ... What the class has undone, a later pass would need.
            del m.feeders[m.lane]
        if leaving is not None and not m.cut:
            m.python.call(m, leaving, [NONE, NONE, NONE], {}, item.context.span)


def _manager(m: Machine, value: HeapV) -> tuple[Value | None, Value | None] | None:
    """What a class does when a block is entered and left: ``with``, or ``async with``.

    What it does not say itself, a base outside of the tree does.
    """
    for names_of_both in (("__enter__", "__exit__"), ("__aenter__", "__aexit__")):
        entering, leaving = (classes.method(m, value, name) for name in names_of_both)
        if entering is not None or leaving is not None:
            return entering, leaving
    return None
