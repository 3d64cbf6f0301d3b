"""Modules that bring code of others together in threads, and name no stream themselves.

``Thread(target=show, args=(frames,)).start()``, and then ``track(frames)``: who reads a frame too early
stands in one file, the stream that still writes it in another, and that the one gets what the other gives, in
a third.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.facts import classes, touching
from streamlint.interp.facts.relevance import with_those_called
from streamlint.interp.state.values import ClassV, FuncV, ModuleV, Value
from streamlint.models import python

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.state.project import Project

_MAKERS = frozenset(
    path.rpartition(".")[2] for path in python.THREADS - python.PROCESSES | python.EXECUTORS | python.POOLS
)


def brings_together(project: Project, module: ir.Module) -> bool:
    """Whether a module starts threads, and imports code that works on streams."""
    called = frozenset().union(module.body_names, *(decl.called for decl in ir.all_functions(module)))
    if not _MAKERS.isdisjoint(called):
        return any(_touches(project, value) for value in _imported(project, module))
    # As of ``uploader = Uploader(jobs)``, and then ``uploader.start()``.
    return python.STARTS in called and any(
        isinstance(value, ClassV) and classes.is_thread(project, value.decl) and _touches(project, value)
        for value in _imported(project, module)
    )


def starting(module: ir.Module) -> Iterator[ir.FunctionDecl]:
    """The functions that start threads, or call one of their module that does."""
    bodies = dict(module.functions)
    for decl in bodies.values():
        called = frozenset().union(*(one.called for one in with_those_called(frozenset({decl.name}), bodies)))
        if python.STARTS in called or not _MAKERS.isdisjoint(called):
            yield decl


def _imported(project: Project, module: ir.Module) -> Iterator[Value]:
    for one in module.imports:
        if one.attribute in (None, "*"):
            yield project.path(one.module)
        else:
            yield project.path(f"{one.module}.{one.attribute}")


def _touches(project: Project, value: Value) -> bool:
    match value:
        case FuncV(function=function):
            return isinstance(function, ir.FunctionDecl) and touching.by_others(project, function)
        case ClassV(decl):
            return any(touching.touches(project, one) for one in decl.methods.values())
        case ModuleV(name):
            module = project.module(name)
            return module is not None and any(
                touching.touches(project, one) for one in ir.all_functions(module)
            )
        case _:
            return False
