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
from streamlint.interp.facts import touching
from streamlint.interp.python import unseen_caller
from streamlint.interp.state.values import FuncV
from streamlint.models.autograd import BACKWARD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint import ir
    from streamlint.interp.entries.construction import Construction
    from streamlint.interp.entries.runs import Entry
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.project import Project

SAVED = 2
"""What the hooks do for one tensor meets what they did for another."""


def of_class(project: Project, module: ir.Module, construction: Construction) -> Iterator[Entry]:
    """A forward and a backward pass between which the hooks of a class keep the tensors."""
    methods = methods_of(project, construction.cls)
    for names in methods.saving:
        if not all(names) or not any(touching.touches(project, methods.by_name[name]) for name in names):
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
