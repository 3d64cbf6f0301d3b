"""All that is given to a variable, a field or a list: a stream, whichever way a program takes?"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from streamlint.fixes.text import Given, unconditional
from streamlint.fixes.ways import STREAMS, Each, around, at_top, before, is_name, key, makes, parameter, part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.fixes.places import Place
    from streamlint.fixes.text import Source

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
    if source.takes_all or place.fields.is_put(name):
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
    """Whether something has surely been given, when a line runs at the place; or is, by a loop around it."""
    loops = (each for each in around(place) if isinstance(each, ast.For))
    return any(each is given.statement for each in (*before(place), *loops))


def _given_to_field(place: Place, owner: str, name: str) -> Sequence[Given]:
    """``self.side = torch.cuda.Stream()`` on each way through the constructor, and nothing else anywhere.

    All code in sight is asked that may store a field of such an object: heirs, other modules, ``__dict__``,
    ``setattr``, properties, and methods that make objects without their constructor.
    """
    source, cls = place.source, _class_of(place, owner)
    if cls is None or cls.decorator_list or cls.keywords:
        return ()
    given, made = place.fields.only(source, cls, name), _constructor(cls)
    if given is None or made is None or source.scope(given.statement) is not made:
        return ()
    if source.scope(place.statement) is made:
        return [given] if _is_done(place, given) else ()
    if given.statement not in made.body or any(isinstance(node, ast.Return) for node in ast.walk(made)):
        return ()
    earlier = made.body[: made.body.index(given.statement)]
    return () if any(_hands_on(each, made.args) for each in earlier) else [given]


def _class_of(place: Place, owner: str) -> ast.ClassDef | None:
    """The class of what a method is called on, or of what the function has made: ``loader = Loader()``."""
    source, scope = place.source, place.source.scope(place.statement)
    around = source.owners.get(scope)
    if isinstance(scope, ast.FunctionDef) and isinstance(around, ast.ClassDef):
        first = [each.arg for each in (*scope.args.posonlyargs, *scope.args.args)][:1]
        lent = (around.name, scope.name) in source.uses.members  # Worker.run(other, x)
        if first == [owner]:
            return (
                around if not lent and not source.given(scope).get(key(ast.Name(owner, ast.Load()))) else None
            )
    made = {
        given.statement
        for each in all_given(place, ast.Name(owner, ast.Load()))
        for given in source.given(source.tree).get(_called(part(each, ast.Name(owner, ast.Load()))), [each])
    }
    cls = made.pop() if len(made) == 1 else None
    return cls if isinstance(cls, ast.ClassDef) and cls in source.tree.body else None


def _called(value: ast.expr | Each | None) -> str:
    return key(value.func) if isinstance(value, ast.Call) else ""


def _constructor(cls: ast.ClassDef) -> ast.FunctionDef | None:
    found = [each for each in cls.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
    return found[0] if len(found) == 1 and not found[0].decorator_list else None


def _hands_on(statement: ast.stmt, parameters: ast.arguments) -> bool:
    """Whether other code gets the object before its constructor has set the field: ``self.start()``."""
    own = [*parameters.posonlyargs, *parameters.args][0].arg
    told = sum(is_name(node, own) for node in ast.walk(statement))
    plain = sum(isinstance(node, ast.Attribute) and is_name(node.value, own) for node in ast.walk(statement))
    called = any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and is_name(node.func.value, own)
        for node in ast.walk(statement)
    )
    return called or told > plain


def gives_stream(place: Place, given: Given, to: ast.expr, depth: int = 0) -> bool:
    """Whether what is given is made by a library on the spot, stands for such a thing, or is one of many."""
    source, there = place.source, replace(place, statement=given.statement, behind=False)
    value = part(given, to)
    match value:
        case Each(container):
            return holds_streams(there, container)
        case ast.Subscript(value=container):
            return holds_streams(there, container)
        case ast.Name() | ast.Attribute() if source.path_of(value) is None and depth < DEEPEST:
            inner = all_given(there, value)
            return bool(inner) and all(gives_stream(there, each, value, depth + 1) for each in inner)
        case ast.expr():
            return makes(source, value, STREAMS, given.statement)
        case _:
            return False


def holds_streams(place: Place, container: ast.expr) -> bool:
    """Whether all elements of a container are streams, whichever is taken."""
    given = all_given(place, container)
    lists = (part(each, container) for each in given)
    return (
        bool(given)
        and all(_length(place.source, each) is not None for each in lists)
        and _is_only_looked_into(place, container)
    )


def _length(source: Source, made: ast.expr | Each | None) -> int | None:
    """How many streams a list has that is written out; 0: perhaps none, None: it holds other things."""
    match made:
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return len(items) if all(makes(source, each, STREAMS) for each in items) else None
        case ast.ListComp(elt=item, generators=[ast.comprehension(iter=walked, ifs=[], is_async=0)]):
            if not makes(source, item, STREAMS):
                return None
            match walked:
                case ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int() as number)]):
                    return number
                case _:
                    return 0
        case _:
            return None


def has(source: Source, made: ast.expr | Each | None, index: ast.expr) -> bool:
    length = _length(source, made)
    return (
        isinstance(index, ast.Constant) and isinstance(index.value, int) and 0 <= index.value < (length or 0)
    )


def _is_only_looked_into(place: Place, container: ast.expr) -> bool:
    """Whether nobody gets a list itself, to put None into it: its elements are taken, or walked over."""
    name = f".{container.attr}" if isinstance(container, ast.Attribute) else getattr(container, "id", "")
    return name not in place.source.uses.handed_on


def is_evaluated_beside(place: Place, expression: ast.expr) -> bool:
    """``with torch.cuda.stream(ring[i % 2]):`` at the place: then it does not fail in front of it either."""
    wanted = key(expression)
    held = place.source.given(place.statement)
    fixed = not any(key(node) in held for node in ast.walk(expression) if isinstance(node, ast.expr))
    items = place.statement.items if isinstance(place.statement, ast.With) else [place.statement]
    return fixed and any(
        key(part) == wanted for each in items for part in unconditional(each) if isinstance(part, ast.expr)
    )
