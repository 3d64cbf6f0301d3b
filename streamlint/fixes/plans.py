"""What a finding calls for: the missing order, said at a place where both sides can be named."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streamlint.finding import Edit, Fix
from streamlint.fixes import words
from streamlint.fixes.replay import replay
from streamlint.fixes.text import Source
from streamlint.source import Span
from streamlint.trace import Alloc, Callback, Copy, Free, HostAccess, Launch, Record, Wait

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from streamlint.finding import Finding, Occurrence, Pair
    from streamlint.fixes.replay import Onlooker
    from streamlint.fixes.sight import Sight
    from streamlint.interp.entries.runs import Run
    from streamlint.interp.state.project import Project
    from streamlint.trace import OpId, StreamId, StreamKind, Trace


def fixes_of(
    findings: Sequence[Finding],
    runs: Sequence[Run],
    project: Project,
    default_stream: StreamKind,
    text: Callable[[str], str | None],
) -> dict[Pair, tuple[Fix, ...]]:
    """What would mend the findings of a file.

    The path of each is run once more: only then it is known what the places around can name.
    """
    parsed: dict[str, Source | None] = {}

    def source(path: str) -> Source | None:
        if path not in parsed:
            content = text(path)
            parsed[path] = Source.of(path, content) if content is not None else None
        return parsed[path]

    by_trace: dict[int, list[Occurrence]] = {}
    wanted = [(finding, finding.evidence) for finding in findings if finding.evidence is not None]
    for _, evidence in wanted:
        by_trace.setdefault(id(evidence.trace), []).append(evidence)
    owners = {id(trace): run for run in runs for trace in run.traces}
    looked: dict[int, Onlooker | None] = {}
    for key, evidences in by_trace.items():
        numbers = frozenset(number for one in evidences for number in (one.earlier, one.later))
        if key in owners:
            trace = evidences[0].trace
            looked[key] = replay(project, owners[key], trace, numbers, default_stream, source)
    fixes: dict[Pair, tuple[Fix, ...]] = {}
    for finding, evidence in wanted:
        onlooker = looked.get(id(evidence.trace))
        if onlooker is not None:
            fixes[finding.pair] = tuple(_fixes(finding.code, evidence, onlooker))
    return fixes


@dataclass(frozen=True, slots=True)
class Place:
    """Where a line can be put, and what can be named there."""

    source: Source
    statement: ast.stmt
    sight: Sight
    behind: bool = False
    """Whether the line comes behind the statement."""

    def insertion(self, lines: Sequence[str]) -> Edit:
        indent = self.source.indent(self.statement) or ""
        line = self.source.line_before(self.statement)
        text = "".join(f"{indent}{each}\n" for each in lines)
        if self.behind:
            line = self.source.line_after(self.statement) or line
            if line > len(self.source.lines) and not self.source.lines[-1].endswith(("\r", "\n")):
                text = "\n" + text.removesuffix("\n")
        return Edit(Span(self.source.path, line, 0, line, 0), text)

    def fresh(self, name: str) -> str:
        """A name that nothing in the function has."""
        taken = self.source.names(self.source.scope(self.statement)) | set(self.sight.apis.values())
        return next(
            each
            for number in range(1, 1000)
            if (each := f"{name}_{number}" if number > 1 else name) not in taken
        )

    def is_sure(self, named: words.Named) -> bool:
        if not named.simple:
            return True
        expression = ast.parse(named.text, mode="eval").body
        return self.source.is_sure(expression, self.statement, behind=self.behind)


def _places(onlooker: Onlooker, earlier: OpId, later: OpId) -> Iterator[Place]:
    """Where what a line queues comes after one operation and before another, the nearest first."""
    for stage in onlooker.stages.get(later, ()):
        for statement in stage.statements:
            sight = stage.before.get(stage.key(statement))
            if sight is None or not earlier < sight.issued <= later or not sight.is_main:
                continue
            if stage.source.indent(statement) is not None:
                yield Place(stage.source, statement, sight)
    for stage in onlooker.stages.get(earlier, ()):
        for statement in stage.statements:
            ends = onlooker.after.get((stage.frame, stage.key(statement)), ())
            sight = next((each for each in ends if earlier < each.issued <= later), None)
            if sight is not None and sight.is_main and stage.source.stands_alone(statement):
                yield Place(stage.source, statement, sight, behind=True)


_NO_ORDER = frozenset({"SL405"})
"""Rules about two operations of which nothing is to be ordered."""
_OF_DEVICES = frozenset({"SL105"})
"""Rules whose findings a wait for the current device is the mistake of."""


def _fixes(code: str, evidence: Occurrence, onlooker: Onlooker) -> Iterator[Fix]:
    trace = evidence.trace
    first = _stream(trace, evidence.earlier)
    second = _stream(trace, evidence.later)
    if evidence.earlier == evidence.later or first is None or code in _NO_ORDER:
        return
    places = list(_places(onlooker, evidence.earlier, evidence.later))
    found = None
    if second is not None:
        found = _best(_stream_waits(place, first, second) for place in places)
    if found is None:
        found = _best(_host_waits(place, first) for place in places)
    if found is None and code not in _OF_DEVICES:
        found = _best(_device_waits(place) for place in places)
    if found is not None:
        yield found


def _best(found: Iterator[Fix | None]) -> Fix | None:
    """The first that is safe, or the first."""
    all_found = [fix for fix in found if fix is not None]
    return next((fix for fix in all_found if fix.safe), all_found[0] if all_found else None)


def _stream_waits(place: Place, first: StreamId, second: StreamId) -> Fix | None:
    event = place.fresh(words.EVENT)
    for waiter in words.names_of(place.sight, second):
        for waited in words.names_of(place.sight, first):
            lines = words.stream_waits(place.sight, waiter, waited, event)
            if lines is not None:
                safe = place.is_sure(waiter) and place.is_sure(waited)
                return Fix(f"Make `{waiter.text}` wait for `{waited.text}`", (place.insertion(lines),), safe)
    return None


def _host_waits(place: Place, first: StreamId) -> Fix | None:
    for waited in words.names_of(place.sight, first):
        line = words.host_waits(place.sight, waited)
        if line is not None:
            edit = place.insertion((line,))
            return Fix(f"Make the host wait for `{waited.text}`", (edit,), place.is_sure(waited))
    return None


def _device_waits(place: Place) -> Fix | None:
    line = words.host_waits_for_all(place.sight)
    return (
        None if line is None else Fix("Make the host wait for the device", (place.insertion((line,)),), False)
    )


def _stream(trace: Trace, number: OpId) -> StreamId | None:
    """The stream of device work, and of what a host function does that is queued on one."""
    op = trace.ops[number]
    match op:
        case Launch(stream=stream) | Copy(stream=stream) | Record(stream=stream) | Wait(stream=stream):
            return stream
        case Alloc(stream=stream) | Free(stream=stream):
            return stream
        case HostAccess(lane=lane):
            bodies = (each.stream for each in trace.ops if isinstance(each, Callback) and each.body == lane)
            return next(bodies, None)
        case _:
            return None
