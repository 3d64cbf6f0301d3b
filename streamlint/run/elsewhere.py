"""Questions to other files about what one file makes: whether they may meet it, and wait for its events."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING

from streamlint.interp.facts import awaited
from streamlint.run import searches

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlint import ir
    from streamlint.interp.state.project import Project
    from streamlint.run.searches import Search
    from streamlint.run.tree import Tree
    from streamlint.trace import Event


@dataclass(slots=True)
class Elsewhere:
    """What the other files of a tree have to do with one; for each file anew, as its project is."""

    tree: Tree
    project: Project
    matching: Callable[[Search], tuple[str, ...]]
    """The modules whose files match a search."""
    known: dict[awaited.Held, bool] = field(default_factory=dict)
    """Whether code may wait for an event."""

    def may_meet(self, module: ir.Module, other: ir.Module) -> bool:
        """Whether two files may be parts of one program, so that objects of one get into the other.

        They are of one package, or one of them or a third file imports the other. Scripts of one folder
        (``examples/train.py``, ``examples/serve.py``) know nothing of each other.
        """
        mine, its = _imported_as(module), _imported_as(other)
        return (
            mine == its
            or its in _imported_names(module)
            or mine in _imported_names(other)
            or bool(self.matching(searches.names(mine, its)))
        )

    def is_named(self, module: ir.Module) -> bool:
        """Whether another file has the last part of a module's name, as one has that imports it."""
        named = self.matching(searches.names(PurePath(module.path).stem))
        return any(name != module.name for name in named)

    def may_be_awaited(self, module: ir.Module, event: Event) -> bool:
        """Whether code that no path came by may wait for an event, or have given it to who does."""
        if event.holders is None:
            return not event.lost
        home = self.tree.named.of_places.get(event.span.path) if event.span is not None else module.name
        made_in = self.project.module(home) if home is not None else None
        if made_in is None:
            return True
        names = event.holders
        held = awaited.Held(names.attributes, names.variables, made_in.name, event.function, event.span)
        if held not in self.known:
            self.known[held] = self._ask(made_in, held)
        return self.known[held]

    def _ask(self, made_in: ir.Module, held: awaited.Held) -> bool:
        """Asks the module that makes an event, and all that get at something of its names and wait."""
        known: awaited.Held | None = None
        while known != held:
            known = held
            may_be, held = awaited.may_be_awaited(self.project, made_in, held)
            if may_be:
                return True
            matching = {one for name in held.attributes for one in self.matching(searches.awaits(name))}
            others = map(self.project.module, sorted(matching - {made_in.name}))
            for other in (one for one in others if one is not None):
                may_be, there = awaited.may_be_awaited(self.project, other, held)
                if (may_be or there != held) and self.may_meet(made_in, other):
                    if may_be:
                        return True
                    held = there
        return False


def _imported_as(module: ir.Module) -> str:
    """What imports of a module begin with: its topmost package, or the name of its file."""
    return PurePath(module.path).stem if module.name.startswith("<") else module.name.partition(".")[0]


def _imported_names(module: ir.Module) -> set[str]:
    """All parts of what a module imports."""
    found = {part for imported in module.imports for part in imported.module.split(".")}
    return found | {imported.attribute for imported in module.imports if imported.attribute is not None}
