"""What unknown values and the names of libraries have turned out to be on a path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import models
from streamlint.interp.state.values import NONE, ApiV, BufferV, SymV, Value
from streamlint.trace import NOTHING

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine


_UNSETTLED = frozenset({SymV, BufferV, ApiV})
"""Values that may have turned out to be something else: asked of every value that is used."""


def settle(m: Machine, value: Value) -> Value:
    """A symbolic value as what it has turned out to be on this path (``if s is None:`` was taken, ...)."""
    if type(value) not in _UNSETTLED:
        return value
    if isinstance(value, SymV):
        role = m.roles.get(value.symbol)
        if role is not None:
            return settle(m, role) if isinstance(role, BufferV) and m.life.moved else role
        if value.symbol in m.oracle.absent:
            return NONE
    elif isinstance(value, BufferV):
        moved = m.life.moved.get(value.id)
        if moved is not None:
            # x = torch.empty(0); x.resize_(n): what x stood for before was nothing.
            of_old = value.region[1:] if value.region[:1] == NOTHING else value.region
            return BufferV(moved.id, moved.region + of_old, value.flavor)
    elif isinstance(value, ApiV):
        if value.path in models.STREAMS:
            lib, kind = models.STREAMS[value.path]
            return m.default(kind, lib)
        variable = m.project.variable(value.path)
        if variable is not None:
            return m.python.module_name(m, *variable)
    return value
