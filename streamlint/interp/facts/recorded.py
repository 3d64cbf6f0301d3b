"""Whether text may record an event that objects hold by some name, on paths that were not run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.facts import text_order
from streamlint.interp.facts.carried import Purpose, Use
from streamlint.models import vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.state.project import Project

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
