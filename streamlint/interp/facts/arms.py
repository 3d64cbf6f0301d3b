"""Which tests choose between arms that may have to do with streams, by the names that stand in the arms.

As long as no path of an entry has anything to order, another path is worth its time only where it may bring
something: ``if self.side is not None: self.side.wait_stream(current)`` may, ``if verbose: print(x)`` may not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from streamlint import ir
from streamlint.interp.facts import relevance, touching
from streamlint.interp.state.kept import Kept

if TYPE_CHECKING:
    from streamlint.interp.state.project import Project
    from streamlint.source import Span

Test: TypeAlias = ir.If | ir.While | ir.Choice | ir.Match

_TELL: Kept[Span, bool] = Kept()
_NAMES: Kept[str, frozenset[str]] = Kept()
"""By the names of modules."""


def tell(project: Project, module: str, test: Test) -> bool:
    """Whether an arm uses a name that tells of streams, or that of a function which leads to them."""
    return project.once(_TELL, test.span, lambda: _tell(project, module, test))


def _tell(project: Project, module: str, test: Test) -> bool:
    names = project.once(_NAMES, module, lambda: _names(project, module))
    arms = test.cases if isinstance(test, ir.Match) else (test.body, test.orelse)
    return any(_name(node) in names for node in ir.walk(arms, functions=True))


def _name(node: object) -> str:
    match node:
        case ir.Name(id=name) | ir.Attr(name=name) | ir.Arg(keyword=str() as name):
            return name
        case _:
            return ""


def _names(project: Project, name: str) -> frozenset[str]:
    module = project.module(name)
    if module is None:
        return frozenset()
    return touching.told_in(project, module) | relevance.relevant(project, module).names
