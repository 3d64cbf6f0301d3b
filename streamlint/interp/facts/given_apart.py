"""Several things that one method returns, and that another takes apart: ``_, packed, shape, number = saved``.

``return True, packed, x.shape, number``: who calls both gives back to the second what he got of the first.
Hooks of saved tensors do so, whoever registers them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.state.kept import Kept

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from streamlint.interp.state.project import Project
    from streamlint.source import Span

SEVERAL = 3
"""Of pairs there are too many."""


def into(project: Project, function: ir.FunctionDecl | ir.Function, param: str) -> frozenset[int]:
    """Into how many names code takes a parameter apart; not where it returns as many itself."""
    return project.once(_PARTS, (function.span, param), lambda: _parts(ir.code_of(function), param))


def pairs(
    project: Project, methods: Iterable[ir.FunctionDecl]
) -> Iterator[tuple[ir.FunctionDecl, ir.FunctionDecl]]:
    """The only method that returns so many things, with one that takes as many apart."""
    every = tuple(methods)
    for second in every:
        code = ir.code_of(second)
        for param in code.params[1:] if code is not None else ():
            many = into(project, second, param.name)
            returning = [decl for decl in every if many & _returned(project, decl)]
            if len(returning) == 1:
                yield returning[0], second


_PARTS: Kept[tuple[Span, str], frozenset[int]] = Kept()
_RETURNED: Kept[Span, frozenset[int]] = Kept()


def _parts(function: ir.Function | None, param: str) -> frozenset[int]:
    parts = frozenset(
        len(items)
        for node in (ir.walk(function.body) if function is not None else ())
        for items in _names_of(node, param)
        if len(items) >= SEVERAL and not any(isinstance(item, ir.Star) for item in items)
    )
    return parts - _sizes(function) if parts else parts


def _names_of(node: object, param: str) -> Iterator[tuple[ir.Expr, ...]]:
    match node:
        case ir.Assign(targets=(ir.Seq(items=items),), value=ir.Name(id=name)) if name == param:
            yield items
        case _:
            pass


def _returned(project: Project, decl: ir.FunctionDecl) -> frozenset[int]:
    """How many things a function returns, by the places at which it does."""
    return project.once(_RETURNED, decl.span, lambda: _sizes(ir.code_of(decl)))


def _sizes(function: ir.Function | None) -> frozenset[int]:
    return frozenset(
        len(items)
        for node in (ir.walk(function.body) if function is not None else ())
        if isinstance(node, ir.Return) and isinstance(node.value, ir.Seq)
        for items in (node.value.items,)
    )
