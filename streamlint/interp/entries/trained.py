"""Methods between two backward passes, for classes whose constructor registers hooks of tensors.

``Offload(model.parameters())`` registers a hook for each parameter, which copies its gradient aside and notes
that in ``self.queue``; ``step()`` does something with what is in there. So a model is trained: a backward
pass, ``step()``, and both once more for the next batch, which uses the parameters that ``step()`` wrote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.entries.methods import sequence
from streamlint.interp.entries.pairs import methods_of
from streamlint.interp.entries.runs import PAIR_PATHS
from streamlint.interp.facts import classes, touching
from streamlint.interp.python import unseen_caller
from streamlint.interp.state.budgets import Most
from streamlint.interp.state.values import FuncV
from streamlint.models.autograd import BACKWARD
from streamlint.models.torch import GRADIENT_HOOKS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint import ir
    from streamlint.interp.entries.construction import Construction
    from streamlint.interp.entries.progress import Told
    from streamlint.interp.entries.runs import Entry
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.project import Project

BATCHES = 2
"""The second one meets what the first one has left."""
MOST_TRAINED = Most(4, "methods behind a backward pass")
"""Such methods of a class."""


def of_class(project: Project, module: ir.Module, construction: Construction, told: Told) -> Iterator[Entry]:
    """A public method behind a backward pass that runs the hooks of the constructor, twice."""
    methods = methods_of(project, construction.cls)
    if GRADIENT_HOOKS.isdisjoint(methods.reach.get("__init__", frozenset())):
        return
    number = 0
    for decl in methods.by_name.values():
        is_own = decl.name != "__init__" and methods.may_be_called(decl)
        if not is_own or not touching.surely(project, module, methods.reach[decl.name]):
            continue
        number += 1
        if not project.budgets.allows_entries(MOST_TRAINED, number, construction.cls.qualname):
            return

        def body(m: Machine, decl: ir.FunctionDecl = decl) -> None:
            made = construction.make(m)
            for first in range(1, 2 * BATCHES, 2):
                unseen_caller.call_backward(m, first, decl.span)
                m.call = first + 1
                unseen_caller.call_outside(m, classes.bound(m, made, FuncV(decl)), first + 1)
            unseen_caller.call_backward(m, 2 * BATCHES + 1, decl.span)

        entry = sequence(project, module, construction, [decl], methods, repeat=False)
        yield replace(
            entry,
            label=f"{entry.label}, between backward passes",
            body=body,
            outside_calls=(*(BACKWARD, decl.name) * BATCHES, BACKWARD),
            paths=PAIR_PATHS,
            prepared=True,
            order_in_sight=told.shows_order(construction.cls, [decl.name]),
            # Hooks run in the passes, and not between the calls.
            orders_elsewhere=entry.orders_elsewhere - methods.hooks,
            ordered_by_hooks=False,
        )
