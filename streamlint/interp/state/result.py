"""The trace of a path that is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state import spelling
from streamlint.interp.state.budgets import LIMITS
from streamlint.trace import Trace

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine


def trace_of(m: Machine) -> Trace:
    """The finished trace, led by the pending writes of its arguments."""
    return Trace(
        ops=tuple(m.ops),
        streams=dict(m.streams),
        events=dict(m.events),
        buffers=dict(m.buffers),
        graphs=dict(m.graphs),
        monitors={monitor.id: monitor for monitor in m.monitors.values()},
        entry=m.entry,
        path=(*m.oracle.path, *m.premises),
        cut=(*m.cut, "lifetimes") if m.life.scans >= LIMITS.scans else tuple(m.cut),
        assumed_device=m.assumed_device,
        run_by_several=m.run_by_several,
        unseen=tuple(m.unseen),
        spelled=spelling.of(m),
    )
