"""How far loops may go, all those that are open together."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from streamlint.trace import Copy, HostEffect, Launch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.state.machine import Machine

UNKNOWN_LENGTH_TURNS = 2
"""Passes over a loop of unknown length: the second shows what one pass does to the next."""
SURE_TURNS = 6
"""Passes over a loop of known length that are run whatever they cost."""
LOOP_STEPS = 2_000
"""Expressions and statements after which an outermost loop, with those in it, makes no further passes."""


@contextmanager
def loop(m: Machine) -> Iterator[None]:
    """Code that may make several passes; the outermost loop sets how far all of them may go.

    What it walks over, and how many passes are still to come, is that of the loop around it again afterwards.
    """
    if not m.loops:
        m.loops_end = m.steps + LOOP_STEPS
    walked, ahead = len(m.walked), m.ahead
    m.loops += 1
    try:
        yield
    finally:
        m.loops -= 1
        m.ahead = ahead
        del m.walked[walked:]


def may_go_on(m: Machine, done: int, sure: int) -> bool:
    """Whether a loop of known length makes another pass after those ``done``."""
    return done < sure or m.steps < m.loops_end


def is_busy(m: Machine, begin: int) -> bool:
    """Whether what was issued since may meet what comes next: on two streams, or with the host."""
    work = [op for op in m.ops[begin:] if isinstance(op, (Launch, Copy))]
    return len({op.stream for op in work}) > 1 or any(
        isinstance(op, Copy) and op.host is HostEffect.ASYNC for op in work
    )
