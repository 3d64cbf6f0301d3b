"""What all code in sight gives to a field: its class, those it is made from, its heirs, and other modules.

``self.side = torch.cuda.Stream()`` in one method says little where an heir sets ``self.side = None``, a base
has ``side = None`` in its body, or somebody else writes ``worker.side = None``.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streamlint.fixes.families import ANY, by_field
from streamlint.fixes.sight import is_object_of_library
from streamlint.frozen import frozen
from streamlint.interp.facts import touching
from streamlint.interp.facts.relevance import all_classes
from streamlint.interp.state.values import ApiV
from streamlint.models.vocabulary import CAPTURES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streamlint import ir
    from streamlint.fixes.families import Families, Owner, Stored
    from streamlint.fixes.text import Source
    from streamlint.interp.state.project import Project


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
    families: Families
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
        family = self.families.of(decl, [*others, *([home] if home is not None else [])])
        for stored in self._of(source, name):
            if stored.cls is cls or _may_be_of(home, stored.owner, family):
                yield Telling(source, None, stored)
        for module in others:  # most store such a field of other classes, and need not be parsed
            if any(_may_be_of(module, each, family) for each in self.families.owners(module, name)):
                yield from self._told_by(module, name, family)

    def is_captured_elsewhere(self, source: Source, name: str) -> bool:
        """Whether a module with captures calls a function of this name, other than that of the function.

        Half of a tree calls ``forward``, and hardly a file of it captures: only these are parsed.
        """
        capturing = set(self.project.capturing())
        modules = (self.project.module(each) for each in self.project.calling(name) if each in capturing)
        return any(
            not CAPTURES.isdisjoint(names)
            for module in modules
            if module is not None and module.path != source.path
            for names in touching.used_by(module)
        )

    def is_put(self, name: str) -> bool:
        """Whether a module gives an attribute of this name to who knows what: ``streams.make = other``."""
        modules = (self.project.module(each) for each in self.project.storing(name))
        return any(None in self.families.owners(module, name) for module in modules if module is not None)

    def _told_by(self, module: ir.Module, name: str, family: set[ir.ClassDecl]) -> Iterator[Telling]:
        source = self.sources(module.path)
        if source is None:
            return
        for stored in self._of(source, name):
            if _may_be_of(module, stored.owner, family):
                yield Telling(source, self._returns(module), stored)

    def _of(self, source: Source, name: str) -> list[Stored]:
        if source.path not in self._stored:
            self._stored[source.path] = by_field(source)
        computed = (each for each in self._stored[source.path].get(ANY, ()) if each.cls is not None)
        return [*self._stored[source.path].get(name, ()), *computed]

    def _returns(self, module: ir.Module) -> Callable[[ast.Call], bool]:
        def returns(call: ast.Call) -> bool:
            called = self.project.named(module.name, ast.unparse(call.func))
            return isinstance(called, ApiV) and is_object_of_library(called.path, call)

        return returns


def _may_be_of(module: ir.Module | None, cls: Owner | None, family: set[ir.ClassDecl]) -> bool:
    """Whether an object of a class of a module may be one of a family, for all that the text tells."""
    owner = _declared(module, cls) if cls is not None else None
    return owner is None or owner in family


def _declared(module: ir.Module | None, cls: Owner) -> ir.ClassDecl | None:
    declared = all_classes(module) if module is not None else ()
    return next((each for each in declared if (each.name, each.span.line) == cls), None)
