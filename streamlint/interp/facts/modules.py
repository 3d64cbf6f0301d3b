"""What a module computes where none of its code is running."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from streamlint.interp.state.budgets import LIMITS
from streamlint.interp.state.captures import Captures
from streamlint.interp.state.frames import Frame
from streamlint.interp.state.values import Env
from streamlint.trace import CURRENT_DEVICE, MAIN_LANE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint import ir
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.values import Value


def at_module_level(
    m: Machine, module: ir.Module, e: ir.Expr, known: dict[str, Value] | None = None
) -> Value | None:
    """Evaluates an expression in a module's own scope, for variables and defaults.

    ``known`` are local names that it may use.
    """
    if len(m.frames) > LIMITS.call_depth + 40:
        return None
    frame = Frame(Env(known or {}, module.name), module.name, touches=False)
    m.frames.append(frame)
    # What it is does not depend on how deep the calls are in which it is first asked for.
    calls_, m.calls = m.calls, []
    try:
        return m.python.evaluate(m, e)
    finally:
        m.calls = calls_
        m.frames.pop()


def at_import(m: Machine, module: ir.Module, e: ir.Expr) -> Value | None:
    """Evaluates what a module computes when it is imported: its variables, those of classes, defaults."""
    with importing(m):
        return at_module_level(m, module, e)


@contextmanager
def importing(m: Machine) -> Iterator[None]:
    """What runs was before anything in the trace, on the stream that was current then, and is complete.

    As in a constructor, assertions held, and tests are explored last.
    """
    constructing, m.constructing = m.constructing, True
    selected = (m.current, m.pushed, m.captures, m.device, m.exact_device, m.device_symbol, m.lane)
    first = len(m.ops)
    m.current, m.pushed, m.captures = {}, [], Captures()
    m.device, m.exact_device, m.device_symbol = CURRENT_DEVICE, CURRENT_DEVICE, None
    m.lane = MAIN_LANE
    try:
        yield
    finally:
        m.constructing = constructing
        m.current, m.pushed, m.captures, m.device, m.exact_device, m.device_symbol, m.lane = selected
        m.forget_ops(first)
