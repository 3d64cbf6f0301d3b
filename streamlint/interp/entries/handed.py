"""What a call hands out, and the methods of that: who gets a handle calls them when the call is over.

``submit(x)`` returns ``Pending(host, done)``, and somebody says ``pending.result()`` later. That the one comes
before the other is no assumption; whether somebody waits in between is, where code can get at what to wait for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.entries.pairs import methods_of
from streamlint.interp.entries.runs import PAIR_PATHS
from streamlint.interp.facts import decorators, joins
from streamlint.interp.python import unseen_caller
from streamlint.interp.state import handles
from streamlint.interp.state.budgets import Most
from streamlint.interp.state.ends import PathEnds
from streamlint.interp.state.values import FuncV
from streamlint.models import python

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streamlint import ir
    from streamlint.interp.entries.pairs import Methods
    from streamlint.interp.entries.runs import Entry
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.project import Project

MOST_HANDED = Most(8, "methods of what a call hands out")
"""Orders of calls on what one entry hands out."""


def behind(
    project: Project, module: ir.Module, entry: Entry, call: Callable[[Machine], None], cls: ir.ClassDecl
) -> Iterator[Entry]:
    """A call that hands out an object of a class, and then calls of the methods of that.

    ``call`` makes the first one, once.
    """
    methods = methods_of(project, cls)
    for number, order in enumerate(_orders(module, methods), 1):
        if not project.budgets.allows_entries(MOST_HANDED, number, entry.label):
            return

        def body(m: Machine, order: tuple[ir.FunctionDecl, ...] = order) -> None:
            _call_behind(m, call, cls, order)

        called = [decl.name for decl in order]
        yield replace(
            entry,
            label=f"{entry.label}, then {', then '.join(called)} of its {cls.name}",
            body=body,
            paths=PAIR_PATHS,
            lines=max(entry.lines, *(decl.lines for decl in order)),
            outside_calls=((entry.outside_calls or (entry.label,))[0], *called),
            orders_elsewhere=_ordering(module, methods, order),
            finished_elsewhere=frozenset(),
            of_handle=True,
        )


def _call_behind(
    m: Machine, call: Callable[[Machine], None], cls: ir.ClassDecl, order: tuple[ir.FunctionDecl, ...]
) -> None:
    call(m)
    handle = next((one for one in handles.given(m) if m.heap[one.id].cls is cls), None)
    if handle is None:
        raise PathEnds
    for number, decl in enumerate(order, m.call + 1):
        m.call = number
        unseen_caller.call_outside(m, FuncV(decl, None, handle), number)


def _orders(module: ir.Module, methods: Methods) -> Iterator[tuple[ir.FunctionDecl, ...]]:
    """Each public method by itself; and one that says what it waits for before each that does not.

    ``pending.wait()``, then ``pending.rows()``.
    """
    public = [decl for decl in methods.by_name.values() if _is_for_callers(decl, methods)]
    waiting = [decl for decl in public if joins.orders(module, methods.reach[decl.name])]
    for decl in public:
        yield (decl,)
    for first in waiting:
        for second in public:
            if second not in waiting:
                yield first, second


def _is_for_callers(decl: ir.FunctionDecl, methods: Methods) -> bool:
    plain = not (decorators.is_static(decl) or decorators.is_of_class(decl))
    return plain and decl.name != "__len__" and (methods.is_public(decl) or decl.name in python.GIVES_STEPS)


def _ordering(
    module: ir.Module, methods: Methods, order: tuple[ir.FunctionDecl, ...]
) -> frozenset[str]:
    """Other methods of the handle that wait, or ask an event: its caller may have called them before."""
    return frozenset(
        name
        for name, decl in methods.by_name.items()
        if decl not in order
        and _is_for_callers(decl, methods)
        and joins.orders(module, methods.reach[name])
    )
