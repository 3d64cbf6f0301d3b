"""What all code in sight gives to a field: its class, those it is made from, its heirs, and other modules.

``self.side = torch.cuda.Stream()`` in one method says little where an heir sets ``self.side = None``, a base
has ``side = None`` in its body, or somebody else writes ``worker.side = None``.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from streamlint.fixes.sight import is_object_of_library
from streamlint.fixes.text import Given, Source, flat, gifts
from streamlint.frozen import frozen
from streamlint.interp.facts.relevance import all_classes
from streamlint.interp.state.values import ApiV

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from streamlint import ir
    from streamlint.interp.state.project import Project

ANY = "*"
"""The name of a field that is computed: ``setattr(self, name, value)``."""
MOST_TEXTS = 1_000
"""Of so many files it is kept which fields of which classes they store."""
Owner: TypeAlias = "tuple[str, int]"
"""The name of a class, and its line."""


@frozen()
class Stored:
    """Something that is given to a field."""

    given: Given
    cls: ast.ClassDef | None
    """The class whose object it is, or in whose body it stands; None where the text does not tell."""
    in_body: bool = False

    @property
    def owner(self) -> Owner | None:
        return None if self.cls is None else (self.cls.name, self.cls.lineno)


@frozen()
class Telling:
    """A module that gives something to a field."""

    source: Source
    returns: Callable[[ast.Call], bool] | None
    """As for ``Presence``; None for the module of the field itself."""
    stored: Stored


@dataclass(slots=True)
class Fields:
    """Asks the modules of one project."""

    project: Project
    text: Callable[[str], str | None]
    sources: Callable[[str], Source | None]
    _stored: dict[str, dict[str, list[Stored]]] = field(default_factory=dict)

    def given(self, source: Source, cls: ast.ClassDef, name: str) -> Iterator[Telling]:
        """All that code gives to a field of the objects of a class, the file of the class first."""
        home = next(
            (each for each in self.project.modules.values() if each and each.path == source.path), None
        )
        decl = _declared(home, (cls.name, cls.lineno))
        order = self.project.ancestors(decl)[0] if decl is not None else []
        telling = dict.fromkeys([*(each.module for each in order), *self.project.storing(name)])
        found = (self.project.module(each) for each in telling)
        others = [each for each in found if each is not None and each is not home]
        family = self._family(decl, [*others, *([home] if home is not None else [])])
        for stored in self._of(source, name):
            if stored.cls is cls or _may_be_of(home, stored.owner, family):
                yield Telling(source, None, stored)
        for module in others:  # most store such a field of other classes, and need not be parsed
            if any(_may_be_of(module, each, family) for each in self._owners(module, name)):
                yield from self._told_by(module, name, family)

    def is_put(self, name: str) -> bool:
        """Whether a module gives an attribute of this name to who knows what: ``streams.make = other``."""
        modules = (self.project.module(each) for each in self.project.storing(name))
        return any(None in self._owners(module, name) for module in modules if module is not None)

    def _told_by(self, module: ir.Module, name: str, family: set[ir.ClassDecl]) -> Iterator[Telling]:
        source = self.sources(module.path)
        if source is None:
            return
        for stored in self._of(source, name):
            if _may_be_of(module, stored.owner, family):
                yield Telling(source, self._returns(module), stored)

    def _owners(self, module: ir.Module, name: str) -> frozenset[Owner | None]:
        """The classes of whose objects a module stores a field."""
        text = self.text(module.path)
        stored = _owners_by_field(module.path, text) if text is not None else {}
        return stored.get(name, frozenset()) | (stored.get(ANY, frozenset()) - {None})

    def _family(self, cls: ir.ClassDecl | None, modules: list[ir.Module]) -> set[ir.ClassDecl]:
        """The classes whose methods may run with an object of the class, or an heir, as their own."""
        orders = [self.project.ancestors(each)[0] for module in modules for each in all_classes(module)]
        return {each for order in orders if cls in order for each in order}

    def _of(self, source: Source, name: str) -> list[Stored]:
        if source.path not in self._stored:
            self._stored[source.path] = _by_field(source)
        computed = (each for each in self._stored[source.path].get(ANY, ()) if each.cls is not None)
        return [*self._stored[source.path].get(name, ()), *computed]

    def _returns(self, module: ir.Module) -> Callable[[ast.Call], bool]:
        def returns(call: ast.Call) -> bool:
            called = self.project.named(module.name, ast.unparse(call.func))
            return isinstance(called, ApiV) and is_object_of_library(called.path, call)

        return returns


def _by_field(source: Source) -> dict[str, list[Stored]]:
    found: dict[str, list[Stored]] = {}
    for node in ast.walk(source.tree):
        for target, given in (*gifts(node), *_set_by_name(node)):
            for each in flat(target):
                for to, stored in _stored(source, each, given):
                    found.setdefault(to, []).append(stored)
    return found


@lru_cache(maxsize=MOST_TEXTS)
def _owners_by_field(path: str, text: str) -> Mapping[str, frozenset[Owner | None]]:
    """The same without trees, kept from file to file: each asks all that store a field of some name."""
    source = Source.of(path, text)
    found = _by_field(source) if source is not None else {}
    return {name: frozenset(each.owner for each in stored) for name, stored in found.items()}


def _may_be_of(module: ir.Module | None, cls: Owner | None, family: set[ir.ClassDecl]) -> bool:
    """Whether an object of a class of a module may be one of a family, for all that the text tells."""
    owner = _declared(module, cls) if cls is not None else None
    return owner is None or owner in family


def _declared(module: ir.Module | None, cls: Owner) -> ir.ClassDecl | None:
    declared = all_classes(module) if module is not None else ()
    return next((each for each in declared if (each.name, each.span.line) == cls), None)


def _set_by_name(node: ast.AST) -> Iterator[tuple[ast.expr, Given]]:
    """``setattr(worker, "side", None)``, also ``object.__setattr__(self, "side", None)``."""
    match node:
        case ast.Expr(
            value=ast.Call(
                func=ast.Name(id="setattr") | ast.Attribute(attr="__setattr__"), args=[owner, name, value]
            )
        ):
            to = name.value if isinstance(name, ast.Constant) else ANY
            yield ast.Attribute(owner, str(to), ast.Load()), Given(node, value)
        case _:
            pass


def _stored(source: Source, target: ast.expr, given: Given) -> Iterator[tuple[str, Stored]]:
    match target:
        case ast.Attribute(value=ast.Name(id=owner), attr=name):
            yield name, Stored(given, _class_of(source, owner, given.statement))
        case ast.Attribute(attr=name):
            yield name, Stored(given, None)
        case ast.Name(id=name) if given.statement in source.owners:
            scope = source.scope(given.statement)
            if isinstance(scope, ast.ClassDef):
                yield name, Stored(given, scope, in_body=True)
        case _:
            pass


def _class_of(source: Source, name: str, at: ast.stmt) -> ast.ClassDef | None:
    """The class whose object the name is, because it is what a method is called on."""
    node: ast.AST = source.owners.get(at, source.tree)
    while node is not source.tree:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and any(
            each.arg == name for each in (*node.args.posonlyargs, *node.args.args)[:1]
        ):
            scope = source.scope(node)
            return scope if isinstance(scope, ast.ClassDef) else None
        node = source.owners[node]
    return None
