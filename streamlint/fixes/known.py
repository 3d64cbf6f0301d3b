"""All that is given to a variable or a field: a stream, whichever way a program takes?"""

from __future__ import annotations

import ast
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from streamlint.fixes.ways import (
    STREAMS,
    around,
    at_top,
    before,
    is_harmless,
    is_name,
    key,
    makes,
    parameter,
    part,
)
from streamlint.interp.state.project import PLAIN_BASES
from streamlint.models import vocabulary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.fixes.places import Place
    from streamlint.fixes.text import Given, Source

_OF_OTHERS = vocabulary.ROOTS | sys.stdlib_module_names
"""Packages that are not the tree's."""
DEEPEST = 3
"""Names that stand for names: ``front, back = back, front`` goes round."""


def all_given(place: Place, expression: ast.expr) -> Sequence[Given]:
    """All that is given to a variable or field, where some of it surely has been; else nothing."""
    match expression:
        case ast.Name(id=name):
            return _given_to_variable(place, name)
        case ast.Attribute(value=ast.Name(id=owner), attr=name):
            return _given_to_field(place, owner, name)
        case _:
            return ()


def _given_to_variable(place: Place, name: str) -> Sequence[Given]:
    """Of a function: all that its text gives, and one of it on each way to the place.

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
    if source.takes_all or _stores(source, name) or not place.surroundings.is_given_here_alone(source, name):
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


def _given_to_field(place: Place, owner: str, name: str) -> Sequence[Given]:
    """``self.side = torch.cuda.Stream()`` on each way through the constructor, and nothing else anywhere."""
    source, scope = place.source, place.source.scope(place.statement)
    cls = source.owners.get(scope)
    if not (isinstance(cls, ast.ClassDef) and _own(source, scope) == owner and _is_plain(source, cls)):
        return ()
    made, stores = _constructor(cls), _stores(source, name, cls)
    if made is None or len(stores) != 1 or source.scope(stores[0].statement) is not made:
        return ()
    if _field(_own(source, made), name) not in source.given(stores[0].statement):
        return ()
    if not place.surroundings.is_given_here_alone(source, name) or place.surroundings.is_inherited(cls):
        return ()
    if scope is made:
        return stores if _is_done(place, stores[0]) else ()
    if stores[0].statement not in made.body or any(isinstance(node, ast.Return) for node in ast.walk(made)):
        return ()
    earlier = made.body[: made.body.index(stores[0].statement)]
    return () if any(_hands_on(source, each, cls) for each in earlier) else stores


def _stores(source: Source, name: str, cls: ast.ClassDef | None = None) -> list[Given]:
    """What a file gives to attributes of a name, but for those of the objects of other classes than one.

    Where a class is made from none of the tree, and none from it, no object of it is another's ``self``.
    """
    found: list[Given] = []
    for target, given in source.stores(name):
        scope = source.scope(given.statement) if given.statement in source.owners else None
        owner = source.owners.get(scope) if isinstance(scope, ast.FunctionDef) else scope
        is_own = scope is owner or target == _field(_own(source, scope), name)
        of_class = isinstance(owner, ast.ClassDef) and is_own
        if not of_class or owner is cls:
            found.append(given)
    return found


def _field(owner: str, name: str) -> str:
    return key(ast.Attribute(ast.Name(owner, ast.Load()), name, ast.Load()))


def _own(source: Source, scope: ast.AST | None) -> str:
    """The name of what a method is called on, if nothing else is given to it."""
    if not (isinstance(scope, ast.FunctionDef) and all(is_harmless(source, d) for d in scope.decorator_list)):
        return ""
    first = next((each.arg for each in (*scope.args.posonlyargs, *scope.args.args)), "")
    return "" if source.given(scope).get(key(ast.Name(first, ast.Load()))) else first


def _is_plain(source: Source, cls: ast.ClassDef) -> bool:
    """Whether objects have the fields that their constructor gives them, as far as the class itself says.

    It may be made from classes of the libraries and of Python, but from none of the tree.
    """
    bases = [(source.path_of(each) or "").split(".") for each in cls.bases]
    known = all(path[0] in _OF_OTHERS and path[-1] in PLAIN_BASES for path in bases)
    special = any(isinstance(each, ast.FunctionDef) and _is_special(each.name) for each in cls.body)
    return known and not (cls.decorator_list or cls.keywords or special)


def _is_special(name: str) -> bool:
    """Whether a method makes objects, or reads and stores their fields, in a way of its own."""
    return name.startswith("__") and name.endswith("__") and name not in _PLAIN


_PLAIN = frozenset("__init__ __call__ __enter__ __exit__ __iter__ __next__ __len__ __getitem__".split())


def _constructor(cls: ast.ClassDef) -> ast.FunctionDef | None:
    found = [each for each in cls.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
    return found[0] if len(found) == 1 and not found[0].decorator_list else None


def _hands_on(source: Source, statement: ast.stmt, cls: ast.ClassDef) -> bool:
    """Whether other code gets the object before its constructor has set the field: ``self.start()``.

    ``super().__init__()`` makes it, and what is behind a decorator may be a property: ``self.mode = "fast"``.
    """
    nodes, own = list(ast.walk(statement)), _own(source, source.scope(statement))
    called = {node.func for node in nodes if isinstance(node, ast.Call)}
    decorated = {each.name for each in cls.body if isinstance(each, ast.FunctionDef) and each.decorator_list}
    plain = {
        node.value
        for node in nodes
        if isinstance(node, ast.Attribute)
        and (node.attr == "__init__" or not (node in called or node.attr in decorated))
    }
    objects = (
        node
        for node in nodes
        if is_name(node, own) or (isinstance(node, ast.Call) and is_name(node.func, "super"))
    )
    return any(node not in plain for node in objects)


def gives_stream(place: Place, given: Given, to: ast.expr, depth: int = 0) -> bool:
    """Whether what is given is made by a library on the spot, or stands for such a thing."""
    source, there = place.source, replace(place, statement=given.statement, behind=False)
    value = part(given, to)
    if value is None:
        return False
    if isinstance(value, (ast.Name, ast.Attribute)) and source.path_of(value) is None and depth < DEEPEST:
        inner = all_given(there, value)
        return bool(inner) and all(gives_stream(there, each, value, depth + 1) for each in inner)
    return makes(source, value, STREAMS, given.statement)
