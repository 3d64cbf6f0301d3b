"""The trace of a path that is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.state import spelling, symbols
from streamlint.interp.state.budgets import LIMITS
from streamlint.interp.state.values import BufferV
from streamlint.models.torch import ASKS_FOR_CAPTURE
from streamlint.trace import BufferId, Trace

if TYPE_CHECKING:
    from collections.abc import Iterator

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
        asking=tuple(m.asking),
        left_elements=m.left_elements,
        flags=frozenset(_flags(m)),
        is_captured=any(
            decision.chosen == 0 and symbols.last_called(decision.key) in ASKS_FOR_CAPTURE
            for decision in m.oracle.taken
        ),
        contradicted=frozenset(_contradicted(m)),
        spelled=spelling.of(m),
    )


def _contradicted(m: Machine) -> Iterator[BufferId]:
    """Memory of which a test was answered otherwise than what is done with it shows, and what is in it."""
    refuted = m.oracle.refuted.keys()
    wrong = [thing for thing, tests in m.denied.items() if not refuted.isdisjoint(tests)]
    for thing in wrong:
        if isinstance(thing, symbols.Memory):
            yield BufferId(thing.number)
    if wrong:
        for place, role in m.roles.items():
            if isinstance(role, BufferV) and any(symbols.contains(place, thing) for thing in wrong):
                yield role.id


def _flags(m: Machine) -> Iterator[str]:
    """The parameters that unseen callers set on this path otherwise than they are by default."""
    for decision in m.oracle.taken:
        match decision.key:
            case symbols.Param(call, name, rest=False) if call in m.targets:
                default = _default(m.targets[call].function, name)
                if default is not None and default is not (decision.chosen == 0):
                    yield name
            case _:
                pass


def _default(decl: ir.FunctionDecl | None, name: str) -> bool | None:
    """Whether a parameter is True or False where a call leaves it out; None of others."""
    function = ir.code_of(decl) if decl is not None else None
    for param in function.params if function is not None else ():
        match param:
            case ir.Param(name=own, default=ir.Const(value=bool() as default)) if own == name:
                return default
            case _:
                pass
    return None
