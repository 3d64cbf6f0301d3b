"""What a rule is, and what it is given."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from streamlint.finding import Confidence, Severity
from streamlint.frozen import frozen, replace
from streamlint.trace import (
    CURRENT_DEVICE,
    WHOLE,
    Barrier,
    BufferId,
    Copy,
    Doubt,
    Event,
    EventId,
    GraphId,
    HostAccess,
    Launch,
    Named,
    Op,
    OpId,
    Record,
    Region,
    Role,
    StreamId,
    StreamKind,
    Trace,
    Wait,
    Words,
)
from streamlint.witness import UNDECLARED, ByError, Witness

if TYPE_CHECKING:
    from streamlint.order.conflicts import Conflict
    from streamlint.order.hb import HappensBefore
    from streamlint.rules.index import Index
    from streamlint.source import Span


Place: TypeAlias = "tuple[type[Op], Span, int, int]"
"""A kind of op, its place in the source, the call from outside that it belongs to, and its turn there."""


def place_of(op: Op) -> Place:
    return (type(op), op.at.span, op.at.call, op.at.turn)


def part(numbers: list[OpId], first: int = 0, before: int | None = None) -> list[OpId]:
    """Those from number ``first`` on, up to ``before``."""
    start = bisect_left(numbers, first) if first else 0
    return numbers[start : None if before is None else bisect_left(numbers, before)]


@frozen()
class Judged:
    """One path with its happens-before order and the pairs that nothing orders."""

    trace: Trace
    hb: HappensBefore
    conflicts: tuple[Conflict, ...]
    places: dict[Place, list[OpId]]
    """Where each kind of op stands: the same places can be looked up on other paths."""
    index: Index
    """Which ops there are of a kind, and which use a buffer: a path has few waits and many launches."""
    namesakes: Mapping[StreamId, bool] = field(default_factory=dict)
    """Streams of one name with unordered work: ``stream`` of a helper, and ``stream`` of its caller.

    Whether the lines that make them tell them apart."""
    seen: tuple[OpId, ...] = ()
    """The ops whose names messages use, the nearest first: see ``seen_from``."""

    def seen_from(self, *numbers: OpId) -> Judged:
        """The same for a message at an op: things have the names that its function gives them.

        A stream that it does not name may have a name in the function of the other op, if one follows.
        """
        return replace(self, seen=numbers)

    def op(self, number: OpId) -> Op:
        return self.trace.ops[number]

    def numbers(self, *kinds: type[Op], first: int = 0, before: int | None = None) -> list[OpId]:
        """The ops of some kinds from number ``first`` on, in order."""
        found: list[OpId] = []
        for kind in kinds:
            found += part(self.index.of_kind.get(kind, []), first, before)
        return sorted(found) if len(kinds) > 1 else found

    def uses(self, buffer: BufferId, first: int = 0, before: int | None = None) -> Sequence[OpId]:
        """The launches and copies that use a buffer, in order."""
        return part(self.index.of_buffer.get(buffer, []), first, before)

    def touching(self, buffer: BufferId, first: int = 0) -> list[OpId]:
        """What the device and the host do with a buffer, in order."""
        return sorted((*self.uses(buffer, first), *part(self.index.by_host.get(buffer, []), first)))

    def stream_at(self, op: Op) -> StreamId | None:
        """The stream of device work, and of what a host function does that is queued on one."""
        stream = stream_of(op)
        return self.index.bodies.get(op.lane) if stream is None and isinstance(op, HostAccess) else stream

    def stream_name(self, stream: StreamId) -> str:
        """What the user calls a stream. Two of one name are told apart by the lines that make them."""
        known = self.trace.streams[stream]
        local = self._stream_here(stream)
        if local:
            return local
        name = readable(known.name, "")
        if not name:
            name = f"the stream made in {self._line(known.span)}" if known.span is not None else "a stream"
        if self.namesakes.get(stream) is False:
            return self._of_its_time(stream, name)
        if " " in name or known.span is None:
            return name
        return f"{quoted(name)} of {self._line(known.span)}" if self.namesakes.get(stream) else name

    def _line(self, span: Span) -> str:
        """Where something was made, with the file if that is another one than the message's."""
        return span.line_from(self.op(self.seen[0]).at.span if self.seen else span)

    def _of_its_time(self, stream: StreamId, name: str) -> str:
        """Two of one name and line, as a method has that is called twice: that of the place has the name."""
        work = self.index.of_stream.get(stream, [])
        if not self.seen or not work or self.stream_at(self.op(self.seen[0])) == stream:
            return name
        # That of the other op of the message; the owner of memory that is dropped has used it some time.
        number = next((one for one in self.seen[1:] if self.stream_at(self.op(one)) == stream), work[0])
        here, other = self.op(self.seen[0]), self.op(number)
        when = "an earlier" if number < self.seen[0] else "a later"
        by = "pass" if here.at.call == other.at.call else "call"
        return f"the {quoted(name).removeprefix('the ').removeprefix('a ')} of {when} {by}"

    def _at(self, number: OpId, thing: Named) -> str:
        """What the function of an op calls something; in backticks if a blank shows no name otherwise."""
        site = self.op(number).at
        name = self.trace.spelled.at(site.function, number, site.span, thing)
        return f"`{name}`" if " " in name else name

    def _here(self, thing: Named) -> str:
        """The same of the places of a message, the nearest first."""
        return next((name for number in self.seen if (name := self._at(number, thing))), "")

    def _stream_here(self, stream: StreamId) -> str:
        """The same of a stream, if that tells it from all others: ``for s in streams`` does not."""
        name = self._here(("stream", stream))
        if not name or self.trace.streams[stream].is_default:
            return ""
        others = (known for known in self.trace.streams.values() if known.id != stream)
        return "" if any(name == (self._here(("stream", one.id)) or one.name) for one in others) else name

    def event_name(self, event: EventId) -> str:
        """What the user calls an event, or what it is recorded for."""
        return quoted(self._here(("event", event)) or readable(self.trace.events[event].name, "the event"))

    def graph_name(self, graph: GraphId | None) -> str:
        """What the user calls a graph."""
        known = self.trace.graphs.get(graph) if graph is not None else None
        if known is None:
            return "the graph"
        return quoted(self._here(("graph", known.id)) or readable(known.name, "the graph"))

    def view_here(self, buffer: BufferId, region: Region = WHOLE) -> str:
        """What the function of the place calls a view, or what that is a view of."""
        parts = [region[:size] for size in range(len(region), -1, -1)]
        names = (self._at(number, ("view", buffer, part)) for number in self.seen[:1] for part in parts)
        return next((name for name in names if name), "")

    def written_stream(self, stream: StreamId, words: Words) -> str:
        """A stream as code at the place of a message writes it; nothing if it cannot."""
        known = self.trace.streams[stream]
        if known.device != CURRENT_DEVICE or not known.is_default:
            return self._stream_here(stream).strip("`")
        return words.current if known.kind is StreamKind.CURRENT else words.default

    def buffer_name(self, buffer: BufferId, region: Region = WHOLE) -> str:
        """What the user calls some memory, or what made it: ``f(x.float())`` reads the result of `float`."""
        local = self.view_here(buffer, region)
        if local:
            return local
        name = readable(self.trace.buffers[buffer].name, "")
        if name:
            return name
        made = next((op for op in map(self.op, self.touching(buffer)) if _writes(op, buffer)), None)
        if made is None or is_entry(made):
            span = self.trace.buffers[buffer].span
            return f"the memory allocated in {self._line(span)}" if span is not None else "the buffer"
        by = what(made)
        return f"the result of {by}" if by.startswith("`") else f"the result of the {by}"


def _writes(op: Op, buffer: BufferId) -> bool:
    return isinstance(op, (Launch, Copy, HostAccess)) and any(
        access.buffer == buffer and access.mode.writes for access in op.accesses
    )


@frozen()
class Note:
    """A related place: an op of the trace, or a span of its own."""

    span: Span
    message: str


@frozen()
class Remedy:
    """What is missing, in words, and how a library writes it: see ``Finding.statement``."""

    help: str
    statement: str = ""


@frozen()
class Problem:
    """What a rule found on one path, before confidence and duplicates are settled.

    ``later`` is the primary place. With ``earlier`` it is a pair, and the rule listed first in
    ``RULES`` that explains a pair is the one that reports it.
    """

    later: OpId
    message: str
    label: str
    help: str
    earlier: OpId | None = None
    buffer: BufferId | None = None
    notes: tuple[Note, ...] = ()
    doubts: frozenset[Doubt] = frozenset()
    explains: frozenset[tuple[OpId, OpId]] = frozenset()
    """Pairs that this problem is the cause of; they are not reported again."""
    primary: OpId | None = None
    """Where to report it, if not at ``later``: a missing ``record_stream`` at the use, not the reuse."""
    unless_recorded: Event | None = None
    """There is no problem if anything in the module records this event."""
    on_every_path: bool = False
    """There is a problem only if no path of the module needs the place: see ``sl905_redundant_sync``."""
    circle: OpId | None = None
    """The wait of the other side, if the two wait for each other: a host that holds what a callback wants."""
    statement: str = ""
    """How the library writes what ``help`` says: see ``Finding.statement``."""
    mended_at: tuple[Span, ...] = ()
    """Where one change mends it and others of the rule, and the calls that lead there: a callback."""
    settled_by: Callable[[Judged], bool] | None = None
    """Whether another path does at the same place what is missing on this one: a condition decides."""


Check: TypeAlias = Callable[[Judged], Iterator[Problem]]


class About(Enum):
    """What a rule is about: how its findings stand to those of other rules."""

    RACE = "a pair that nothing orders"
    CAUSE = "why a pair is not ordered: it is reported instead of the race"
    ORDER = "an order between streams, or with the host, that is missing"
    KEPT = "memory that is not kept for the stream that uses it"
    REST = "anything else: one edge settles it for one buffer"

    @property
    def is_order(self) -> bool:
        """Whether one edge settles it for all buffers at once."""
        return self not in (About.KEPT, About.REST)


@frozen()
class Rule:
    """One rule: its identity, its documentation, and its check."""

    code: str
    name: str
    summary: str
    severity: Severity
    doc: str
    check: Check = field(repr=False)
    about: About = About.REST
    default: bool = True
    witness: Witness = UNDECLARED
    """What shows a finding of this rule on a GPU: see ``confirm``."""

    @property
    def is_reported(self) -> bool:
        """Whether CUDA itself refuses what it finds, whenever that runs."""
        return isinstance(self.witness, ByError)


_ASSUMPTIONS = frozenset(
    {
        Doubt.SAME_STREAM,
        Doubt.ALIAS,
        Doubt.ESCAPE,
        Doubt.SOME_PATHS,
        Doubt.OBSERVED,
        Doubt.BUDGET,
        Doubt.ARGUMENT,
        Doubt.RESULT,
        Doubt.GUESSED,
        Doubt.SIGNAL,
        Doubt.THREADS,
        Doubt.DEVICE,
        Doubt.ASSUMED,
    }
)
_DOUBTFUL = _ASSUMPTIONS | {Doubt.FAR, Doubt.REPORTED}


BELIEVABLE = 2
"""What needs more of them at once is no finding: of such hardly any was true."""


def assumptions(problem: Problem) -> int:
    """How many things must be otherwise than they seem, or than the code shows, for a problem to be one."""
    return len(problem.doubts & _ASSUMPTIONS)


def confidence(problem: Problem, trace: Trace) -> Confidence:
    """Computed from what had to be assumed: see ``Doubt``."""
    doubts = problem.doubts
    if doubts & _DOUBTFUL:
        return Confidence.POSSIBLE
    if doubts or trace.path or trace.cut or _has_unseen_between(problem, trace):
        return Confidence.LIKELY
    return Confidence.CERTAIN


def _has_unseen_between(problem: Problem, trace: Trace) -> bool:
    """Whether a call of unseen code stands between the two operations, which is made for what it does.

    ``host.copy_(x, non_blocking=True)``, then ``self.backend.finish()``, which may wait.
    """
    first = problem.earlier if problem.earlier is not None else problem.later
    return trace.calls_unseen(first, problem.later)


# ----------------------------------------------------------------------------- words for messages


def stream_of(op: Op) -> StreamId | None:
    match op:
        case Launch(stream=stream) | Copy(stream=stream) | Record(stream=stream) | Wait(stream=stream):
            return stream
        case _:
            return None


_MADE_AT = re.compile(r"@\d+:\d+#\d+(?:\.\d+)*|#\d+(?:\.\d+)*$")
_CALL_NUMBER = re.compile(r"\*?\b\d+:(?=[A-Za-z_])")
_NUMBERED = re.compile(r"\b(object|buffer|stream|event)\d")


def readable(name: str, otherwise: str) -> str:
    """A name for messages: what the analysis adds to tell unknown values apart is left out.

    ``next(0:loader)@17:15#0.0.2``, an unknown value named by the call that made it, becomes "the
    result of `next(loader)`". ``otherwise`` stands for what has no name in the source.
    """
    plain = unmarked(name)
    if not plain or _NUMBERED.search(plain) or plain[0].isdigit():
        return otherwise
    if plain.startswith("entering(") and plain.endswith(")"):
        return f"what entering `{plain[len('entering(') : -1]}` gives"
    return f"the result of `{plain}`" if plain.endswith(")") and plain[0] != "(" else plain


def unmarked(text: str) -> str:
    """A text without what tells unknown values apart: ``next(loader)`` of ``next(0:loader)@17:15#0.0.2``."""
    return _CALL_NUMBER.sub("", _MADE_AT.sub("", text))


def on(judged: Judged, op: Op) -> str:
    """``"on `side`"``, or who does it: the host, or a call that works aside."""
    stream = stream_of(op)
    if stream is None:
        return "by the host"
    return f"{'by' if judged.trace.streams[stream].by_call else 'on'} {quoted(judged.stream_name(stream))}"


_TEXT = re.compile(r"'[^']*'")


def is_name(name: str) -> bool:
    """Whether it stands for code, as ``pages['all ids']`` does; "the current stream" is a description."""
    return " " not in _TEXT.sub("", name)


def quoted(name: str) -> str:
    """Names from the source in backticks; descriptions as they are."""
    return f"`{name}`" if is_name(name) else name


def what(op: Op) -> str:
    match op:
        case Copy():
            return "copy"
        case Launch(role=Role.BEFORE_CALL):
            return "work queued before the call"
        case Launch(role=Role.AFTER_CALL):
            return "return"
        case Launch(role=Role.AFTER_YIELD):
            return "yield"
        case Launch(name=name):
            if not any(letter.isalpha() for letter in name) and name[:1].isdigit():
                return "kernel"
            return name if " " in name else called(name)
        case HostAccess(name=name):
            return name
        case _:
            return "operation"


def called(name: str) -> str:
    """What the user calls: ``0:preprocess`` is ``preprocess``, and ``object6[type]`` no name of his."""
    plain = _CALL_NUMBER.sub("", _MADE_AT.sub("", name))
    return "call" if not plain or _NUMBERED.search(plain) else f"`{plain}`"


def is_entry(op: Op) -> bool:
    """Whether an op stands for what callers may have queued before a call: see ``callers.begin``."""
    return op.role is Role.BEFORE_CALL


def is_return(op: Op) -> bool:
    """Whether an op stands for what the unseen caller does with a result: see ``callers.end_call``."""
    return op.role is Role.AFTER_CALL


def is_read_by_caller(op: Op) -> bool:
    """Whether it is what the host of the caller does with a result that is memory of the host."""
    return isinstance(op, HostAccess) and is_handed_out(op)


def is_handed_out(op: Op) -> bool:
    """The same for what a generator yields, too: its consumer uses that before the generator goes on."""
    return op.role in (Role.AFTER_CALL, Role.AFTER_YIELD)


def early_record(judged: Judged, earlier: OpId, later: OpId) -> Record | None:
    """The record that a wait for the earlier op's stream sees, if it was made before the earlier op."""
    target, source = judged.stream_at(judged.op(later)), judged.stream_at(judged.op(earlier))
    if target is None or source is None:
        return None
    for number in reversed(part(judged.index.waits_for.get((target, source), []), before=later)):
        record = judged.hb.record_seen_by(number)
        recorded = judged.op(record) if record is not None and record < earlier else None
        if isinstance(recorded, Record):
            return recorded
    return None


def insufficient_record(judged: Judged, earlier: OpId, later: OpId) -> Note | None:
    """The wait that looks as if it ordered the pair but holds a record from before the earlier op."""
    record = early_record(judged, earlier, later)
    if record is None or is_entry(judged.op(earlier)):
        return None
    verb = "recorded" if judged.trace.events[record.event].is_named else "waited for"
    return Note(record.at.span, f"{verb} here, before the operation that it should cover")


def is_announcement(event: Event) -> bool:
    """Whether somebody may wait for it who has not been seen to: not ``done`` of ``done.record(side)``, where
    the function returns and has told nobody.
    """
    return event.is_named and not event.lost


def last_barrier(judged: Judged, earlier: OpId, later: OpId) -> tuple[Note, ...]:
    """An unresolved call between the two that received one of the streams, if there is one."""
    for number in reversed(judged.numbers(Barrier, first=earlier + 1, before=later)):
        op = judged.op(number)
        if isinstance(op, Barrier) and op.streams:
            name = (
                op.name
                if " " in op.name
                else called(op.name.rpartition(".")[2] if "#" in op.name else op.name)
            )
            by = "what is called here" if name == "call" else name
            return (Note(op.at.span, f"{by} received the stream and may order it"),)
    return ()
