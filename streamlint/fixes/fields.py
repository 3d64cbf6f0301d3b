"""What all code in sight gives to a field: its class, those it is made from, its heirs, and other modules.

``self.side = torch.cuda.Stream()`` in one method says little where an heir sets ``self.side = None``, a base
has ``side = None`` in its body, or somebody else writes ``worker.side = None``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streamlint.fixes.families import ANY, by_field
from streamlint.interp.facts.relevance import all_classes

if TYPE_CHECKING:
    import ast

    from streamlint import ir
    from streamlint.fixes.families import Families, Owner, Stored
    from streamlint.fixes.text import Given, Source
    from streamlint.interp.state.project import Project


@dataclass(slots=True)
class Fields:
    """Asks the modules of one project."""

    project: Project
    families: Families
    _stored: dict[str, dict[str, list[Stored]]] = field(default_factory=dict)
    _classes: dict[str, dict[Owner, ir.ClassDecl]] = field(default_factory=dict)

    def only(self, source: Source, cls: ast.ClassDef, name: str) -> Given | None:
        """What is given to a field of the objects of a class, if all code gives it this one thing."""
        home = self.project.module_at(source.path)
        decl = self._classes_of(home).get((cls.name, cls.lineno)) if home is not None else None
        if home is None or decl is None or self.project.ancestors(decl) != ([decl], True):
            return None
        found = (self.project.module(each) for each in self.project.storing(name))
        others = [each for each in found if each is not None and each is not home]
        family = self.families.of(decl, [home, *others])
        if any(self._may_be_of(m, each, family) for m in others for each in self.families.owners(m, name)):
            return None
        match [each for each in self._of(source, name) if self._may_be_of(home, each.owner, family)]:
            case [stored] if not stored.in_body:
                return stored.given
            case _:
                return None

    def is_put(self, name: str) -> bool:
        """Whether a module gives an attribute of this name to who knows what: ``streams.SIDE = None``."""
        modules = (self.project.module(each) for each in self.project.storing(name))
        return any(None in self.families.owners(module, name) for module in modules if module is not None)

    def _of(self, source: Source, name: str) -> list[Stored]:
        if source.path not in self._stored:
            self._stored[source.path] = by_field(source)
        return [*self._stored[source.path].get(name, ()), *self._stored[source.path].get(ANY, ())]

    def _may_be_of(self, module: ir.Module, cls: Owner | None, family: set[ir.ClassDecl]) -> bool:
        """Whether an object of a class of a module may be one of a family, for all that the text tells."""
        owner = self._classes_of(module).get(cls) if cls is not None else None
        return owner is None or owner in family

    def _classes_of(self, module: ir.Module) -> dict[Owner, ir.ClassDecl]:
        if module.name not in self._classes:
            self._classes[module.name] = {(c.name, c.span.line): c for c in all_classes(module)}
        return self._classes[module.name]
