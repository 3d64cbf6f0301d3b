"""All that is given to a variable: a stream, whichever way a program takes?

What is given to fields is not asked: methods, heirs and any code that has the object may give them something,
in ways that no text tells.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from streamlint.fixes.ways import (
    STREAMS,
    around,
    at_top,
    before,
    key,
    makes,
    parameter,
    part,
)
from streamlint.frozen import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.fixes.places import Place
    from streamlint.fixes.text import Given

DEEPEST = 3
"""Names that stand for names: ``front, back = back, front`` goes round."""


def all_given(place: Place, name: str) -> Sequence[Given]:
    """All that is given to a variable, where some of it surely has been; else nothing.

    Of a function: all that its text gives, and one of it on each way to the place.

    Of the module: its one assignment, in front of the function. So no call comes before it, and no other code
    assigns again.
    """
    source, scope = place.source, place.source.scope(place.statement)
    home = source.home(name, place.statement)
    given = source.given(home).get(key(ast.Name(name, ast.Load())), [])
    if parameter(home, name) is not None or home not in (scope, source.tree):
        return ()
    if home is not source.tree:
        kept = [each for each in given if not _is_later(place, each)]
        sure = name not in source.uses.outer and any(_is_done(place, each) for each in kept)
        return kept if sure else ()
    if source.takes_all or source.stores(name) or not place.surroundings.is_given_here_alone(source, name):
        return ()
    if scope is source.tree:
        return given if any(_is_done(place, each) for each in given) else ()
    alone = len(given) == 1 and given[0].statement in source.tree.body
    return given if alone and source.tree.body.index(given[0].statement) < at_top(place) else ()


def _is_later(place: Place, given: Given) -> bool:
    """``del x`` further down, and no loop leads back from there."""
    loops = any(isinstance(each, (ast.For, ast.While)) for each in around(place))
    return (
        isinstance(given.statement, ast.Delete)
        and given.statement.lineno > place.statement.lineno
        and not loops
    )


def _is_done(place: Place, given: Given) -> bool:
    """Whether something has surely been given, when a line runs at the place."""
    return any(each is given.statement for each in before(place))


def gives_stream(place: Place, given: Given, to: ast.expr, depth: int = 0) -> bool:
    """Whether what is given is made by a library on the spot, or stands for such a thing."""
    source, there = place.source, replace(place, statement=given.statement, behind=False)
    value = part(given, to)
    if value is None:
        return False
    if isinstance(value, ast.Name) and source.path_of(value) is None and depth < DEEPEST:
        inner = all_given(there, value.id)
        return bool(inner) and all(gives_stream(there, each, value, depth + 1) for each in inner)
    return makes(source, value, STREAMS, given.statement)
