"""From the paths of an entry to findings: rules, confidence, causes before symptoms, duplicates."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from typing import TYPE_CHECKING

from streamlint.finding import Confidence, Finding, Occurrence, Pair, Related, Severity
from streamlint.frozen import frozen, replace
from streamlint.judging import conversions, evidence, odds, owners
from streamlint.judging.call_ends import Fact, TwoStreams, Unawaited, is_given
from streamlint.judging.doubts import barriers_between, guessed, settle
from streamlint.judging.edges import missing_edge, missing_fork
from streamlint.judging.open_ends import (
    left_by_event,
    left_by_kept_event,
    left_in_handle,
    open_end,
    read_by_caller,
)
from streamlint.judging.responsibility import (
    called_with_pending,
    callers_show,
    hands_out_pending,
    is_forked_by_caller,
)
from streamlint.order.conflicts import conflicts
from streamlint.order.hb import HappensBefore, Verdict
from streamlint.rules import RULES, lifetimes, sl905_redundant_sync
from streamlint.rules.base import (
    BELIEVABLE,
    About,
    Judged,
    Place,
    Problem,
    Rule,
    assumptions,
    confidence,
    is_entry,
    part,
    place_of,
    stream_of,
)
from streamlint.rules.index import Index
from streamlint.rules.namesakes import namesakes
from streamlint.trace import (
    Alloc,
    BufferId,
    Doubt,
    Event,
    EventId,
    Free,
    OpId,
    Record,
    Trace,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from streamlint.interp.entries.runs import Run
    from streamlint.judging.program import Program
    from streamlint.source import Span


@frozen()
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
    return Judged(trace, hb, found, places, Index.of(trace.ops, hb), namesakes(trace, found))


@frozen()
class Conditional:
    """A finding that holds only if nothing in the module records the event."""

    finding: Finding
    unless_recorded: Event | None = None
    on_every_path: bool = False
    """It holds only if no entry has the place among its ``Run.needed``."""
    surer: tuple[Fact, Finding] | None = None
    """How it reads if the entries of the module together show something."""
    pending_at: str = ""
    """The function that finds what it is given pending, if nothing shows who left it so, or hands it out."""
    only_if: Unawaited | None = None
    """What the entries together must show, or there is no finding."""


def findings_of(run: Run, program: Program) -> Iterator[Conditional]:
    """The findings of an entry; fingerprints are added later, when all are known."""
    paths = [judge(trace) for trace in run.traces if len(trace.ops) > 1]
    run.cut += sum(len(judged.trace.cut) for judged in paths)
    run.left_out = run.left_out.union(*(judged.trace.cut for judged in paths))
    run.needed.update(span for judged in paths for span in sl905_redundant_sync.needed(judged))
    places = [_places_of_events(judged.trace) for judged in paths]
    recorded = {
        made[op.event]
        for judged, made in zip(paths, places, strict=True)
        for op in judged.trace.ops
        if isinstance(op, Record)
    }
    problems: list[list[Problem]] = []
    for judged, made in zip(paths, places, strict=True):
        settled = [
            replace(candidate, problem=_settled(candidate, run, paths))
            for candidate in _candidates(judged, RULES)
            if not evidence.is_hearsay(judged, candidate.problem)
        ]
        problems.append([one.problem for one in settled])
        candidates = [
            one
            for one in settled
            if assumptions(one.problem) <= BELIEVABLE
            and not owners.is_ordered_by_default(judged, one.problem)
            and not program.keeps_in_order(judged, one.problem)
        ]
        for candidate, leader in _leaders(judged, candidates):
            follows = (_finding(leader).pair,) if leader is not None else ()
            problem = candidate.problem
            if problem.on_every_path and run.cut:
                # Paths are left out; the place may be needed on one of them.
                continue
            event = problem.unless_recorded
            if event is not None and _is_local(event, run):
                if made[event.id] in recorded:
                    continue
                event = None
            finding = _finding(candidate, follows)
            if finding.confidence is not Confidence.POSSIBLE and finding.severity is not Severity.ADVICE:
                run.at_fault = True
            yield Conditional(
                finding,
                event,
                problem.on_every_path,
                _surer(candidate, run, finding),
                called_with_pending(judged, problem, run.entry)
                or hands_out_pending(judged, problem, run.entry),
                read_by_caller(judged, problem),
            )
    program.note(run, paths, problems)


def _settled(candidate: Candidate, run: Run, paths: Sequence[Judged]) -> Problem:
    """The problem with everything that speaks against it."""
    judged = candidate.judged
    settled = settle(candidate.problem, judged, run, paths)
    known = evidence.doubts_of(judged, settled) | conversions.doubts_of(judged, settled, run.entry)
    against = odds.doubts_of(judged, settled, candidate.rule, paths)
    return replace(settled, doubts=settled.doubts | known | against)


def _surer(candidate: Candidate, run: Run, finding: Finding) -> tuple[Fact, Finding] | None:
    """The finding without a doubt about unseen code, and what other entries must show for that."""
    problem, judged = candidate.problem, candidate.judged
    fact: Fact
    if (
        unawaited := read_by_caller(judged, problem)
        or left_by_event(judged, problem, run.entry)
        or left_in_handle(judged, problem, run.entry)
        or left_by_kept_event(judged, problem, run.entry)
    ) is not None:
        if run.entry.order_in_sight or run.entry.has_callers or run.entry.asked_by_others:
            # What becomes of the result is seen there.
            return None
        fact, doubt, doubts = unawaited, Doubt.RESULT, problem.doubts
    elif Doubt.SAME_STREAM in problem.doubts and problem.earlier is not None:
        pair = lifetimes.user_and_owner(judged, problem)
        given = [s for s in pair if s is not None and is_given(judged.trace.streams[s])]
        if len(given) != 1 or not run.entry.is_method:
            return None
        fact, doubt = TwoStreams(run.entry.owner, judged.trace.streams[given[0]].name), Doubt.SAME_STREAM
        doubts = problem.doubts | barriers_between(judged, problem.earlier, problem.later)
    else:
        found = open_end(judged, problem, run.entry)
        if found is None:
            return None
        (fact, doubt), doubts = found, problem.doubts
        if doubt is Doubt.ARGUMENT and (
            run.entry.order_in_sight
            or callers_show(judged, problem, run.entry)
            or is_forked_by_caller(judged, stream_of(judged.op(problem.later)), run.entry)
        ):
            # stats = MeanStd(); stats.update(reader.next_ready()): what is pending then is seen there.
            return None
        if doubt is Doubt.RESULT and (run.entry.has_callers or run.entry.asked_by_others):
            # consume(self.rows(), self.stream): its callers show where a result is used.
            return None
    problem = replace(problem, doubts=doubts - {doubt})
    sure = confidence(problem, judged.trace)
    if not isinstance(fact, TwoStreams) and sure is Confidence.CERTAIN:
        # What the module shows of its stream says nothing of a caller that asks the object for it.
        sure = Confidence.LIKELY
    return fact, replace(finding, confidence=sure)


def _is_local(event: Event, run: Run) -> bool:
    """Whether the function that is the entry made the event itself: then no other entry can record it."""
    return not run.entry.outside_calls and event.function == run.entry.label != run.entry.module


def _places_of_events(trace: Trace) -> dict[EventId, tuple[Span | None, int]]:
    """Events by the place where they are made, and how many were made there before."""
    made: Counter[Span | None] = Counter()
    places: dict[EventId, tuple[Span | None, int]] = {}
    for number in sorted(trace.events):
        span = trace.events[number].span
        places[number] = (span, made[span])
        made[span] += 1
    return places


def findings_of_recording(trace: Trace) -> Iterator[Conditional]:
    """The findings of what really happened: no other path and no caller can change it.

    Advice about speed is left out: it is about what a program does as a whole, of which this is a part.
    """
    judged = judge(trace)
    rules = [rule for rule in RULES if rule.severity is not Severity.ADVICE]
    candidates = [
        replace(c, problem=replace(c.problem, doubts=c.problem.doubts | guessed(judged, c.problem)))
        for c in _candidates(judged, rules)
    ]
    for candidate, leader in _leaders(judged, candidates):
        follows = (_finding(leader).pair,) if leader is not None else ()
        yield Conditional(_finding(candidate, follows), candidate.problem.unless_recorded)


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
    pairs that it would order are consequences of the same missing edge, if they are not surer.
    """
    leaders: dict[object, dict[int, list[Candidate]]] = {}
    """By what a wait would order and how sure they are, the surest first; by their later operations."""
    orders: dict[int, list[Candidate]] = {}
    """Missing orders of pairs, by their later operation."""
    for candidate in candidates:
        if candidate.rule.about.is_order and candidate.problem.earlier is not None:
            orders.setdefault(candidate.problem.later, []).append(candidate)
    sure = {id(c): confidence(c.problem, judged.trace).rank for c in candidates}
    for candidate in sorted(candidates, key=lambda c: (-sure[id(c)], *_place(c))):
        problem = candidate.problem
        if problem.earlier is None:
            yield candidate, None
            continue
        edge = (_agent(judged, problem.earlier), _waiting(judged, problem.later), _matter(judged, candidate))
        known = leaders.setdefault(edge, {})
        served = (_that_waits(level, problem.earlier, problem.later) for level in known.values())
        leader = next((one for one in served if one is not None), None)
        if leader is None and candidate.rule.about.is_order:
            others = (_last(level, problem.later) for levels in leaders.values() for level in levels.values())
            leader = next((c for c in others if c is not None and _orders(judged, c, candidate)), None)
        if leader is None:
            leader = _order_of_reuse(judged, candidate, orders)
        if leader is None:
            known.setdefault(sure[id(candidate)], []).append(candidate)
        yield candidate, leader


def _place(candidate: Candidate) -> tuple[int, int, int]:
    """What is told first: the pair with least between, and of what is freed the use nearest to its owner."""
    earlier, later = candidate.problem.earlier or OpId(0), candidate.problem.later
    if candidate.rule.about is About.KEPT:
        return later, len(candidate.judged.op(earlier).at.calls), earlier
    return later, -earlier, 0


def _that_waits(level: Sequence[Candidate], earlier: OpId, later: OpId) -> Candidate | None:
    """The problem that a wait right before its later operation mends, and with it a pair."""
    first = bisect_right(level, earlier, key=lambda one: one.problem.later)
    return level[first] if first < len(level) and level[first].problem.later <= later else None


def _last(level: Sequence[Candidate], later: OpId) -> Candidate | None:
    """The last of several problems whose later operation comes no later than another."""
    behind = bisect_right(level, later, key=lambda one: one.problem.later)
    return level[behind - 1] if behind else None


def _orders(judged: Judged, first: Candidate, other: Candidate) -> bool:
    """Whether the edge that one problem misses would also order the pair of another, by edges that there are.

    ``h2d`` does not wait for ``d2h`` before it refills a slot: so it does not wait for the work before the
    fetch either, nor does what waits for the refill.
    """
    begin, end = first.problem, other.problem
    if not first.rule.about.is_order or None in (begin.earlier, end.earlier):
        return False
    assert begin.earlier is not None
    assert end.earlier is not None
    return (
        confidence(begin, judged.trace).rank >= confidence(end, judged.trace).rank
        and _is_before(judged, begin.later, end.later)
        and _is_before(judged, end.earlier, _waited_for(judged, begin.earlier, begin.later))
    )


def _waited_for(judged: Judged, earlier: OpId, later: OpId) -> OpId:
    """The last work of the earlier operation's stream that a wait right before the later one waits for."""
    stream = stream_of(judged.op(earlier))
    same = (n for n in range(later - 1, earlier, -1) if stream_of(judged.op(OpId(n))) == stream)
    return OpId(next(same, earlier)) if stream is not None else earlier


def _is_before(judged: Judged, first: OpId, second: OpId) -> bool:
    return first == second or (first < second and judged.hb.ordered(first, second).verdict is Verdict.YES)


def _order_of_reuse(
    judged: Judged, candidate: Candidate, orders: Mapping[int, Sequence[Candidate]]
) -> Candidate | None:
    """The missing edge whose wait would also come before the first use of memory that is handed out again.

    ``with torch.cuda.stream(side): y = x * 2`` without a fork reads ``x`` too early, and may get the memory
    of the last ``y`` too early. One wait before it is enough for both.
    """
    again = judged.op(candidate.problem.later)
    if isinstance(again, Free):
        return _order_before_the_caller(judged, candidate, again, orders)
    if not isinstance(again, Alloc) or again.stream is None or candidate.problem.earlier is None:
        return None
    of_stream = judged.index.of_stream.get(again.stream, [])
    first = next(iter(part(of_stream, first=candidate.problem.later + 1)), None)
    for other in orders.get(first, ()) if first is not None else ():
        waits = other.problem
        if (
            waits.earlier is not None
            and _agent(judged, waits.earlier) == _agent(judged, candidate.problem.earlier)
            and confidence(waits, judged.trace).rank >= confidence(candidate.problem, judged.trace).rank
        ):
            return other
    return None


def _order_before_the_caller(
    judged: Judged, candidate: Candidate, drop: Free, orders: Mapping[int, Sequence[Candidate]]
) -> Candidate | None:
    """The missing wait after whose place the caller would not get the memory too early either.

    ``return y`` without a join hands ``y`` out too early, and the caller's next tensor may get the memory of
    what ``y`` was made of: one wait before the return is enough for both.
    """
    use, owner = candidate.problem.earlier, judged.trace.buffers[drop.buffer].alloc_stream
    for other in (each for group in orders.values() for each in group):
        begin, end = other.problem.earlier, other.problem.later
        if use is None or begin is None or judged.op(end).at.call != drop.at.call:
            continue
        if (
            (_agent(judged, begin), _agent(judged, end)) == (_agent(judged, use), ("stream", owner))
            and confidence(other.problem, judged.trace).rank
            >= confidence(candidate.problem, judged.trace).rank
            and _is_before(judged, use, _waited_for(judged, begin, end))
        ):
            return other
    return None


def _agent(judged: Judged, number: OpId) -> object:
    op = judged.op(number)
    stream = op.stream if isinstance(op, Alloc) else stream_of(op)
    return ("host", op.lane) if stream is None else ("stream", stream)


def _waiting(judged: Judged, number: OpId) -> object:
    """Who would have to wait: the host, before calls that work aside (``comm.Isend(x)``)."""
    op = judged.op(number)
    stream = stream_of(op)
    aside = stream is not None and judged.trace.streams[stream].by_call
    return ("host", op.lane) if aside else _agent(judged, number)


def _matter(judged: Judged, candidate: Candidate) -> object:
    """What one edge settles at once: order for all buffers, lifetime for what one statement lets go.

    ``return logits`` at the end of a function drops ``ids`` and ``mask``, which a side stream may still read.
    """
    if candidate.rule.about.is_order:
        return "order"
    if candidate.rule.about is not About.KEPT:
        return candidate.rule.code, candidate.problem.buffer
    drops = (judged.op(number) for number in judged.numbers(Free, first=candidate.problem.earlier or OpId(0)))
    dropped = (op for op in drops if isinstance(op, Free) and op.buffer == candidate.problem.buffer)
    return candidate.rule.code, next((place_of(op) for op in dropped), candidate.problem.buffer)


# ----------------------------------------------------------------------------- findings


def _finding(candidate: Candidate, follows: tuple[Pair, ...] = ()) -> Finding:
    rule, problem, judged = candidate.rule, candidate.problem, candidate.judged
    later = judged.op(problem.primary if problem.primary is not None else problem.later)
    notes: dict[tuple[Span, str], None] = dict.fromkeys((note.span, note.message) for note in problem.notes)
    related = [Related(span, message) for span, message in notes]
    related += [
        Related(span, "reached through this call")
        for span in later.at.calls[1:]
        if span not in {item.span for item in related} and not span.begins_in_line_of(later.at.span)
    ]
    edge = missing_edge(judged, rule, problem)
    return Finding(
        code=rule.code,
        name=rule.name,
        message=problem.message,
        help=problem.help,
        statement=problem.statement,
        confidence=confidence(problem, judged.trace),
        severity=rule.severity,
        primary=later.at.span,
        label=problem.label,
        function=later.at.function,
        related=tuple(related[:6]),
        earlier=judged.op(problem.earlier).at.span if problem.earlier is not None else None,
        at_call=problem.earlier is not None and is_entry(judged.op(problem.earlier)),
        follows=follows,
        edge=edge,
        fork=missing_fork(judged, problem) if edge else "",
        evidence=Occurrence(
            judged.trace,
            problem.earlier if problem.earlier is not None else problem.later,
            problem.later,
            problem.buffer,
            problem.explains,
            problem.circle,
        ),
    )
