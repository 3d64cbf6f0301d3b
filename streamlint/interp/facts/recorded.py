"""Whether text may record an event that objects hold by some name, on paths that were not run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.frozen import frozen, replace
from streamlint.interp.facts import classes, scopes, text_order, variable_classes
from streamlint.interp.facts.carried import Field, Purpose, Use
from streamlint.interp.state.scope import Scope
from streamlint.models import vocabulary

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
            names |= {held.name for held in use.fields}
        if names == known:
            return False


@frozen()
class PutAway:
    """What text does with an event that the function which makes it puts away for others."""

    put_into: frozenset[str]
    """Names under which its maker lets objects hold it, or a container with it ..."""
    attributes: frozenset[str]
    """... with those that other code gives it, where any object may have it by that name ..."""
    fields: frozenset[Field] = frozenset()
    """... and where objects of one class have it that were made with it."""
    waits: tuple[Span, ...] = ()
    """Where text waits for what has such a name."""

    @property
    def names(self) -> frozenset[str]:
        """All of them."""
        return self.attributes.union(held.name for held in self.fields)


def put_away(project: Project, module: ir.Module, made: Span) -> PutAway | None:
    """Where the function that makes an event puts it; None if it may do more with it, or keeps it.

    ``event = torch.cuda.Event()``, ``context.events.append(event)``. What a constructor makes, the methods of
    its object record.
    """
    decl = next((one for one in ir.all_functions(module) if one.span.line <= made.line <= one.end_line), None)
    function = ir.code_of(decl) if decl is not None and decl.name != "__init__" else None
    if function is None:
        return None
    use = Use(project, module, function.body, frozenset(), _RECORDS, made=made)
    use.follow()
    kept, fields = frozenset(use.kept), frozenset(use.fields)
    into = kept.union(held.name for held in fields)
    return PutAway(into, kept, fields) if into and not use.does_more() else None


def declares(module: ir.Module, names: frozenset[str]) -> bool:
    """Whether a class of a module says that its objects have one of some names."""
    return any(
        not names.isdisjoint(classes.declared(cls))
        or any(not names.isdisjoint(decl.stored) for decl in cls.methods.values())
        for cls in ir.all_classes(module)
    )


def further(project: Project, module: ir.Module, known: PutAway) -> PutAway | None:
    """The same with what a module tells; None if it may record the event."""
    while True:
        attributes, fields, waits = known.attributes, known.fields, set(known.waits)
        is_at_hand = bool(attributes) or any(_knows(project, module, held.cls) for held in fields)
        held_alike = frozenset(held for held in fields if held.name not in attributes)
        for use in _uses(project, module, known.names, "", "", held_alike):
            use.receiver = ""
            use.follow()
            use.forget_own()
            if use.does_more():
                return None
            attributes |= use.kept
            fields |= use.fields
            waits.update(use.waits() if is_at_hand else ())
        before = known
        known = replace(known, attributes=attributes, fields=fields, waits=tuple(sorted(waits)))
        if known == before:
            return known


def _knows(project: Project, module: ir.Module, cls: ir.ClassDecl) -> bool:
    """Whether a module names a class: ``slot.event`` in one that does not is another one's."""
    return module.name == cls.module or project.class_named(module.name, cls.name) is cls


def _uses(
    project: Project,
    module: ir.Module,
    names: frozenset[str],
    name: str,
    owner: str,
    fields: frozenset[Field] = frozenset(),
) -> Iterator[Use]:
    only = frozenset(held.name for held in fields)
    for decl, cls in scopes.methods_and_functions(module):
        # What the class does with it by its own name, paths and the text of its methods tell.
        asked = names - {name} if owner and decl.qualname.startswith(f"{owner}.") else names
        if asked.isdisjoint(decl.names):
            continue
        function = ir.code_of(decl)
        if function is None:
            yield Use(project, module, (ir.Unread(decl.span, ""),), asked, _RECORDS)
            continue
        use = Use(project, module, function.body, asked, _RECORDS, of_class=only)
        if function.params:
            use.receiver = function.params[0].name
            use.of_receiver = text_order.made_by_class(module, decl.qualname.rpartition(".")[0], asked)
        if only:
            use.others = frozenset(_of_others(project, Scope(module, function, cls), fields))
        yield use
    if not names.isdisjoint(module.body_names):
        yield Use(project, module, module.load_body(), names, _RECORDS, of_class=only)


def _of_others(project: Project, scope: Scope, fields: frozenset[Field]) -> Iterator[tuple[str, str]]:
    """Variables of a function that are of other classes than those whose objects hold it, with its names.

    ``def names_of(trace: Trace)``, where ``trace.event`` is no event.
    """
    for variable, known in variable_classes.of(project, scope).items():
        for name in {held.name for held in fields}:
            alike = [held for held in fields if held.name == name]
            if not any(one is None or held.is_of(project, one) for one in known for held in alike):
                yield variable, name
