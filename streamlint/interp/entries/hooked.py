"""Modules that hooks were registered for: who has the model calls them in turn, again and again.

``apply_offloading(model)`` registers a hook before and one after each block, and returns. What runs then is
``before(block)``, the block, ``after(block)``, for one block after the other, and all of it once more for the
next batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.entries.pairs import methods_of
from streamlint.interp.entries.runs import PAIR_PATHS, Entry
from streamlint.interp.python import unseen_caller
from streamlint.interp.state import arguments
from streamlint.models.torch import FORWARD_HOOKS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from streamlint import ir
    from streamlint.interp.entries.construction import Construction
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.project import Project
    from streamlint.interp.state.symbols import Symbol
    from streamlint.source import Span

THEN = ", then what it hooks"
BATCHES = 2
"""Times that all modules are called: the second one brings back what the first one has given up."""


def of_class(project: Project, module: ir.Module, construction: Construction) -> Iterator[Entry]:
    """The constructor of a class, or a public method, that registers hooks, and then the modules."""
    methods = methods_of(project, construction.cls)
    for decl in methods.by_name.values():
        if registers(methods.reach[decl.name]) and (decl.name == "__init__" or methods.may_be_called(decl)):
            yield _entry(module, construction, decl)


def _entry(module: ir.Module, construction: Construction, decl: ir.FunctionDecl) -> Entry:
    def body(m: Machine) -> None:
        if decl.name == "__init__":
            construction.make(m)
        else:
            construction.make_and_call(m, decl)
        call_in_turn(m, 2, decl.span)

    return Entry(
        f"{decl.qualname}{THEN}",
        module.name,
        body,
        decl.span,
        PAIR_PATHS,
        lines=decl.lines,
        outside_calls=(decl.name,),
        with_hooks=True,
    )


def behind(entry: Entry) -> Entry:
    """A function that registers hooks, and then what they are hooked to."""

    def body(m: Machine) -> None:
        entry.body(m)
        call_in_turn(m, m.call + 1, entry.start)

    return replace(entry, label=f"{entry.label}{THEN}", body=body, paths=PAIR_PATHS, with_hooks=True)


def registers(names: AbstractSet[str]) -> bool:
    """Whether code with these names registers hooks around the calls of modules."""
    return not FORWARD_HOOKS.isdisjoint(names)


def call_in_turn(m: Machine, begin: int, span: Span) -> None:
    """Calls what hooks were registered for, in that order; ``begin`` numbers the next call from outside."""
    for number, module in enumerate(_modules(m) * BATCHES, begin):
        unseen_caller.call_hooked(m, module, number, span)


def _modules(m: Machine) -> list[Symbol]:
    """Modules of the caller, with hooks on both sides or on one."""
    found = dict.fromkeys(owner for name, owner in m.hooks if name in FORWARD_HOOKS)
    return [owner for owner in found if arguments.passed(owner) is not None]
