"""What a call hands out, and the methods of that: who gets a handle calls them when the call is over.

``submit(x)`` returns ``Pending(host, done)``, and somebody says ``pending.result()`` later. Nobody can do so
before. Whether somebody waits in between is an assumption, where code gets at what to wait for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from streamlint.frozen import frozen, replace
from streamlint.interp.entries.pairs import methods_of
from streamlint.interp.entries.runs import PAIR_PATHS
from streamlint.interp.facts import classes, decorators, joins
from streamlint.interp.library import handles
from streamlint.interp.python import unseen_caller
from streamlint.interp.state.budgets import Most
from streamlint.interp.state.ends import PathEnds
from streamlint.interp.state.values import FuncV
from streamlint.models import python

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streamlint import ir
    from streamlint.interp.entries.construction import Construction
    from streamlint.interp.entries.pairs import Methods
    from streamlint.interp.entries.progress import Told
    from streamlint.interp.entries.runs import Entry
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.project import Project

    _Order: TypeAlias = tuple[ir.FunctionDecl, ...]

MOST_HANDED = Most(8, "methods of what a call hands out")
"""Orders of calls on what one entry hands out."""


@frozen()
class _Making:
    """A call that hands something out."""

    entry: Entry
    decl: ir.FunctionDecl
    call: Callable[[Machine], None]
    """Makes it once."""
    waiting: frozenset[str]
    """What callers may call that waits for its work."""


def of_method(
    project: Project,
    module: ir.Module,
    construction: Construction,
    entry: Entry,
    decl: ir.FunctionDecl,
    told: Told,
) -> Iterator[Entry]:
    """Methods of the objects that a method hands out, called when it is over."""

    def call(m: Machine) -> None:
        made = construction.make(m)
        m.call = 1
        unseen_caller.call_outside(m, classes.bound(m, made, FuncV(decl)), 1)

    methods = methods_of(project, construction.cls).by_name
    # flush() of who makes the handles: its callers may call that in between.
    waiting = (name for name in entry.orders_elsewhere if joins.only_waits(module, methods[name]))
    yield from _behind(project, module, _Making(entry, decl, call, frozenset(waiting)), told)


def of_function(
    project: Project, module: ir.Module, entry: Entry, decl: ir.FunctionDecl, told: Told
) -> Iterator[Entry]:
    """The same of a function."""

    def call(m: Machine) -> None:
        m.call = 1
        unseen_caller.call_outside(m, FuncV(decl), 1)

    yield from _behind(project, module, _Making(entry, decl, call, entry.orders_elsewhere), told)


def _behind(project: Project, module: ir.Module, making: _Making, told: Told) -> Iterator[Entry]:
    orders = (
        (cls, order)
        for cls in told.handed.get(making.entry.label, ())
        for order in _orders(module, methods_of(project, cls))
        if making.decl not in order  # batch.to(device) is another batch, and not to be moved once more
    )
    for number, (cls, order) in enumerate(orders, 1):
        if not project.budgets.allows_entries(MOST_HANDED, number, making.entry.label):
            return
        yield _entry(module, making, cls, methods_of(project, cls), order)


def _entry(module: ir.Module, making: _Making, cls: ir.ClassDecl, methods: Methods, order: _Order) -> Entry:
    def body(m: Machine) -> None:
        making.call(m)
        _call_methods(m, cls, order)

    entry, called = making.entry, [decl.name for decl in order]
    return replace(
        entry,
        label=f"{entry.label}, then {', then '.join(called)} of its {cls.name}",
        body=body,
        paths=PAIR_PATHS,
        lines=max(entry.lines, *(decl.lines for decl in order)),
        outside_calls=((entry.outside_calls or (entry.label,))[0], *called),
        orders_elsewhere=making.waiting | _ordering(module, methods, order),
        finished_elsewhere=frozenset(),
        of_handle=True,
    )


def _call_methods(m: Machine, cls: ir.ClassDecl, order: _Order) -> None:
    handle = next((one for one in handles.given(m) if m.heap[one.id].cls is cls), None)
    if handle is None:
        raise PathEnds
    for number, decl in enumerate(order, m.call + 1):
        m.call = number
        unseen_caller.call_outside(m, classes.bound(m, handle, FuncV(decl)), number)


def _orders(module: ir.Module, methods: Methods) -> Iterator[_Order]:
    """Each public method by itself; and one that says what it waits for before each that does not.

    ``pending.wait()``, then ``pending.rows()``.
    """
    public = [decl for decl in methods.by_name.values() if _is_for_callers(decl, methods)]
    waiting = [decl for decl in public if joins.waits(module, methods.reach[decl.name])]
    for decl in public:
        yield (decl,)
    for first in waiting:
        for second in public:
            if second not in waiting:
                yield first, second


def _is_for_callers(decl: ir.FunctionDecl, methods: Methods) -> bool:
    """Whether who has the handle calls it for what it gives: not so for how much that is."""
    if decorators.is_static(decl) or decorators.is_of_class(decl) or decl.name in python.TELLS_SIZE:
        return False
    return methods.is_public(decl) or decl.name in python.GIVES_STEPS


def _ordering(module: ir.Module, methods: Methods, order: _Order) -> frozenset[str]:
    """Other methods of the handle that wait, or ask an event: its caller may have called them before."""
    return frozenset(
        name
        for name, decl in methods.by_name.items()
        if decl not in order and _is_for_callers(decl, methods) and joins.orders(module, methods.reach[name])
    )
