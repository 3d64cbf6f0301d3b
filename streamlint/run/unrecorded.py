"""Events that a function makes and puts away for others, and that no text records: waits order nothing.

Paths show a wait for such an event only where one of them comes by both. For ``context.events.append(event)``
of a context that callers pass, another function waits, or another file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streamlint.interp.facts import recorded
from streamlint.judging import unrecorded
from streamlint.run import searches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from streamlint import ir
    from streamlint.finding import Finding
    from streamlint.interp.facts.recorded import PutAway
    from streamlint.run.elsewhere import Elsewhere
    from streamlint.source import Span
    from streamlint.trace import Event


@dataclass(slots=True)
class Unrecorded:
    """What the text of a tree does with the events of one module; for each file anew."""

    module: ir.Module
    elsewhere: Elsewhere
    known: dict[Span, PutAway | None] = field(default_factory=dict)

    def findings(self, events: Iterable[Event]) -> Iterator[Finding]:
        """Of events that no path records."""
        for event in events:
            away = self.put_away(event)
            if away is not None and away.waits and event.span is not None:
                yield unrecorded.finding(event.span, event.function, min(away.put_into), away.waits[0])

    def is_of_tree(self, event: Event) -> bool:
        """Whether code of the tree says what object holds it: all code that records it is in sight then.

        ``stage.set_context(context)`` of a stage that is not known gets the events in ``context`` as well.
        What gets at ``context.events`` knows the class, and does not stand in another package.
        """
        away = self.put_away(event)
        names = away.put_into if away is not None else frozenset[str]()
        return any(recorded.declares(one, names) for one in (self.module, *self._others(names)))

    def put_away(self, event: Event) -> PutAway | None:
        """Where code gets at an event that its maker only puts away, if none of it may record the event."""
        if event.span is None or event.span.path != self.module.path:
            return None
        if event.span not in self.known:
            self.known[event.span] = self._put_away(event.span)
        return self.known[event.span]

    def _put_away(self, made: Span) -> PutAway | None:
        project = self.elsewhere.project
        away = recorded.put_away(project, self.module, made)
        asked: PutAway | None = None
        while away is not None and away != asked:
            asked = away
            away = recorded.further(project, self.module, away)
            for other in self._others(away.names) if away is not None else ():
                if away is not None and (there := recorded.further(project, other, away)) != away:
                    away = there if self.elsewhere.may_meet(self.module, other) else away
        return away

    def _others(self, names: frozenset[str]) -> list[ir.Module]:
        """The other files that have one of some names."""
        matching = {one for name in names for one in self.elsewhere.matching(searches.names(name))}
        return list(self.elsewhere.project.others(sorted(matching), self.module.path))
