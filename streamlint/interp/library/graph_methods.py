"""Methods of graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import models
from streamlint.interp.library import effects, graphs
from streamlint.interp.state.values import (
    NONE,
    GraphV,
    SymV,
    Value,
)
from streamlint.models.operands import CAPTURES_BY_HAND
from streamlint.models.schema import Role

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span


def method(
    m: Machine, graph: GraphV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value:
    """``graph.name(...)``"""
    row = models.find_method(Role.GRAPH, graph.lib, name)
    if row is not None:
        return effects.apply(m, row[0], row[1], graph, args, kwargs, span)
    if name in CAPTURES_BY_HAND:
        return graphs.by_hand(m, graph, args, kwargs, span, begins=CAPTURES_BY_HAND[name])
    if name == "reset":
        m.recordings.pop(graph.id, None)
        return NONE
    if name != "pool":
        graphs.changed(m, graph)
    return SymV(graphs.symbol_of_call(graph, name))
