"""Which functions may queue work on a stream, by the names that they use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.facts import touching
from streamlint.interp.state.values import ClassV, FuncV

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamlint.interp.state.project import Project


def relevant_names(project: Project, module: ir.Module) -> frozenset[str]:
    """Names of functions and methods of the module that touch streams, directly or through each other."""
    decls = list(all_functions(module))
    hot = {decl.name for decl in decls if touching.touches(project, decl)}
    for imported in module.imports:
        if imported.attribute is not None:
            found = project.imported(imported) if project.module(imported.module) is not None else None
            match found:
                case FuncV(function=ir.FunctionDecl() as decl) if touching.touches(project, decl):
                    hot.add(imported.name)
                case ClassV(cls):
                    own = {d.name for d in cls.methods.values() if touching.touches(project, d)}
                    hot |= own | ({imported.name} if own else set())
                case _:
                    pass
    for cls in all_classes(module):
        hot |= _feeders(project, cls)
    hot -= {"__init__"}
    hot |= _kernels(module)
    hot |= {
        cls.name
        for cls in all_classes(module)
        if any(touching.touches(project, d) for d in cls.methods.values())
    }
    while more := {decl.name for decl in decls if not hot.isdisjoint(decl.names)} - {"__init__"} - hot:
        hot |= more
    return frozenset(hot)


def _feeders(project: Project, cls: ir.ClassDecl) -> set[str]:
    """Methods that put something into a queue of a class whose thread works on streams.

    ``Thread(target=self._run)``, and ``def launch(self, job): self._jobs.put(job)``.
    """
    handed = {
        name for decl in cls.methods.values() for name in decl.members & cls.methods.keys() - decl.called
    }
    if not any(touching.touches(project, cls.methods[name]) for name in handed):
        return set()
    return {decl.name for decl in cls.methods.values() if not ir.PUTS.isdisjoint(decl.called)}


def _kernels(module: ir.Module) -> frozenset[str]:
    """Functions of the module that are launched, not called: ``scale[grid, block, self.s](x)``."""
    return frozenset(
        decl.name
        for decl in module.functions.values()
        if any(name.partition("(")[0] in ("cuda.jit", "numba.cuda.jit") for name in decl.decorators)
    )


def queues_work(project: Project, module: ir.Module, names: frozenset[str]) -> bool:
    """Whether code with these names may queue work on a stream."""
    return touching.names_touch(project, module, names) or not names.isdisjoint(_kernels(module))


def is_relevant(project: Project, decl: ir.FunctionDecl, relevant: frozenset[str]) -> bool:
    return touching.touches(project, decl) or decl.name in relevant or not relevant.isdisjoint(decl.names)


def all_classes(module: ir.Module) -> Iterator[ir.ClassDecl]:
    waiting = list(module.classes.values())
    while waiting:
        cls = waiting.pop(0)
        yield cls
        waiting.extend(cls.inner.values())


def all_functions(module: ir.Module) -> Iterator[ir.FunctionDecl]:
    yield from module.functions.values()
    for cls in all_classes(module):
        yield from cls.methods.values()


def callers_first(decls: Sequence[ir.FunctionDecl]) -> list[ir.FunctionDecl]:
    """Functions before those that they mention, as far as there are no cycles."""
    by_name = {decl.name: decl for decl in decls}
    placed: dict[str, ir.FunctionDecl] = {}
    seen: set[str] = set()

    # Not by recursion: a generated module may have a chain of thousands of functions.
    waiting = list(decls)
    while waiting:
        decl = waiting[-1]
        if decl.name in seen:
            placed.setdefault(waiting.pop().name, decl)
            continue
        seen.add(decl.name)
        mentioned = sorted(
            decl.names & by_name.keys() - seen, key=lambda name: (by_name[name].span.line, name)
        )
        waiting += [by_name[name] for name in mentioned]
    return list(reversed(placed.values()))


def mentioned_in(module: ir.Module, decl: ir.FunctionDecl, functions: set[str]) -> bool:
    """Whether one of ``functions``, by module and qualified name, mentions ``decl``."""
    return any(
        decl.name in other.names and other is not decl and f"{module.name}:{other.qualname}" in functions
        for other in all_functions(module)
    )
