"""Variables that begin with a constant and are computed later: ``most = 0``, ``most = max(most, n)``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.state.kept import Kept

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.state.project import Project
    from streamlint.source import Span

_VARIABLES: Kept[Span, frozenset[str]] = Kept()
"""By the places of functions."""


def variables(project: Project, function: ir.Function) -> frozenset[str]:
    """Those of a function. On a path that computes nothing for one it has its first value."""
    return project.once(_VARIABLES, function.span, lambda: _variables(function))


def _variables(function: ir.Function) -> frozenset[str]:
    constant: set[str] = set()
    computed: set[str] = set()
    for name, value in _assigned(function):
        (constant if isinstance(value, ir.Const) else computed).add(name)
    return frozenset(constant & computed)


def _assigned(function: ir.Function) -> Iterator[tuple[str, ir.Expr | None]]:
    for node in ir.walk(function.body):
        match node:
            case ir.Assign(targets=targets, value=value):
                yield from ((target.id, value) for target in targets if isinstance(target, ir.Name))
            case ir.AugAssign(target=ir.Name(id=name)):
                yield name, None
            case _:
                pass
