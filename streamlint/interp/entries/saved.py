"""Hooks of saved tensors, as autograd calls them: for what a forward pass saves, then in the backward pass.

``saved_tensors_hooks(self._pack, self._unpack)``: the model is not in sight. Its operators save one tensor
after the other, and let it go; the backward pass asks for the last one first, uses it on the stream that is
current there, and lets it go before it asks for the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.entries.methods import sequence
from streamlint.interp.entries.pairs import methods_of
from streamlint.interp.entries.runs import PREPARING_PATHS
from streamlint.interp.facts import given_apart, touching
from streamlint.interp.python import unseen_caller
from streamlint.interp.state.values import FuncV
from streamlint.models.autograd import BACKWARD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint import ir
    from streamlint.interp.entries.construction import Construction
    from streamlint.interp.entries.progress import Told
    from streamlint.interp.entries.runs import Entry
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.project import Project

SAVED = 2
"""What the hooks do for one tensor meets what they did for another."""


def given_back(
    project: Project, module: ir.Module, construction: Construction, told: Told
) -> Iterator[Entry]:
    """What a method returned goes to another one, that of the last call first (``facts/given_apart.py``)."""
    methods = methods_of(project, construction.cls)
    called = (decl for decl in methods.by_name.values() if methods.may_be_called(decl))
    for first, second in given_apart.pairs(project, called):
        if (first.name, second.name) in methods.saving:
            continue
        if not any(touching.surely(project, module, methods.reach[decl.name]) for decl in (first, second)):
            continue
        order = [first] * SAVED + [second] * SAVED
        entry = sequence(project, module, construction, order, methods, repeat=False)
        shown = told.shows_order(construction.cls, [first.name, second.name])
        yield replace(
            entry,
            label=f"{entry.label}, in turn",
            paths=PREPARING_PATHS,
            prepared=True,
            needs_earlier=True,
            # What the two call themselves is a step of theirs, and nobody's in between.
            orders_elsewhere=entry.orders_elsewhere - first.called - second.called,
            order_in_sight=shown,
        )


def of_class(project: Project, module: ir.Module, construction: Construction) -> Iterator[Entry]:
    """A forward and a backward pass between which the hooks of a class keep the tensors."""
    methods = methods_of(project, construction.cls)
    for names in methods.saving:
        if not all(names) or not any(touching.surely(project, module, methods.reach[name]) for name in names):
            continue
        pack, unpack = (methods.by_name[name] for name in names)

        def body(m: Machine, pack: ir.FunctionDecl = pack, unpack: ir.FunctionDecl = unpack) -> None:
            m.packs = methods.packs
            made = construction.make(m)
            for number in range(1, SAVED + 1):
                unseen_caller.call_saving(m, FuncV(pack, None, made), FuncV(unpack, None, made), number)
            unseen_caller.call_asking(m, SAVED + 1, unpack.span)

        entry = sequence(project, module, construction, [pack, unpack], methods, repeat=False)
        yield replace(
            entry,
            label=f"{entry.label}, in a backward pass",
            body=body,
            outside_calls=(*[pack.name] * SAVED, BACKWARD),
            paths=PREPARING_PATHS,
            prepared=True,
            needs_earlier=True,
            # How many tensors an operator saves, and when the next one comes, is not seen.
            after_others=True,
            of_autograd=True,
            joined_elsewhere=frozenset(),
            is_step=False,
            has_callers=False,
            ordered_by_hooks=False,
        )
