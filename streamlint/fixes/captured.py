"""Which functions may run while somebody captures a graph, for all that the names in a tree tell.

``with torch.cuda.graph(g): step(x)`` captures what ``step`` calls, and ``capture(step, x)`` may as well, if
``capture`` does. So a function may be captured where some function names both it and one that captures, over
however many steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from streamlint.interp.facts.relevance import all_functions
from streamlint.models import vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from streamlint import ir
    from streamlint.interp.state.project import Project

Code: TypeAlias = "tuple[str, str]"
"""A module and the qualified name of a function in it; none is the body of the module."""
MOST_LOOKS = 200
"""Times that a module is asked for a name, before anything is taken to lead to it."""


@dataclass(slots=True)
class Captures:
    """Asks one project."""

    project: Project
    _leading: set[Code] | None = None
    _is_known: bool = False

    def may_reach(self, code: Code) -> bool:
        """Whether a capture may be open where some code runs."""
        if not self._is_known:
            self._leading, self._is_known = _leading_to(self.project, _capturing(self.project)), True
        if not self._leading:
            return self._leading is None
        found = _leading_to(self.project, [code])
        return found is None or not found.isdisjoint(self._leading)


def _capturing(project: Project) -> Iterator[Code]:
    for module in filter(None, map(project.module, project.capturing())):
        if not vocabulary.ROOTS.isdisjoint(module.roots):
            captures = vocabulary.BEGINS_CAPTURE
            decls = all_functions(module)
            yield from (_code(module, decl) for decl in decls if not captures.isdisjoint(decl.names))
            if not captures.isdisjoint(module.body_names):
                yield module.name, ""


def _code(module: ir.Module, decl: ir.FunctionDecl) -> Code:
    return module.name, decl.qualname


def _leading_to(project: Project, found: Iterable[Code]) -> set[Code] | None:
    """All code that names some, or what names that; None where too much does."""
    done: set[Code] = set()
    asked: set[tuple[str, str]] = set()
    looks = 0
    todo = list(found)
    while todo:
        code = todo.pop()
        if code in done:
            continue
        done.add(code)
        names = {
            (code[0], name) for name in code[1].split(".") if name and not name.startswith(("_" * 2, "<"))
        }
        while names:
            question = names.pop()
            if question in asked:
                continue
            asked.add(question)
            modules = project.naming(question[1])
            looks += len(modules)
            if looks > MOST_LOOKS:
                return None
            for module in filter(None, map(project.module, modules)):
                todo += _naming(module, *question)
                names |= {(module.name, each) for each in _holding(module, question[1])}
    return done


def _naming(module: ir.Module, home: str, name: str) -> Iterator[Code]:
    """What of a module names something of a module, and not its own of the same name."""
    is_meant = module.name == home or not (
        name in module.functions or name in module.classes or name in module.assigned
    )
    for decl in all_functions(module):
        if name in decl.members or (is_meant and name in decl.names):
            yield _code(module, decl)
    if is_meant and name in module.body_names:
        yield module.name, ""


def _holding(module: ir.Module, name: str) -> Iterator[str]:
    """Variables and attributes to which a module gives what it names: ``STEPS = {"add": add}``."""
    given = (*module.body_given, *(each for decl in all_functions(module) for each in decl.given))
    return (to for to, sources in given if to and name in sources)
