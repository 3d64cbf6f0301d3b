"""What the entries of a module show together, and other files, of a finding that one of its paths has.

Paths are judged one by one. Behind them it is known whether an event is recorded at all, whether some entry
waits for what another one has left open, and whether the callers of a function are judged in another file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from typing_extensions import assert_never

from streamlint import ir
from streamlint.finding import Confidence
from streamlint.frozen import replace
from streamlint.interp.entries import starts
from streamlint.interp.facts import passed_on, recorded, text_order
from streamlint.judging import unrecorded
from streamlint.judging.call_ends import OpenEnd, TwoStreams, Unawaited
from streamlint.models import vocabulary
from streamlint.run import searches
from streamlint.run.unrecorded import Unrecorded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamlint.finding import Finding
    from streamlint.judging.call_ends import Fact, Facts
    from streamlint.judging.judge import Conditional
    from streamlint.run.elsewhere import Elsewhere
    from streamlint.source import Span
    from streamlint.trace import Event

CALLERS_OF_CALLERS = 3
"""How far what a function was given is looked for in those that hand it on: ``self.inner.begin(x)``."""


@dataclass(slots=True)
class Together:
    """All entries of a module have been run; for each file anew, as its project is."""

    module: ir.Module
    facts: Facts
    text: text_order.Text
    elsewhere: Elsewhere
    recorded: dict[tuple[str, str], bool] = field(default_factory=dict)
    """Whether files other than one record an event of a name."""
    unrecorded: Unrecorded = field(init=False)

    def __post_init__(self) -> None:
        self.unrecorded = Unrecorded(self.module, self.elsewhere)

    def holds(self, item: Conditional) -> bool:
        """Whether it leaves a finding."""
        if item.on_every_path and item.finding.primary in self.facts.needed:
            return False
        if item.only_if is not None and not self._shows(item.only_if):
            return False
        event = item.unless_recorded
        if event is None:
            return True
        return not self._is_recorded(event) and not any(
            self._may_record(one, event, item.finding) for one in self._about(event)
        )

    def finding(self, item: Conditional) -> Finding:
        """The finding as sure as it is then: ``possible`` where another file shows what this one assumes."""
        finding = self._as_sure_as(item)
        seen = self._may_be_recorded_elsewhere(item) or (
            finding.confidence is not Confidence.POSSIBLE
            and bool(item.pending_at)
            and self._is_called_elsewhere(self.module, item.pending_at)
        )
        if seen:
            return replace(finding, confidence=Confidence.POSSIBLE)
        event = item.unless_recorded
        if event is None or not (event.earlier or event.span in self.facts.recorded):
            return finding
        # That nothing records it is what the text of the program says, by the names of attributes.
        is_certain = finding.confidence is Confidence.CERTAIN
        return replace(finding, confidence=Confidence.LIKELY) if is_certain else finding

    def of_unrecorded(self, found: Sequence[Conditional]) -> Iterator[Finding]:
        """Findings about events that nothing records, and for which no path shows a wait."""
        known = self.facts.shown_recorded | {unrecorded.waited_for(item.finding) for item in found}
        events = (event for place, event in self.facts.unrecorded.items() if place not in known)
        yield from self.unrecorded.findings(event for event in events if not self._is_recorded(event))

    def _is_recorded(self, event: Event) -> bool:
        """Whether some path records an event, or gives it to unseen code that may do so."""
        if event.span in self.facts.shown_recorded or event.span not in self.facts.recorded:
            return event.span in self.facts.recorded
        return not self.unrecorded.is_of_tree(event)

    def _shows(self, fact: Fact) -> bool:
        """Whether the entries show it, with what other code may wait for."""
        return self.facts.ends.show(fact, partial(self.elsewhere.may_be_awaited, self.module))

    def _as_sure_as(self, item: Conditional) -> Finding:
        """The finding, surer where neither a path nor the text supplies the order that it misses."""
        if item.surer is None or not self._shows(item.surer[0]):
            return item.finding
        end, surer = item.surer
        match end:
            case Unawaited(name=str() as name) if name:
                # self.state.stream: other code may wait for the stream itself. That an event is recorded on
                # it behind the work, a path has shown.
                joins = self.text.joins(name, end.work)
                is_surer = all(self.facts.ends.was_judged(end, place) for place, _ in joins)
            case OpenEnd():
                is_surer = self._is_left_open(end)
            case Unawaited() | TwoStreams():
                is_surer = True
            case _:
                assert_never(end)
        return surer if is_surer else item.finding

    def _is_left_open(self, end: OpenEnd) -> bool:
        """Whether all of the text that might supply an end was judged, and no other file names its stream."""
        ends = self.facts.ends
        in_text = self.text.joins if end.returned else self.text.forks
        for place, function in in_text(end.name, end.stream):
            inside = function == end.function
            if not end.returned or not (place in ends.ran if inside else ends.was_judged(end, place)):
                return False
        return not any(self._is_named_elsewhere(self.module, name) for name in self.text.attributes(end.name))

    def _about(self, event: Event) -> Iterator[ir.Module]:
        """The module whose entries wait for an event, and the one that makes it: its methods record it."""
        yield self.module
        home = self._home(event)
        made_in = self._module(home) if home != self.module.name else None
        if made_in is not None:
            yield made_in

    def _home(self, event: Event) -> str | None:
        """The module that makes an event, by its name."""
        return self.elsewhere.tree.named.of_places.get(event.span.path) if event.span is not None else None

    def _module(self, name: str | None) -> ir.Module | None:
        return self.elsewhere.project.module(name) if name is not None else None

    def _may_record(self, module: ir.Module, event: Event, finding: Finding) -> bool:
        """Whether code that no path came by may record the event.

        It may run in a thread, or take the slot from a queue. The event of an object or a module may
        have been recorded in any earlier call: all code that mentions it must be harmless. Of the
        function that waits the calls in question are those that no path has reached.
        """
        name = event.name.partition("[")[0]
        if self.unrecorded.put_away(event) is not None:
            return False
        if event.earlier and ":" in name:
            # An argument: whoever passes it has another name for it.
            return True
        name = self._name_of(event)
        if text_order.takes_others(module, name, event.function):
            return True
        if event.earlier:
            return text_order.may_be_recorded(module, name) or self._is_named_elsewhere(module, name)
        if event.function == finding.function:
            return False
        owner = event.function.rpartition(".")[0]
        return recorded.by_others(self.elsewhere.project, module, name, owner) or any(
            name in decl.names and not vocabulary.RECORDS.isdisjoint(decl.names)
            for decl in ir.all_functions(module)
            if decl.qualname.startswith(f"{owner}.")
            # What the waiting function itself records was seen: self.events[0], and not self.events[1]. So is
            # what the one records that makes the event.
            and (decl.qualname not in (finding.function, event.function) or not self._were_reached(decl))
            # done = torch.cuda.Event(); done.record(): not the event that another method has made.
            and (decl.qualname == event.function or text_order.may_record(decl, name))
        )

    def _were_reached(self, decl: ir.FunctionDecl) -> bool:
        """Whether paths have come by all places at which a function records events."""
        return _record_calls(decl) <= self.facts.records

    def _name_of(self, event: Event) -> str:
        """The attribute that has an event, by the text that makes it, or else a path."""
        made_in = self._module(self._home(event))
        kept = None
        if event.span is not None and made_in is not None:
            kept = text_order.kept_as(made_in, event.function, event.span)
        return kept or event.name.partition("[")[0].rpartition(".")[2]

    def _may_be_recorded_elsewhere(self, item: Conditional) -> bool:
        """``for table in self.tables: table.consumed.record(stream)``, in the file of who has the tables.

        A variable of the function that waits, ``forked = torch.cuda.Event(); side.wait_event(forked)``, has
        no such name there: ``state.forked.record()`` is about another event.
        """
        event = item.unless_recorded
        if event is None or event.span is None or "." not in event.function:
            return False
        if event.function == item.finding.function and "." not in event.name:
            return False
        name = self._name_of(event)
        question = (event.span.path, name)
        if question not in self.recorded:
            self.recorded[question] = any(self._records(*question, self._module(self._home(event))))
        return self.recorded[question]

    def _is_called_elsewhere(self, module: ir.Module, name: str, depth: int = CALLERS_OF_CALLERS) -> bool:
        """Whether another file that works with streams calls a function of this name: it is judged there.

        ``ready.synchronize(); scorer.add(batch)``: the batch is complete. A file that neither names a stream
        nor uses what may leave work under way is not looked at by itself.
        """
        project = self.elsewhere.project
        return any(
            self._shows_arguments(other, name, depth)
            for other in project.others(self.elsewhere.matching(searches.calls(name)), module.path)
            if starts.worth_running(project, other) is not None
        )

    def _shows_arguments(self, module: ir.Module, name: str, depth: int) -> bool:
        """Whether a module calls a function of this name, and has not got itself what it passes to it."""
        project = self.elsewhere.project
        if not text_order.calls(project, module, name):
            return False
        through = passed_on.handing_on(project, module, name)
        if through is None or not depth:
            return True
        return any(
            self._shows_arguments(module, each, depth - 1)
            or self._is_called_elsewhere(module, each, depth - 1)
            for each in through
        )

    def _records(self, where: str, name: str, made_in: ir.Module | None) -> Iterator[bool]:
        """Whether files other than ``where`` record an event of this name."""
        elsewhere = self.elsewhere
        for other in elsewhere.project.others(elsewhere.matching(searches.records(name)), where):
            if recorded.by_others(elsewhere.project, other, name, ""):
                yield made_in is None or elsewhere.may_meet(made_in, other)

    def _is_named_elsewhere(self, module: ir.Module, thing: str) -> bool:
        """Whether another file that names the module gets at a stream or event: ``loader.copy_stream``."""
        search = searches.reaches(module.name.rpartition(".")[2], thing)
        return any(name != module.name for name in self.elsewhere.matching(search))


def _record_calls(decl: ir.FunctionDecl) -> set[Span]:
    """Where a function's text records events."""
    try:
        body = decl.load().body
    except ir.LoweringError:
        return set()
    return {
        node.span
        for node in ir.walk(body)
        if isinstance(node, ir.Call)
        and isinstance(node.func, ir.Attr)
        and node.func.name in vocabulary.RECORDS
    }
