"""What a line can rely on at a place: what surely has run before, and what a library gave to its names."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from streamlint import models
from streamlint.fixes.text import SCOPES, Given
from streamlint.models.schema import (
    CurrentStream,
    DefaultStream,
    EnterStream,
    ForeignStream,
    NewDevice,
    NewStream,
    Role,
)
from streamlint.models.torch import WITHOUT_GRADIENTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.fixes.places import Place
    from streamlint.fixes.text import Source
    from streamlint.models.schema import Api, Effect

STREAMS = (NewStream, CurrentStream, DefaultStream, ForeignStream)
"""Effects of calls that return a stream."""
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


# ----------------------------------------------------------------------------- ways to a place


def around(place: Place) -> Iterator[ast.stmt]:
    """The statements in which the place stands, up to its function."""
    node = place.source.owners[place.statement]
    while isinstance(node, ast.stmt) and not isinstance(node, SCOPES):
        yield node
        node = place.source.owners[node]


def before(place: Place) -> Iterator[ast.stmt]:
    """The statements that have run to their end, on each way on which a line runs at the place."""
    if place.behind:
        yield from _run(place.source, place.statement)
    for node in (place.statement, *around(place)):
        block = place.source.block(node)
        for each in block[: block.index(node)]:
            yield from _run(place.source, each)


def _run(source: Source, statement: ast.stmt) -> Iterator[ast.stmt]:
    yield statement
    if isinstance(statement, ast.With) and is_known(source, statement):
        for each in statement.body:
            yield from _run(source, each)


def is_known(source: Source, statement: ast.With) -> bool:
    """Whether each manager selects a stream or turns gradients off: nothing else, and swallows nothing."""
    return all(
        is_harmless(source, each.context_expr)
        or is_only(source, each.context_expr, statement, STREAMS)
        or (
            isinstance(each.context_expr, ast.Call)
            and row_of(source, each.context_expr, (EnterStream,)) is not None
        )
        for each in statement.items
    )


def is_harmless(source: Source, expression: ast.expr) -> bool:
    called = expression.func if isinstance(expression, ast.Call) else expression
    return source.path_of(called) in WITHOUT_GRADIENTS


def at_top(place: Place) -> int:
    """Which statement of the file holds the place."""
    node: ast.AST = place.statement
    while place.source.owners[node] is not place.source.tree:
        node = place.source.owners[node]
    assert isinstance(node, ast.stmt)
    return place.source.tree.body.index(node)


def parameter(scope: ast.AST, name: str) -> ast.arg | None:
    if not isinstance(scope, (*FUNCTIONS, ast.Lambda)):
        return None
    return next(
        (each for each in ast.walk(scope.args) if isinstance(each, ast.arg) and each.arg == name), None
    )


# ----------------------------------------------------------------------------- what is given


def part(given: Given, to: ast.expr) -> ast.expr | None:
    """What a statement gives to one of its targets; None where the text does not tell."""
    match given.statement:
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)) if len(names) == len(
            values
        ):
            return next(
                (value for name, value in zip(names, values, strict=True) if key(name) == key(to)), None
            )
        case ast.Assign(targets=[ast.Tuple(elts=[_, last])], value=ast.Call() as call) if key(last) == key(
            to
        ):
            return ast.Subscript(call, ast.Constant(1), ast.Load())  # err, s = cudaStreamCreate()
        case ast.Assign(targets=[ast.Tuple() | ast.List(), *_]):
            return None
        case ast.Assign(value=value) | ast.AnnAssign(value=value):
            return value
        case _:
            return None


def makes(
    source: Source, value: ast.expr, kinds: tuple[type[Effect], ...], at: ast.stmt | None = None
) -> bool:
    """Whether an expression is a call by which a library makes an object of a kind."""
    match value:
        case ast.IfExp(body=one, orelse=other):
            return makes(source, one, kinds, at) and makes(source, other, kinds, at)
        case ast.Call(func=ast.Attribute(value=ast.Name() | ast.Call() as device, attr=method)) if (
            source.path_of(value.func) is None
        ):  # dev.create_stream()
            found = models.find_method(Role.DEVICE, None, method)
            return found is not None and found[1].has(*kinds) and is_only(source, device, at, (NewDevice,))
        case ast.Call():
            row = row_of(source, value, kinds)
            return row is not None and not row.status
        case ast.Subscript(value=ast.Call() as call, slice=ast.Constant(value=1)):  # cudaStreamCreate()[1]
            row = row_of(source, call, kinds)
            return row is not None and row.status
        case _:
            return False


def is_only(source: Source, thing: ast.expr, at: ast.stmt | None, kinds: tuple[type[Effect], ...]) -> bool:
    """Whether a thing that is used is what a library makes, if it is there at all: ``with lane:``."""
    match thing:
        case ast.Call():
            return makes(source, thing, kinds, at)
        case ast.Name(id=name) if at is not None:
            home = source.home(name, at)
            given = source.given(home).get(key(thing), [])
            made = (part(each, thing) for each in given)
            return bool(given) and all(m is not None and makes(source, m, kinds, at) for m in made)
        case _:
            return False


def row_of(source: Source, call: ast.Call, kinds: tuple[type[Effect], ...]) -> Api | None:
    """The row of a library's function that is called, if it has an effect of a kind."""
    row = models.find_function(source.path_of(call.func) or "")
    return row[1] if row is not None and row[1].has(*kinds) else None


def key(expression: ast.AST) -> str:
    """As ``Source.given`` has it."""
    return ast.dump(expression).replace("ctx=Store()", "ctx=Load()")
