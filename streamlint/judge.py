"""From the paths of an entry to findings: rules, confidence, causes before symptoms, duplicates."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from streamlint.conflicts import conflicts
from streamlint.ends import EXPLICIT_WAITS, OpenEnd, TwoStreams, is_given, owner_of
from streamlint.finding import Evidence, Finding, Pair, Related, Severity
from streamlint.hb import HappensBefore, Verdict
from streamlint.responsibility import answered, open_end
from streamlint.rules import RULES, lifetimes, sl905_redundant_sync
from streamlint.rules.base import Judged, Place, Problem, Rule, confidence, is_entry, place_of, stream_of
from streamlint.trace import (
    Alloc,
    Barrier,
    BufferId,
    Copy,
    CudaCall,
    Doubt,
    Event,
    Free,
    HostAccess,
    Join,
    KeepAlive,
    Launch,
    Op,
    OpId,
    Overlap,
    Record,
    Spawn,
    StreamKind,
    SyncEvent,
    SyncStream,
    Trace,
    Wait,
    overlap,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from streamlint.interp.entries import Run
    from streamlint.source import Span


@dataclass(frozen=True, slots=True)
class Candidate:
    """A problem on one path, with its rule and settled doubts."""

    rule: Rule
    problem: Problem
    judged: Judged


def judge(trace: Trace) -> Judged:
    hb = HappensBefore(trace)
    overfull: list[BufferId] = []
    found = tuple(conflicts(trace, hb, on_cut=overfull.append))
    if overfull:
        trace = replace(trace, cut=(*trace.cut, "accesses of one buffer"))
    places: dict[Place, list[OpId]] = {}
    for number, op in enumerate(trace.ops):
        places.setdefault(place_of(op), []).append(OpId(number))
    return Judged(trace, hb, found, places)


@dataclass(frozen=True, slots=True)
class Conditional:
    """A finding that holds only if nothing in the module records the event."""

    finding: Finding
    unless_recorded: Event | None = None
    on_every_path: bool = False
    """It holds only if no entry has the place among its ``Run.needed``."""
    surer: tuple[OpenEnd | TwoStreams, Finding] | None = None
    """How it reads if the entries of the module together show something."""


def findings_of(run: Run) -> Iterator[Conditional]:
    """The findings of an entry; fingerprints are added later, when all are known."""
    paths = [judge(trace) for trace in run.traces if len(trace.ops) > 1]
    run.cut += sum(len(judged.trace.cut) for judged in paths)
    run.needed.update(span for judged in paths for span in sl905_redundant_sync.needed(judged))
    own = {which for judged in paths for which in _recorded(judged.trace)}
    for judged in paths:
        candidates = [settle(candidate, run, paths) for candidate in _candidates(judged, RULES)]
        for candidate, leader in _leaders(judged, candidates):
            follows = (_finding(leader).pair,) if leader is not None else ()
            problem = candidate.problem
            if problem.on_every_path and run.cut:
                # Paths are left out; the place may be needed on one of them.
                continue
            event = problem.unless_recorded
            if event is not None and _is_local(event, run):
                if _which(judged.trace, event) in own:
                    continue
                event = None
            finding = _finding(candidate, follows)
            yield Conditional(finding, event, problem.on_every_path, _surer(candidate, run, finding))


def _surer(candidate: Candidate, run: Run, finding: Finding) -> tuple[OpenEnd | TwoStreams, Finding] | None:
    """The finding without a doubt about unseen code, and what other entries must show for that."""
    problem, judged = candidate.problem, candidate.judged
    fact: OpenEnd | TwoStreams
    if Doubt.SAME_STREAM in problem.doubts and problem.earlier is not None:
        pair = (stream_of(judged.op(problem.earlier)), stream_of(judged.op(problem.later)))
        given = [s for s in pair if s is not None and is_given(judged.trace.streams[s])]
        if len(given) != 1 or not run.entry.is_method:
            return None
        fact, doubt = TwoStreams(owner_of(run), judged.trace.streams[given[0]].name), Doubt.SAME_STREAM
        doubts = problem.doubts | _barriers_between(judged, problem.earlier, problem.later)
    else:
        found = open_end(judged, problem)
        if found is None:
            return None
        (fact, doubt), doubts = found, problem.doubts
    problem = replace(problem, doubts=doubts - {doubt})
    return fact, replace(finding, confidence=confidence(problem, judged.trace))


def _is_local(event: Event, run: Run) -> bool:
    """Whether the function that is the entry made the event itself: then no other entry can record it."""
    return not run.entry.outside_calls and event.function == run.entry.label != run.entry.module


def _recorded(trace: Trace) -> set[tuple[Span | None, int]]:
    events = {op.event for op in trace.ops if isinstance(op, Record)}
    return {_which(trace, trace.events[number]) for number in events}


def _which(trace: Trace, event: Event) -> tuple[Span | None, int]:
    """An event by its place, and how many were made there before it."""
    before = sum(1 for other in trace.events.values() if other.span == event.span and other.id < event.id)
    return (event.span, before)


def findings_of_recording(trace: Trace) -> Iterator[Conditional]:
    """The findings of what really happened: no other path and no caller can change it.

    Advice about speed is left out: it is about what a program does as a whole, of which this is a part.
    """
    judged = judge(trace)
    rules = [rule for rule in RULES if rule.severity is not Severity.ADVICE]
    candidates = [_guessed(candidate) for candidate in _candidates(judged, rules)]
    for candidate, leader in _leaders(judged, candidates):
        follows = (_finding(leader).pair,) if leader is not None else ()
        yield Conditional(_finding(candidate, follows), candidate.problem.unless_recorded)


def _guessed(candidate: Candidate) -> Candidate:
    """Adds the doubt about a pair whose operations are both only taken to use their arguments."""
    problem = candidate.problem
    if problem.earlier is None:
        return candidate
    both = candidate.judged.op(problem.earlier).doubts & candidate.judged.op(problem.later).doubts
    if Doubt.OPAQUE not in both:
        return candidate
    return replace(candidate, problem=replace(problem, doubts=problem.doubts | {Doubt.GUESSED}))


def _candidates(judged: Judged, rules: Sequence[Rule]) -> list[Candidate]:
    """All problems of a path, without the pairs that another problem explains.

    Of two that explain one pair the mistake in a single operation goes first (a wait for nothing, a
    launch that fails), and then the rule that stands first.
    """
    found = [Candidate(rule, problem, judged) for rule in rules for problem in rule.check(judged)]
    explained: dict[tuple[OpId, OpId], Candidate] = {}
    for candidate in sorted(found, key=lambda c: c.problem.earlier is not None):
        for pair in candidate.problem.explains:
            explained.setdefault(pair, candidate)
    return [candidate for candidate in found if _speaks_for_itself(candidate, explained)]


def _speaks_for_itself(candidate: Candidate, explained: dict[tuple[OpId, OpId], Candidate]) -> bool:
    problem = candidate.problem
    if problem.earlier is None:
        return True
    if problem.explains:
        return any(explained[pair] is candidate for pair in problem.explains)
    return (problem.earlier, problem.later) not in explained


def _leaders(judged: Judged, candidates: Sequence[Candidate]) -> Iterator[tuple[Candidate, Candidate | None]]:
    """Each problem, with the one that it follows from (None if it stands for itself).

    A wait of the later stream for the earlier one, put before the first unordered pair, also orders
    what was queued on the earlier stream until then before all that the later stream does next: the
    pairs that it would order are consequences of the same missing edge.
    """
    leaders: dict[object, list[Candidate]] = {}
    for candidate in sorted(candidates, key=lambda c: (c.problem.later, -(c.problem.earlier or 0))):
        problem = candidate.problem
        if problem.earlier is None:
            yield candidate, None
            continue
        edge = (
            _agent(judged, problem.earlier),
            _agent(judged, problem.later),
            confidence(problem, judged.trace),
            _matter(candidate),
        )
        known = leaders.setdefault(edge, [])
        leader = next((c for c in known if problem.earlier < c.problem.later), None)
        if leader is None:
            known.append(candidate)
        yield candidate, leader


def _agent(judged: Judged, number: OpId) -> object:
    op = judged.op(number)
    stream = stream_of(op)
    return ("host", op.lane) if stream is None else ("stream", stream)


def _matter(candidate: Candidate) -> object:
    """What one edge settles at once: order for all buffers, lifetime for each by itself."""
    is_order = candidate.rule.code < "SL3" or candidate.rule.code == "SL601"
    return "order" if is_order else (candidate.rule.code, candidate.problem.buffer)


# ----------------------------------------------------------------------------- doubts


def settle(candidate: Candidate, run: Run, paths: Sequence[Judged]) -> Candidate:
    """Adds the doubts that need more than one path, or the entry, to be seen."""
    problem, judged = candidate.problem, candidate.judged
    if problem.earlier is None:
        settles = problem.settled_by
        if settles is None or not any(settles(other) for other in paths if other is not judged):
            return candidate
        return replace(candidate, problem=replace(problem, doubts=problem.doubts | {Doubt.SOME_PATHS}))
    doubts = set(problem.doubts)
    earlier, later = judged.op(problem.earlier), judged.op(problem.later)
    doubts -= answered(judged, problem, run.entry)
    if Doubt.OPAQUE in earlier.doubts and Doubt.OPAQUE in later.doubts:
        doubts.add(Doubt.GUESSED)
    doubts |= _of_outside_calls(judged, problem.earlier, problem.later, run)
    if Doubt.SAME_STREAM in doubts and _are_two_streams(judged, earlier, later):
        doubts.discard(Doubt.SAME_STREAM)
        doubts |= _barriers_between(judged, problem.earlier, problem.later)
    if _uses_signals(judged) or _signalled_elsewhere(problem, judged, paths):
        doubts.add(Doubt.SIGNAL)
    if _in_unrelated_threads(judged, problem.earlier, problem.later):
        doubts.add(Doubt.THREADS)
    if not doubts & {Doubt.SOME_PATHS, Doubt.ESCAPE} and _ordered_elsewhere(problem, judged, paths):
        doubts.add(Doubt.SOME_PATHS)
    return replace(candidate, problem=replace(problem, doubts=frozenset(doubts)))


def _of_outside_calls(judged: Judged, first: OpId, second: OpId, run: Run) -> set[Doubt]:
    """What a pair assumes about the calls that unseen code makes."""
    earlier, later = judged.op(first), judged.op(second)
    doubts = {Doubt.CALLS} if run.entry.after_others else set()
    if not is_entry(earlier) and earlier.at.call != later.at.call:
        doubts.add(Doubt.CALLS)
        if len(set(run.entry.outside_calls)) > 1 and _caller_may_order(judged, earlier, later, run):
            doubts.add(Doubt.SOME_PATHS)
    elif later.at.call > 1 and len(set(run.entry.outside_calls)) > 1:
        # start(), then step(), which calls start() too: what step() does alone, its own entry shows.
        doubts.add(Doubt.SOME_PATHS)
    return doubts


def _in_unrelated_threads(judged: Judged, earlier: OpId, later: OpId) -> bool:
    """Whether two threads issued the pair, and the earlier op was not issued before the later one's start.

    Locks, queues and flags order threads; they are not followed.
    """
    lanes = {judged.op(earlier).lane, judged.op(later).lane}
    starts = {op.child: number for number, op in enumerate(judged.trace.ops) if isinstance(op, Spawn)}
    if len(lanes) == 1 or lanes.isdisjoint(starts):
        return False
    first, second = judged.op(earlier).lane, judged.op(later).lane
    joined = any(isinstance(op, Join) and op.child == first for op in judged.trace.ops[earlier:later])
    return not joined and earlier > starts.get(second, -1)


def _uses_signals(judged: Judged) -> bool:
    """Whether kernels of the path may wait for values in memory: an order that no event shows."""
    return any(isinstance(op, Barrier) and op.why is Doubt.SIGNAL for op in judged.trace.ops)


def _signalled_elsewhere(problem: Problem, judged: Judged, paths: Sequence[Judged]) -> bool:
    """Whether a path with the same two places uses signals: then one of them waits for a value here too.

    A capture stores the value with another call: ``if capturing: memset32(flag) else: write_value32(flag)``.
    """
    assert problem.earlier is not None
    return any(
        _uses_signals(other)
        and _same_place(other, judged, problem.earlier)
        and _same_place(other, judged, problem.later)
        for other in paths
        if other is not judged
    )


def _caller_may_order(judged: Judged, earlier: Op, later: Op, run: Run) -> bool:
    """Whether outside code can be expected to synchronize between two different methods.

    It can where the class has another method for that, and, before a host access, where the first
    method queued its work on the caller's own stream. It need not where the second method waits by
    itself: too late, or for the wrong event.
    """
    if isinstance(later, HostAccess) and _waits_itself(judged, later):
        return False
    stream = stream_of(earlier)
    callers_own = stream is not None and judged.trace.streams[stream].kind is StreamKind.CURRENT
    return (callers_own and isinstance(later, HostAccess)) or bool(run.entry.orders_elsewhere)


def _waits_itself(judged: Judged, later: Op) -> bool:
    """Whether the call that holds ``later`` has a synchronization of its own, or asks an event."""
    return any(
        isinstance(op, SyncEvent) or (isinstance(op, (SyncStream, CudaCall)) and op.name in EXPLICIT_WAITS)
        for op in judged.trace.ops
        if op.at.call == later.at.call
    )


def _barriers_between(judged: Judged, first: OpId, second: OpId) -> set[Doubt]:
    """What else may order the pair: of several assumptions the search for an order names one."""
    stream = stream_of(judged.op(first))
    between = (judged.op(OpId(number)) for number in range(first + 1, second))
    return {op.why for op in between if isinstance(op, Barrier) and stream in op.streams}


def _are_two_streams(judged: Judged, earlier: Op, later: Op) -> bool:
    """Whether the code makes one of the two streams wait for the other: then it means two streams.

    ``def forward(self, x, side): side.wait_stream(torch.cuda.current_stream())``. What a library waits
    for by itself, as a hand-off by DLPack does, tells nothing.
    """
    pair = {stream for stream in (stream_of(earlier), stream_of(later)) if stream is not None}
    outside = {stream for stream in pair if judged.trace.streams[stream].kind is StreamKind.UNKNOWN}
    current = {stream.id for stream in judged.trace.streams.values() if stream.kind is StreamKind.CURRENT}
    for number, op in enumerate(judged.trace.ops):
        record = judged.hb.record_seen_by(OpId(number)) if isinstance(op, Wait) else None
        if record is None or not isinstance(op, Wait) or judged.trace.events[op.event].span is None:
            continue
        ordered = {stream_of(op), stream_of(judged.op(record))}
        if outside & ordered and ordered <= pair | current and len(ordered) > 1:
            return True
    return False


def _ordered_elsewhere(problem: Problem, judged: Judged, paths: Sequence[Judged]) -> bool:
    """Whether another path orders the same two places, on the same streams.

    Then some condition decides about the synchronization, and it may be the one that decides
    whether there is anything to wait for.
    """
    assert problem.earlier is not None
    if isinstance(judged.op(problem.later), (Alloc, Free, KeepAlive)):
        return any(
            lifetimes.settled_elsewhere(problem, judged, other) for other in paths if other is not judged
        )
    # A pair that shares no memory is about what the earlier op may use of memory given back since.
    shares = _meet(judged, problem.earlier, problem.later)
    for other in paths:
        if other is judged:
            continue
        first = _same_place(other, judged, problem.earlier)
        second = _same_place(other, judged, problem.later)
        for a in first:
            for b in second:
                if a < b and _meet(other, a, b) >= shares and other.hb.ordered(a, b).verdict is Verdict.YES:
                    return True
    return False


def _same_place(other: Judged, judged: Judged, number: OpId) -> list[OpId]:
    op = judged.op(number)
    if not isinstance(op, (Launch, Copy, HostAccess)):
        return []
    stream = _stream_key(judged, number)
    return [here for here in other.places.get(place_of(op), ()) if _stream_key(other, here) == stream]


def _stream_key(judged: Judged, number: OpId) -> object:
    stream = stream_of(judged.op(number))
    if stream is None:
        return None
    known = judged.trace.streams[stream]
    return (known.kind, known.span, known.name)


def _meet(judged: Judged, a: OpId, b: OpId) -> bool:
    first, second = judged.op(a), judged.op(b)
    if not isinstance(first, (Launch, Copy, HostAccess)) or not isinstance(
        second, (Launch, Copy, HostAccess)
    ):
        return False
    return any(
        x.buffer == y.buffer
        and (x.mode.writes or y.mode.writes)
        and overlap(x.region, y.region) is not Overlap.NO
        for x in first.accesses
        for y in second.accesses
    )


# ----------------------------------------------------------------------------- findings


def _finding(candidate: Candidate, follows: tuple[Pair, ...] = ()) -> Finding:
    rule, problem, judged = candidate.rule, candidate.problem, candidate.judged
    later = judged.op(problem.primary if problem.primary is not None else problem.later)
    notes: dict[tuple[Span, str], None] = dict.fromkeys((note.span, note.message) for note in problem.notes)
    related = [Related(span, message) for span, message in notes]
    if problem.earlier is not None and is_entry(judged.op(problem.earlier)):
        related = [
            replace(item, message="may still be pending when the function is called") if i == 0 else item
            for i, item in enumerate(related)
        ]
    related += [
        Related(span, "reached through this call")
        for span in later.at.calls[1:]
        if span not in {item.span for item in related}
        and (span.path != later.at.span.path or span.line != later.at.span.line)
    ]
    return Finding(
        code=rule.code,
        name=rule.name,
        message=problem.message,
        help=problem.help,
        confidence=confidence(problem, judged.trace),
        severity=rule.severity,
        primary=later.at.span,
        label=problem.label,
        function=later.at.function,
        related=tuple(related[:6]),
        earlier=judged.op(problem.earlier).at.span if problem.earlier is not None else None,
        follows=follows,
        evidence=Evidence(
            judged.trace,
            problem.earlier if problem.earlier is not None else problem.later,
            problem.later,
            problem.buffer,
        ),
    )


def merge(found: Iterable[Finding], statement: Callable[[Span], str]) -> tuple[Finding, ...]:
    """One finding per rule and pair of places, the most certain one, with fingerprints, sorted."""
    best: dict[Pair, Finding] = {}
    for finding in found:
        known = best.get(finding.pair)
        if known is None:
            best[finding.pair] = finding
            continue
        better = max((known, finding), key=lambda f: f.confidence.rank)
        best[finding.pair] = replace(better, follows=tuple(dict.fromkeys((*known.follows, *finding.follows))))
    _follow_causes(best)
    _follow_callers(best)
    counted: dict[str, int] = {}
    out: list[Finding] = []
    for finding in sorted(best.values(), key=lambda f: (f.sort_key, f.pair[2] or f.primary)):
        other = statement(finding.earlier) if finding.earlier is not None else ""
        text = (finding.code, finding.primary.path, finding.function, statement(finding.primary), other)
        base = "\0".join(text)
        ordinal = counted.get(base, 0)
        counted[base] = ordinal + 1
        out.append(
            replace(finding, fingerprint=hashlib.sha256(f"{base}\0{ordinal}".encode()).hexdigest()[:20])
        )
    return tuple(out)


_CAUSES = frozenset({"SL103", "SL104", "SL105", "SL204", "SL601"})
_SYMPTOMS = frozenset({"SL101", "SL102", "SL201", "SL202"})


def _follow_causes(found: dict[Pair, Finding]) -> None:
    """Makes a race follow the finding that explains it on another path.

    With ``if on_gpu: event.wait()`` before a host read, the path without the branch shows SL201 and the
    path with it SL204, at the same two places: one mistake.
    """
    causes: dict[tuple[Span, Span | None], Pair] = {
        (primary, other): (code, primary, other) for code, primary, other in found if code in _CAUSES
    }
    for (code, primary, other), finding in found.items():
        cause = causes.get((primary, other)) if code in _SYMPTOMS else None
        if cause is not None and cause not in finding.follows:
            found[code, primary, other] = replace(finding, follows=(*finding.follows, cause))


def _follow_callers(found: dict[Pair, Finding]) -> None:
    """Makes the findings that differ only in the function that outside code calls follow the surest of them.

    ``offload()`` uses a tensor too early that may be pending when it is called; so does ``offload_all()``,
    which calls it: one missing wait.
    """
    first: dict[tuple[str, Span], Pair] = {}
    for pair, finding in sorted(found.items(), key=lambda item: -item[1].confidence.rank):
        evidence = finding.evidence
        if evidence is None or not is_entry(evidence.trace.ops[evidence.earlier]):
            continue
        leader = first.setdefault((finding.code, finding.primary), pair)
        if leader != pair and leader not in finding.follows:
            found[pair] = replace(finding, follows=(*finding.follows, leader))
