"""Functions of autograd as PyTorch calls them: ``forward``, then ``backward`` with what that has saved.

Code that defines one (``class Offloaded(torch.autograd.Function)``) mostly leaves the training loop to
others. What ``forward`` saves goes when ``backward`` has returned, and the next ``forward`` allocates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.entries.runs import PAIR_PATHS, Entry
from streamlint.interp.facts import classes
from streamlint.interp.facts.relevance import is_relevant
from streamlint.interp.python import unseen_caller
from streamlint.models.autograd import BACKWARD, FORWARD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.entries.progress import Told
    from streamlint.interp.facts.relevance import Relevant
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.project import Project

STEPS = 2
"""Passes, forward and backward: the second one gets the memory that the first one let go of."""


def steps(project: Project, module: ir.Module, among: Relevant, told: Told) -> Iterator[Entry]:
    """Each function of autograd of a module that may work aside, and that nothing has run to its end."""
    for cls in ir.all_classes(module):
        methods = classes.methods(project, cls)
        pair = [methods[name] for name in (FORWARD, BACKWARD) if name in methods]
        if (
            len(pair) > 1
            and classes.is_of_autograd(project, cls)
            and any(is_relevant(project, decl, among) for decl in pair)
            and not told.is_seen_whole(module, pair[1])
        ):
            yield _entry(module, cls, pair)


def _entry(module: ir.Module, cls: ir.ClassDecl, pair: list[ir.FunctionDecl]) -> Entry:
    forward, backward = pair

    def body(m: Machine) -> None:
        for number in range(1, STEPS + 1):
            unseen_caller.differentiate(m, cls, number)

    return Entry(
        f"{cls.qualname}.{forward.name}, then {backward.name}",
        module.name,
        body,
        forward.span,
        PAIR_PATHS,
        lines=max(decl.lines for decl in pair),
        outside_calls=(forward.name,) * STEPS,
    )
