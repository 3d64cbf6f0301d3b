"""Tables that a module fills when it is imported: ``@register("scale")``, ``HANDLERS["scale"] = scale``.

The variable itself is ``HANDLERS = {}``; what stands in it was put there by other statements of the module,
and by decorators of its functions, which run where these are defined.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.frozen import frozen
from streamlint.interp.facts import modules, touching
from streamlint.interp.python import containers
from streamlint.interp.state.budgets import Most
from streamlint.interp.state.ends import PathEnds
from streamlint.interp.state.kept import Kept
from streamlint.interp.state.values import FuncV, HeapV, Shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.project import Project
    from streamlint.source import Span

MOST_ENTRIES = Most(64, "entries that a module puts into a table when it is imported")
"""Of a larger table nothing is known: each path that asks it would have to fill it."""


@frozen()
class Entry:
    """``@decorator`` of something that the module defines, or a statement of its own."""

    variable: str
    span: Span
    does: ir.Expr | ir.Assign
    defined: ir.FunctionDecl | None = None


def fill(m: Machine, module: ir.Module, variable: str) -> None:
    """What an import has put into a variable of a module, which is set."""
    found = [entry for entry in _entries(m, module) if entry.variable == variable]
    if not found or not m.project.budgets.allows(MOST_ENTRIES, len(found)):
        return
    held = m.globals.get((module.name, variable))
    of_program = isinstance(held, HeapV) and m.heap[held.id].shape is Shape.INSTANCE
    with modules.importing(m):
        for entry in found:
            # trainer = Trainer(), then trainer.fit(): what an object of the program does is no entry.
            if entry.defined is not None or not of_program:
                _put(m, module, entry)


def decorated_before(m: Machine, module: ir.Module, begin: int, end: int) -> None:
    """While the body of a module runs: the decorators of what it defines between two lines."""
    found = [entry for entry in _entries(m, module) if entry.defined is not None]
    if m.project.budgets.allows(MOST_ENTRIES, len(found)):
        for entry in found:
            if begin <= entry.span.line < end:
                _put(m, module, entry)


def _put(m: Machine, module: ir.Module, entry: Entry) -> None:
    # if name in HANDLERS: raise KeyError(name). Of what an import does not survive nothing is known.
    with suppress(PathEnds):
        _run(m, module, entry)


def _run(m: Machine, module: ir.Module, entry: Entry) -> None:
    match entry.does:
        case ir.Assign(targets=(ir.Index(value=table, index=key), *_), value=value):
            held = modules.at_module_level(m, module, table)
            found = [modules.at_module_level(m, module, e) for e in (key, value)]
            if isinstance(held, HeapV) and found[0] is not None and found[1] is not None:
                containers.put(m, m.heap[held.id], found[0], found[1])
        case ir.Assign():
            pass
        case does:
            done = modules.at_module_level(m, module, does)
            if entry.defined is not None and isinstance(done, FuncV):
                m.python.call(m, done, [FuncV(entry.defined)], {}, entry.span)


# ----------------------------------------------------------------------------- what the text tells


_ENTRIES: Kept[str, tuple[Entry, ...]] = Kept()


def _entries(m: Machine, module: ir.Module) -> tuple[Entry, ...]:
    """In the order of their lines."""
    return m.project.once(
        _ENTRIES,
        module.name,
        lambda: tuple(sorted(_found(m.project, module), key=lambda entry: entry.span.line)),
    )


def _found(project: Project, module: ir.Module) -> Iterator[Entry]:
    fillers = dict(_fillers(project, module))
    for statement in module.load_body():
        match statement:
            case ir.Assign(targets=(ir.Index(value=ir.Name(id=name)),)) if name in module.assigned:
                yield Entry(name, statement.span, statement)
            case ir.Eval(value=ir.Call() as call) if (table := _filled_by(module, fillers, call)) is not None:
                yield Entry(table, statement.span, call)
            case _:
                pass
    for decl in module.functions.values():
        texts = {text.partition(".")[0] for text in decl.decorators}
        function = ir.code_of(decl) if not texts.isdisjoint(fillers.keys() | module.assigned) else None
        # The one that stands nearest to the function is called first.
        for decorator in reversed(function.decorators) if function is not None else ():
            if (table := _filled_by(module, fillers, decorator)) is not None:
                yield Entry(table, decl.span, decorator, decl)


def _fillers(project: Project, module: ir.Module) -> Iterator[tuple[str, str]]:
    """Functions of a module that only put something into one of its variables."""
    for decl in module.functions.values():
        for name, _ in decl.given if not touching.by_others(project, decl) else ():
            if name in module.assigned and name not in decl.globals | decl.variables:
                yield decl.name, name


def _filled_by(module: ir.Module, fillers: dict[str, str], e: ir.Expr) -> str | None:
    """The variable into which a call or a decorator puts something: ``register(name)``, ``OPS.add(f)``."""
    match e:
        case ir.Call(func=func):
            return _filled_by(module, fillers, func)
        case ir.Name(id=name):
            return fillers.get(name)
        case ir.Attr(value=ir.Name(id=name)) if name in module.assigned:
            return name
        case _:
            return None
