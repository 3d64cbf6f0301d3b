"""Whether text may record an event that objects hold by some name, on paths that were not run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.frozen import frozen, replace
from streamlint.interp.facts import classes, text_order
from streamlint.interp.facts.carried import Purpose, Use
from streamlint.models import python, vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.state.project import Project
    from streamlint.source import Span

_RECORDS = Purpose(
    harmless=vocabulary.WAITS_FOR_EVENT | (vocabulary.ORDERS - vocabulary.RECORDS), objects=False
)


def by_others(project: Project, module: ir.Module, name: str, owner: str) -> bool:
    """Whether code outside the class ``owner`` may record an event that an object holds by this name.

    ``for table in self.tables: table.consumed.record(stream)``. A class that makes an event of that name
    records its own: ``self.consumed.record()`` there tells nothing. Code that only carries it along
    (``events.append(group.events[i])``, ``group.events = events``) records none, but what it gives it to is
    another name for it: ``self.marks.extend(group.events)``.
    """
    names = frozenset({name})
    while True:
        known = names
        for use in _uses(project, module, names, name, owner):
            use.follow()
            if use.does_more():
                return True
            names |= use.kept
        if names == known:
            return False


@frozen()
class PutAway:
    """What text does with an event that the function which makes it puts away for others."""

    put_into: frozenset[str]
    """Names under which its maker lets objects hold it, or a container with it ..."""
    attributes: frozenset[str]
    """... with those that other code gives it."""
    waits: tuple[Span, ...] = ()
    """Where text waits for what has such a name."""


def put_away(project: Project, module: ir.Module, maker: str, made: Span) -> PutAway | None:
    """Where the function that makes an event puts it; None if it may do more with it, or keeps it.

    ``event = torch.cuda.Event()``, ``context.events.append(event)``. What a constructor makes, the methods of
    its object record.
    """
    decl = next((one for one in ir.all_functions(module) if _is_in(maker, one.qualname)), None)
    function = ir.code_of(decl) if decl is not None and decl.name != "__init__" else None
    if function is None:
        return None
    use = Use(project, module, function.body, frozenset(), _RECORDS)
    for node in ir.walk(function.body, functions=True):
        if isinstance(node, ir.Assign) and isinstance(node.value, ir.Call) and node.value.span == made:
            for target in node.targets:
                use.give(target)
        elif isinstance(node, ir.Call) and ir.called(node) in python.CONTAINER_METHODS:
            owner = node.func.value if isinstance(node.func, ir.Attr) else None
            if owner is not None and any(getattr(arg.value, "span", None) == made for arg in node.args):
                use.give(owner)
    use.follow()
    kept = frozenset(use.kept)
    return PutAway(kept, kept) if kept and not use.does_more() else None


def declares(module: ir.Module, names: frozenset[str]) -> bool:
    """Whether a class of a module says that its objects have one of some names."""
    return any(
        not names.isdisjoint(classes.declared(cls))
        or any(not names.isdisjoint(decl.stored) for decl in cls.methods.values())
        for cls in ir.all_classes(module)
    )


def _is_in(maker: str, function: str) -> bool:
    return maker == function or maker.startswith(f"{function}.<locals>.")


def further(project: Project, module: ir.Module, known: PutAway) -> PutAway | None:
    """The same with what a module tells; None if it may record the event."""
    while True:
        names, waits = known.attributes, set(known.waits)
        for use in _uses(project, module, names, "", ""):
            use.receiver = ""
            use.follow()
            use.forget_own()
            if use.does_more():
                return None
            names |= use.kept
            waits.update(use.waits())
        before, known = known, replace(known, attributes=names, waits=tuple(sorted(waits)))
        if known == before:
            return known


def _uses(project: Project, module: ir.Module, names: frozenset[str], name: str, owner: str) -> Iterator[Use]:
    for decl in ir.all_functions(module):
        # What the class does with it by its own name, paths and the text of its methods tell.
        asked = names - {name} if owner and decl.qualname.startswith(f"{owner}.") else names
        if asked.isdisjoint(decl.names):
            continue
        function = ir.code_of(decl)
        if function is None:
            yield Use(project, module, (ir.Unread(decl.span, ""),), asked, _RECORDS)
            continue
        use = Use(project, module, function.body, asked, _RECORDS)
        if function.params:
            use.receiver = function.params[0].name
            use.of_receiver = text_order.made_by_class(module, decl.qualname.rpartition(".")[0], asked)
        yield use
    if not names.isdisjoint(module.body_names):
        yield Use(project, module, module.load_body(), names, _RECORDS)
