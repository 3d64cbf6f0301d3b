"""What one run finds out about fields and families of classes, from file to file.

Each file with a fix asks the same modules: which fields of which classes they store, and which classes are
made from which.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from streamlint import ir
from streamlint.fixes.text import Given, Source, flat, gifts
from streamlint.frozen import frozen
from streamlint.interp.facts.relevance import all_classes
from streamlint.interp.state.project import Project

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping


ANY = "*"
"""The name of a field that is computed: ``setattr(self, name, value)``."""
MOST_TEXTS = 1_000
"""Of so many files it is kept, from run to run, which fields of which classes they store."""
Owner: TypeAlias = "tuple[str, int]"
"""The name of a class, and its line."""
Orders: TypeAlias = "Mapping[ir.ClassDecl, list[list[ir.ClassDecl]]]"
"""By class, the classes of which some heir is made, in the order in which Python asks them."""


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


@dataclass(slots=True)
class Families:
    """The classes of a tree, and the fields that are stored."""

    load: Callable[[str], ir.Module | None]
    """Notes what is looked up: what is found rests on it."""
    text: Callable[[str], str | None]
    _owners: dict[str, Mapping[str, frozenset[Owner | None]]] = field(default_factory=dict)
    _orders: dict[str, tuple[Orders, frozenset[str]]] = field(default_factory=dict)

    def owners(self, module: ir.Module, name: str) -> frozenset[Owner | None]:
        """The classes of whose objects a module stores a field."""
        stored = self._owners.get(module.path)
        if stored is None:
            text = self.text(module.path)
            stored = {} if text is None else _owners_by_field(module.path, text)
            self._owners[module.path] = stored
        return stored.get(name, frozenset()) | (stored.get(ANY, frozenset()) - {None})

    def of(self, cls: ir.ClassDecl | None, modules: Iterable[ir.Module]) -> set[ir.ClassDecl]:
        """The classes whose methods may run with an object of the class, or an heir, as their own."""
        if cls is None:
            return set()
        orders = (order for module in modules for order in self._orders_in(module).get(cls, ()))
        return {each for order in orders for each in order}

    def _orders_in(self, module: ir.Module) -> Orders:
        """The classes of a module, each with all that it is made from, by each of these."""
        if module.name not in self._orders:
            looked_up: set[str] = set()

            def load(name: str) -> ir.Module | None:
                looked_up.add(name)
                return self.load(name)

            project, orders = Project(load), dict[ir.ClassDecl, list[list[ir.ClassDecl]]]()
            for heir in all_classes(module):
                order = project.ancestors(heir)[0]
                for each in order:
                    orders.setdefault(each, []).append(order)
            self._orders[module.name] = orders, frozenset(looked_up)
        known, rests_on = self._orders[module.name]
        for name in rests_on:  # and so does the result of each file that asks
            self.load(name)
        return known


def by_field(source: Source) -> dict[str, list[Stored]]:
    """What the text of a file gives to fields, and to names in the bodies of classes."""
    found: dict[str, list[Stored]] = {}
    for node in source.owners:
        by_name = _by_name(node) if isinstance(node, ast.stmt) else ()
        for target, given in (*gifts(node), *by_name):
            for each in flat(target):
                for to, stored in _stored(source, each, given):
                    found.setdefault(to, []).append(stored)
    return found


@lru_cache(maxsize=MOST_TEXTS)
def _owners_by_field(path: str, text: str) -> Mapping[str, frozenset[Owner | None]]:
    """The same without trees."""
    source = Source.of(path, text)
    found = by_field(source) if source is not None else {}
    return {name: frozenset(each.owner for each in stored) for name, stored in found.items()}


def _by_name(statement: ast.stmt) -> Iterator[tuple[ast.expr, Given]]:
    """Fields that are reached without their name behind a dot: ``vars(self).update(d)``.

    A name in quotes may be a field's for whoever is called: ``monkeypatch.setattr(worker, "side", None)``.
    """
    given = Given(statement)
    for part in _expressions(statement):
        match part:
            case ast.Call(func=ast.Name(id="setattr" | "delattr"), args=[owner, ast.expr() as name, *_]):
                to = name.value if isinstance(name, ast.Constant) else ANY
                yield ast.Attribute(owner, str(to), ast.Load()), given
            case ast.Attribute(attr=attr, value=owner) if attr in _REACHES_ALL:
                yield ast.Attribute(owner, ANY, ast.Load()), given
            case ast.Call(func=ast.Name(id="vars"), args=[owner]):
                yield ast.Attribute(owner, ANY, ast.Load()), given
            case ast.Call(args=args):
                for each in args:
                    if isinstance(each, ast.Constant) and isinstance(each.value, str):
                        yield ast.Attribute(part, each.value.rpartition(".")[2], ast.Load()), given
            case _:
                pass
    if isinstance(statement, ast.FunctionDef) and _is_special(statement.name):
        yield ast.Name(ANY, ast.Load()), given


def _expressions(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a statement that belong to no statement inside of it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            yield child
            yield from _expressions(child)


def _is_special(name: str) -> bool:
    """Whether a method makes objects, or reads and stores their fields, in a way of its own."""
    return name.startswith("__") and name.endswith("__") and name not in _PLAIN


_PLAIN = frozenset("__init__ __call__ __enter__ __exit__ __iter__ __next__ __len__ __getitem__".split())
_REACHES_ALL = frozenset("__dict__ __setattr__ __delattr__ __setstate__ __new__".split())


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
