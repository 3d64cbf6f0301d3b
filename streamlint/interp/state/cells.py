"""What a function keeps of the functions around it: the variables that it names, and no others.

``def run(x): graph.replay(); return out`` inside of ``build()`` keeps ``graph`` and ``out``. The mask that
``build()`` made for the capture goes when ``build()`` returns
(https://docs.python.org/3/reference/executionmodel.html#resolution-of-names).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from streamlint import ir
from streamlint.interp.state.kept import Kept
from streamlint.models import python

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.values import Env, FuncV, Value
    from streamlint.source import Span

Seen: TypeAlias = "set[tuple[int, Span]]"
"""Closures that were looked through, by the environment, with the functions that have them."""

_NAMED: Kept[Span, frozenset[str] | None] = Kept()


def held(m: Machine, func: FuncV, seen: Seen) -> Iterator[Value]:
    """The values of the variables around a function that it holds."""
    if func.closure is None:
        return
    span = func.function.span
    named = m.project.once(_NAMED, span, lambda: _named(func.function))
    scope: Env | None = func.closure
    while scope is not None and (id(scope), span) not in seen:
        seen.add((id(scope), span))
        yield from (
            scope.names.values()
            if named is None
            else (value for name, value in scope.names.items() if name in named)
        )
        scope = scope.parent


def _named(function: ir.Function | ir.FunctionDecl) -> frozenset[str] | None:
    """The names in the text of a function; None if it may read others, or defines a class that does."""
    if isinstance(function, ir.FunctionDecl):
        return None if function.names & python.READS_VARIABLES else function.names
    nodes = list(ir.walk(function, functions=True))
    names = frozenset(node.id for node in nodes if isinstance(node, ir.Name))
    reads_others = names & python.READS_VARIABLES or any(isinstance(node, ir.ClassDef) for node in nodes)
    return None if reads_others else names
