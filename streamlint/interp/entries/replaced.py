"""Calls between the capture of a graph and its launch that put other memory in the place of what it uses.

``runner.capture()``, then ``runner.grow(n)``, then ``runner.step(x)``: the graph still has the old workspace,
and the method that launches it names neither the workspace nor the function that has replaced it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.entries.pairs import state_of, through_functions
from streamlint.interp.state.budgets import Most
from streamlint.models import vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint import ir
    from streamlint.interp.entries.pairs import Methods
    from streamlint.interp.facts.call_needs import Histories

MOST_REPLACING = Most(6, "calls between a capture and its launch")
"""Such sequences of a class."""


def sequences(
    module: ir.Module, methods: Methods, launching: list[tuple[str, ...]], histories: Histories
) -> Iterator[list[ir.FunctionDecl]]:
    """Calls that capture, one that may replace what was captured, and one that launches.

    ``launching`` has orders of calls whose last one launches what those before it, or the constructor, have
    captured. What the capture itself needs comes before it: ``allocate(rows)``, ``capture()``.
    """
    variables = state_of(module)
    for *before, last in sorted(launching, key=len):
        own = frozenset().union(*(methods.own[name] for name in ("__init__", *before) if name in methods.own))
        wide = frozenset().union(*(through_functions(module, methods.reach[name]) for name in before))
        prepares = frozenset(before).union(*(histories.before(name) for name in before))
        for decl in methods.by_name.values():
            if decl.name in {*prepares, *methods.steps, last, "__init__"} or not methods.is_public(decl):
                continue
            reached = through_functions(module, methods.reach[decl.name])
            if own.isdisjoint(_given(methods, decl)) and not reached & wide & variables:
                continue
            yield [*(methods.by_name[name] for name in before), decl, methods.by_name[last]]
        if set(before) <= {last} and not vocabulary.BEGINS_CAPTURE.isdisjoint(histories.reach(last)):
            yield from _of_lazy_capture(methods, last, histories)


def _of_lazy_capture(methods: Methods, last: str, histories: Histories) -> Iterator[list[ir.FunctionDecl]]:
    """``if self.graph is None: self.capture()`` in the method that launches: its first call captures.

    What that needs is set before it, and may be set anew behind it: ``set_prompt(p)``, ``step(x)``,
    ``set_prompt(q)``, ``step(x)``.
    """
    prepares = [methods.by_name[name] for name in histories.before(last) if name != last]
    own = frozenset().union(
        *(_given(methods, methods.by_name[name]) for name in ("__init__", last) if name in methods.by_name),
        *(_given(methods, decl) for decl in prepares),
    )
    used = histories.reach(last)
    for decl in methods.by_name.values():
        if decl.name in {*methods.steps, last, "__init__"} or not methods.is_public(decl):
            continue
        if own & used & _given(methods, decl):
            yield [*prepares, methods.by_name[last], decl, methods.by_name[last]]


def _given(methods: Methods, decl: ir.FunctionDecl) -> set[str]:
    """The attributes that a method, or one that it mentions, gives a value."""
    mentioned = [methods.by_name[name] for name in decl.members & methods.by_name.keys()]
    return {name for one in (decl, *mentioned) for name, _ in one.given if name}
