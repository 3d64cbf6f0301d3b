"""Which calls may prepare an object for a method, and for which methods they are worth making."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.facts import touching

if TYPE_CHECKING:
    from streamlint.interp.facts.call_needs import Histories
    from streamlint.interp.state.project import Project


def works_aside(
    project: Project, module: ir.Module, cls: ir.ClassDecl, histories: Histories, name: str
) -> bool:
    """Whether a method works with streams, or takes what methods have filled that do, or asks others to."""
    reach = histories.reach(name).union(*map(histories.reach, histories.filled_by(name)))
    return touching.surely(project, module, reach) or _asks_others(project, module, cls, reach)


def orders(histories: Histories, name: str, user: str | None, *, works: bool) -> list[tuple[str, ...]]:
    """The calls that may come before one, until it does something: what it needs, then what uses that too.

    What does not work with streams itself is called behind that only.
    """
    found = [histories.before(name), histories.before(name, every=True)]
    if user is not None and user not in found[1]:
        before = histories.before(user)
        found += [(*before, user)] if name not in before else []
    return found if works else [order for order in found if user in order][:1]


def user_of_what_it_needs(project: Project, module: ir.Module, histories: Histories, name: str) -> str | None:
    """The method that works with streams on most of what a method needs, and what only calls set.

    ``def finish(self): return self.rows.numpy().sum()``, behind ``set_up()`` and ``start(x)``, which copies
    into ``self.rows``.
    """
    sharing = histories.sharing(name)
    return next((one for one in sharing if touching.surely(project, module, histories.reach(one))), None)


def _asks_others(project: Project, module: ir.Module, cls: ir.ClassDecl, names: frozenset[str]) -> bool:
    """Whether a method uses one of another class that works with streams: ``self.executor.step(batch)``."""
    return any(
        decl.name in names and decl.name != "__init__" and touching.surely(project, module, decl.names)
        for other in ir.all_classes(module)
        if other is not cls
        for decl in other.methods.values()
    )
