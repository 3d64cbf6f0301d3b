"""Which parameters of a method are keys of what its object holds: ``self.slots[i]``, ``self.done.pop(name)``.

Who calls ``prefetch(layer)`` and then ``wait(layer)`` means one layer by both: of two methods of an object,
keys of one attribute are taken to be equal. Tensors that are indices are memory, and no keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.state.kept import Kept
from streamlint.models import python

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.state.project import Project
    from streamlint.source import Span

_KEYS: Kept[tuple[Span, Span], dict[str, frozenset[str]]] = Kept()


def of(project: Project, cls: ir.ClassDecl, decl: ir.FunctionDecl) -> dict[str, frozenset[str]]:
    """Parameters of a method that are keys, or that it computes keys of, each with the attributes of which.

    What it passes on to other methods of the object counts too: ``self._load(layer)``.
    """
    known, question = project.kept(_KEYS), (cls.span, decl.span)
    if question not in known:
        known[question] = {}  # where methods call each other in a circle
        found: dict[str, set[str]] = {}
        function = ir.code_of(decl)
        if function is not None and function.params:
            receiver, *params = (param.name for param in function.params)
            sources = _sources(function, frozenset(params))
            for name, attribute in _uses(project, cls, function, receiver):
                for param in sources.get(name, frozenset()):
                    found.setdefault(param, set()).add(attribute)
        known[question] = {name: frozenset(attributes) for name, attributes in found.items()}
    return known[question]


def goes_on(project: Project, cls: ir.ClassDecl, decl: ir.FunctionDecl) -> bool:
    """Whether a method computes another key from the one that it gets: ``self._load(layer + 1)``."""
    keys, function = of(project, cls, decl), ir.code_of(decl)
    return function is not None and any(
        isinstance(node, ir.Binary) and not keys.keys().isdisjoint(_in(node))
        for node in ir.walk(function.body)
    )


def _sources(function: ir.Function, params: frozenset[str]) -> dict[str, frozenset[str]]:
    """The parameters that a name is computed of: ``slot = layer % 2``."""
    sources = {name: frozenset({name}) for name in params}
    for node in ir.walk(function.body):
        match node:
            case ir.Assign(targets=(ir.Name(id=bound),), value=value) if bound not in params:
                sources[bound] = frozenset().union(*(sources.get(name, frozenset()) for name in _in(value)))
            case _:
                pass
    return sources


def _uses(
    project: Project, cls: ir.ClassDecl, function: ir.Function, receiver: str
) -> Iterator[tuple[str, str]]:
    """Names in the keys of attributes of the object."""
    for node in ir.walk(function.body):
        match node:
            case ir.Index(value=owner, index=key) | ir.Compare(op="in" | "not in", left=key, right=owner):
                yield from _pairs(key, _attribute(owner, receiver))
            case ir.Call(func=ir.Attr(value=ir.Name(id=owner), name=name), args=args) if owner == receiver:
                method = next((c.methods[name] for c in project.ancestors(cls)[0] if name in c.methods), None)
                inner = of(project, cls, method) if method is not None else {}
                for param, argument in _passed(method, args) if inner else ():
                    for attribute in inner.get(param, ()):
                        yield from _pairs(argument, attribute)
            case ir.Call(func=ir.Attr(value=owner, name=name), args=(first, *_)) if name in python.TAKES_KEY:
                yield from _pairs(first.value, _attribute(owner, receiver))
            case _:
                pass


def _passed(method: ir.FunctionDecl | None, args: tuple[ir.Arg, ...]) -> Iterator[tuple[str, ir.Expr]]:
    function = ir.code_of(method) if method is not None else None
    places = [param.name for param in function.params[1:]] if function is not None else []
    for place, argument in enumerate(args):
        if argument.keyword is not None:
            yield argument.keyword, argument.value
        elif not argument.star and place < len(places):
            yield places[place], argument.value


def _pairs(key: ir.Expr, attribute: str) -> Iterator[tuple[str, str]]:
    return ((name, attribute) for name in (_in(key) if attribute else ()))


def _in(key: ir.Expr) -> Iterator[str]:
    """The names that a key is computed of: not ``self.order[i]``, which is another one."""
    waiting: list[ir.Expr] = [key]
    while waiting:
        match waiting.pop():
            case ir.Name(id=name):
                yield name
            case ir.Binary(left=left, right=right):
                waiting += [left, right]
            case ir.Seq(items=items):
                waiting += items
            case ir.Call(func=ir.Name(id=name), args=args) if name in python.GIVES_KEY:
                waiting += [arg.value for arg in args]
            case _:
                pass


def _attribute(owner: ir.Expr, receiver: str) -> str:
    """The attribute of the object in ``self.pages[layer]``, ``self.pools.pages``; ``""`` if there is none."""
    while True:
        match owner:
            case ir.Attr(value=ir.Name(id=name), name=attribute):
                return attribute if name == receiver else ""
            case ir.Attr(value=value) | ir.Index(value=value):
                owner = value
            case _:
                return ""
