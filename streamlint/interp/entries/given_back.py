"""Calls after which memory goes back that other calls have used on a second stream.

``load()`` allocates on a stream of its own, ``step()`` reads on the current one, and the next ``load()``, or
``evict()``, drops what was read: only what is allocated after that may get the memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.facts import joins
from streamlint.interp.state.budgets import Most

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint import ir
    from streamlint.interp.entries.pairs import Methods
    from streamlint.interp.entries.progress import Leaving

MOST_GIVING_BACK = Most(6, "calls that give memory back")
"""Such sequences of a class."""


def sequences(
    module: ir.Module, methods: Methods, leaving: list[Leaving]
) -> Iterator[tuple[list[ir.FunctionDecl], Leaving]]:
    """``load, step, load, load``: the third call drops what the first one made, the fourth allocates.

    Another method that has to do with the same attributes may drop it too: ``load, step, evict, load``. One
    that lets streams wait is for the caller to call where it belongs.
    """
    for each in sorted(leaving, key=lambda each: len(each.calls)):
        calls, first = each.calls, each.calls[0]
        if not methods.steps.isdisjoint(calls):
            continue
        state = frozenset.intersection(*(methods.own[name] for name in calls))
        others = (
            decl.name
            for decl in methods.by_name.values()
            if decl.name not in {*calls, *methods.steps, "__init__"}
            and methods.is_public(decl)
            and not joins.orders(module, methods.reach[decl.name])
            and not state.isdisjoint(methods.own[decl.name])
        )
        for dropping in (*([first] if len(calls) > 1 else []), *others):
            yield [methods.by_name[name] for name in (*calls, dropping, first)], each
