"""Memory that was there before a path: what is behind values of which nothing else is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.state import arguments, naming, symbols
from streamlint.interp.state.values import (
    BufferV,
    Flavor,
)
from streamlint.trace import (
    WHOLE,
    Access,
    BufferId,
    Doubt,
    Evidence,
    Mode,
    Origin,
    Space,
)

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.trace import Passed


def memory(
    m: Machine,
    symbol: Symbol,
    space: Space = Space.UNKNOWN,
    flavor: Flavor = Flavor.TORCH,
    kind: Evidence = Evidence.ASSUMED,
    name: str = "",
) -> BufferV:
    """The buffer behind an unknown value; it may still be pending on the entry's current stream."""
    view = m.new_buffer(name or naming.called(m, symbol), space, Origin.ARGUMENT, flavor, None)
    given = arguments.passed(symbol) or _reached(m, symbol)
    m.given[view.id] = symbol
    m.buffers[view.id] = replace(m.buffers[view.id], kind=kind, residence=Evidence.ASSUMED, passed=given)
    if (computed := m.results.get(symbols.root(symbol))) is not None:
        m.pending.setdefault(computed, []).append(Access(view.id, Mode.WRITE))
        return view
    # What nobody passes, as memory of the module, is pending when the path begins.
    op = m.before_call.get(given.call, 0) if given is not None else 0
    access = Access(view.id, Mode.WRITE, WHOLE, frozenset({Doubt.ARGUMENT}))
    m.pending.setdefault(op, []).append(access)
    return view


def _reached(m: Machine, symbol: Symbol) -> Passed | None:
    """What a caller passes with a tensor that it passes: ``weight.grad`` of ``weight: torch.Tensor``."""
    if not symbols.has(symbol, symbols.Memory, symbols.Thing):
        return None
    match arguments.reached_from(symbol):
        case ((symbols.Memory(number) | symbols.Thing("buffer", int(number))), part) if part:
            of = m.buffers[BufferId(number)].passed
            return None if of is None else replace(of, part=of.part + part)
        case _:
            return None
