"""Orders of calls behind which a method hands out what the last of them has left under way.

``push(x)``, ``offload()``, ``reload()``, and then ``pop(tag)``: that has nothing to do with streams, and so
nobody would prepare an object for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.facts import joins
from streamlint.interp.state.budgets import Most

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint import ir
    from streamlint.interp.entries.pairs import Methods

MOST_TAKEN = Most(6, "calls that hand out what others have filled")
"""Such sequences of a class."""


def sequences(
    module: ir.Module, methods: Methods, filling: list[tuple[str, ...]]
) -> Iterator[list[ir.FunctionDecl]]:
    """Such calls, and then each other method that shares an attribute with the last one, and orders nothing.

    One that orders is for the caller to call where it belongs. What the last one fills without others before
    it, or with fewer, is met behind these.
    """
    least: dict[str, int] = {}
    for calls in sorted(dict.fromkeys(filling), key=len):
        if least.setdefault(calls[-1], len(calls)) < len(calls) or len(set(calls)) == 1:
            continue
        for decl in methods.by_name.values():
            if (
                decl.name not in {*calls, *methods.steps, "__init__"}
                and methods.is_public(decl)
                and not joins.orders(module, methods.reach[decl.name])
                and not methods.own[calls[-1]].isdisjoint(methods.own[decl.name])
            ):
                yield [methods.by_name[name] for name in (*calls, decl.name)]
