"""Functions that are defined inside of others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.facts import touching

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.values import FuncV


def note(m: Machine, made: FuncV) -> None:
    """Keeps a function that was just defined inside of another one, if it touches streams."""
    if len(m.frames) > 1 and isinstance(made.function, ir.Function) and _touches(m, made.function):
        m.closures.setdefault(f"{made.function.module}:{made.function.qualname}", made)


def _touches(m: Machine, function: ir.Function) -> bool:
    known = m.project.touching.get(function.span)
    if known is None:
        names = {node.id for node in ir.walk(function.body) if isinstance(node, ir.Name)}
        names |= {node.name for node in ir.walk(function.body) if isinstance(node, ir.Attr)}
        known = m.project.touching[function.span] = _names_touch(m, function.module, frozenset(names))
    return known


def _names_touch(m: Machine, name: str, names: frozenset[str]) -> bool:
    module = m.project.module(name)
    return module is not None and touching.names_touch(m.project, module, names)
