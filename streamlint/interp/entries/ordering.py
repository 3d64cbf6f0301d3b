"""What a class orders by other methods than those that are called: their callers may call these, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.facts import endings, entering, joins, process_targets
from streamlint.interp.state.kept import Kept

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint import ir
    from streamlint.interp.entries.pairs import Methods
    from streamlint.interp.state.project import Project

_ENDING: Kept[ir.ClassDecl, dict[str, frozenset[str]]] = Kept()
_ORDERING: Kept[ir.ClassDecl, frozenset[str]] = Kept()
_FORKED: Kept[ir.ClassDecl, frozenset[str]] = Kept()
_STEPS: Kept[ir.ClassDecl, frozenset[str]] = Kept()
_ENTERED: Kept[ir.ClassDecl, frozenset[str]] = Kept()


def elsewhere(
    project: Project,
    module: ir.Module,
    cls: ir.ClassDecl,
    order: Sequence[ir.FunctionDecl],
    methods: Methods,
) -> frozenset[str]:
    """The methods that order streams, other than those called: callers may call them in between."""
    ordering = _ordering(project, module, cls, methods)
    first, names = order[0], {decl.name for decl in order}
    if methods.of_autograd.issuperset(names):
        return frozenset()
    found = frozenset(
        decl.name
        for decl in methods.by_name.values()
        if (
            (methods.may_be_called(decl) and decl.name not in names)
            # average() is a step of reduce(), which forks before it and joins after it.
            or (decl.name not in ("__init__", first.name, *first.members) and first.name in decl.members)
        )
        and decl.name in ordering
    )
    return found - ended_by(project, module, cls, order[-1], methods)


def ended_by(
    project: Project, module: ir.Module, cls: ir.ClassDecl, last: ir.FunctionDecl, methods: Methods
) -> frozenset[str]:
    """The methods that order streams and behind which one finds nothing to work with."""
    ordering = _ordering(project, module, cls, methods)
    ending = project.once(_ENDING, cls, lambda: endings.of(methods.by_name, ordering))
    return frozenset(name for name, gone in ending.items() if not gone.isdisjoint(methods.own[last.name]))


def _ordering(project: Project, module: ir.Module, cls: ir.ClassDecl, methods: Methods) -> frozenset[str]:
    """The methods of a class that order streams, and leave the object its own."""

    def find() -> frozenset[str]:
        every = methods.by_name
        mine = every.keys() - frozenset().union(*map(process_targets.started_by, every.values()))
        return frozenset(name for name in mine if joins.orders_for_others(module, every[name], every))

    return project.once(_ORDERING, cls, find)


def joined_elsewhere(
    project: Project, module: ir.Module, order: Sequence[ir.FunctionDecl], methods: Methods
) -> frozenset[str]:
    """The streams that other code joins: of two methods each may join what the other leaves."""
    # def infer(self): self._capture(): what a step of theirs waits for, they do.
    mentioned = frozenset().union(*(decl.members for decl in order))
    called = [
        decl
        for name in sorted(methods.steps & mentioned)
        if not methods.may_be_called(decl := methods.by_name[name])
    ]
    return frozenset().union(*(joins.joined(project, module, decl, *called) for decl in dict.fromkeys(order)))


def entered_elsewhere(project: Project, module: ir.Module, cls: ir.ClassDecl) -> frozenset[str]:
    """The streams of its objects that a class gives out, or that other code enters."""
    return project.once(_ENTERED, cls, lambda: entering.by_others(module, cls))


def forked(project: Project, module: ir.Module, cls: ir.ClassDecl, methods: Methods) -> frozenset[str]:
    """The streams that calls from outside make wait, and give nothing to do."""

    def find() -> frozenset[str]:
        public = (decl for name, decl in methods.by_name.items() if name not in methods.steps)
        return joins.forked_by(module, filter(methods.may_be_called, public))

    return project.once(_FORKED, cls, find)


def steps(project: Project, module: ir.Module, cls: ir.ClassDecl, methods: Methods) -> frozenset[str]:
    """The methods that another one calls, which orders around them."""

    def find() -> frozenset[str]:
        return frozenset(name for name in methods.by_name if _is_step_of_ordering(module, methods, name))

    return project.once(_STEPS, cls, find)


def _is_step_of_ordering(module: ir.Module, methods: Methods, name: str) -> bool:
    """Whether another method calls one, and orders or chooses streams around it: itself, or by other steps.

    ``capture()`` calls ``simulate()`` on the stream that it captures, and ``execute()`` calls ``results()``,
    which waits for an event, before ``propose()``.
    """
    for decl in methods.by_name.values():
        called = decl.called & decl.members
        if name not in called or decl.name in ("__init__", name):
            continue
        others = (methods.reach[other] for other in called & methods.reach.keys() - {name})
        if any(joins.orders(module, names) for names in (decl.names, *others)) or joins.reads(decl):
            return True
        if joins.chooses_streams(module, decl.names):
            return True
    return False
