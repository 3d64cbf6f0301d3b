"""What all code in sight gives to a field: its class, those it is made from, its heirs, and other modules.

``self.side = torch.cuda.Stream()`` in one method says little where an heir sets ``self.side = None``, a base
has ``side = None`` in its body, or somebody else writes ``worker.side = None``.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streamlint.fixes.sight import is_object_of_library
from streamlint.fixes.text import Given, Source, flat, gifts
from streamlint.frozen import frozen
from streamlint.interp.facts.relevance import all_classes
from streamlint.interp.state.values import ApiV

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streamlint import ir
    from streamlint.interp.state.project import Project

ANY = "*"
"""The name of a field that is computed: ``setattr(self, name, value)``."""


@frozen()
class Stored:
    """Something that is given to a field."""

    given: Given
    cls: ast.ClassDef | None
    """The class whose object it is, or in whose body it stands; None where the text does not tell."""
    in_body: bool = False


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
    sources: Callable[[str], Source | None]
    _stored: dict[str, dict[str, list[Stored]]] = field(default_factory=dict)

    def given(self, source: Source, cls: ast.ClassDef, name: str) -> Iterator[Telling]:
        """All that code gives to a field of the objects of a class, the file of the class first."""
        home = next(
            (each for each in self.project.modules.values() if each and each.path == source.path), None
        )
        decl = _declared(home, cls)
        order = self.project.ancestors(decl)[0] if decl is not None else []
        telling = dict.fromkeys([*(each.module for each in order), *self.project.storing(name)])
        found = (self.project.module(each) for each in telling)
        others = [each for each in found if each is not None and each is not home]
        family = self._family(decl, [*others, *([home] if home is not None else [])])
        for module in (home, *others):
            text = self.sources(module.path) if module is not None and module is not home else source
            for stored in self._of(text, name) if text is not None else ():
                owner = _declared(module, stored.cls) if stored.cls is not None else None
                if stored.cls is cls or owner is None or owner in family:
                    yield Telling(
                        text or source, self._returns(module) if module is not home else None, stored
                    )

    def _family(self, cls: ir.ClassDecl | None, modules: list[ir.Module]) -> set[ir.ClassDecl]:
        """The classes whose methods may run with an object of the class, or an heir, as their own."""
        orders = [self.project.ancestors(each)[0] for module in modules for each in all_classes(module)]
        return {each for order in orders if cls in order for each in order}

    def _of(self, source: Source, name: str) -> list[Stored]:
        if source.path not in self._stored:
            found: dict[str, list[Stored]] = {}
            for node in ast.walk(source.tree):
                for target, given in (*gifts(node), *_set_by_name(node)):
                    for each in flat(target):
                        for to, stored in _stored(source, each, given):
                            found.setdefault(to, []).append(stored)
            self._stored[source.path] = found
        computed = (each for each in self._stored[source.path].get(ANY, ()) if each.cls is not None)
        return [*self._stored[source.path].get(name, ()), *computed]

    def _returns(self, module: ir.Module | None) -> Callable[[ast.Call], bool]:
        def returns(call: ast.Call) -> bool:
            called = self.project.named(module.name, ast.unparse(call.func)) if module is not None else None
            return isinstance(called, ApiV) and is_object_of_library(called.path, call)

        return returns


def _declared(module: ir.Module | None, cls: ast.ClassDef) -> ir.ClassDecl | None:
    declared = all_classes(module) if module is not None else ()
    return next((each for each in declared if (each.name, each.span.line) == (cls.name, cls.lineno)), None)


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
