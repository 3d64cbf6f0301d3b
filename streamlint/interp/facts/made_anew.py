"""Variables that each pass of a loop gives a value of its own before it asks for them.

``for i, device in enumerate(devices): part = parts[i]; reduce(part)``: what stands in ``part`` is another one
in each pass, and no pass leaves it to the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir

if TYPE_CHECKING:
    from collections.abc import Iterable


def of_loop(loop: ir.For | ir.While) -> frozenset[str]:
    anew: set[str] = set()
    asked: set[str] = set()
    if isinstance(loop, ir.For):
        _assigned([loop.target], anew, asked)
    else:
        asked |= _names(loop.test)
    _through(loop.body, anew, asked)
    return frozenset(anew)


def _through(body: Iterable[ir.Stmt], anew: set[str], asked: set[str]) -> None:
    for statement in body:
        match statement:
            case ir.Assign(targets=targets, value=value):
                asked |= _names(value) - anew
                _assigned(targets, anew, asked)
            case ir.With(items=items, body=inner):
                asked |= _names(tuple(item.context for item in items)) - anew
                _through(inner, anew, asked)
            case _:
                asked |= _names(statement) - anew


def _assigned(targets: Iterable[ir.Expr], anew: set[str], asked: set[str]) -> None:
    for target in targets:
        match target:
            case ir.Name(id=name):
                anew |= {name} - asked
            case ir.Seq(items=items):
                _assigned(items, anew, asked)
            case _:
                asked |= _names(target) - anew


def _names(node: object) -> set[str]:
    return {one.id for one in ir.walk(node, functions=True) if isinstance(one, ir.Name)}
