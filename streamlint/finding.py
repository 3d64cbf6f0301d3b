"""What streamlint reports."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias

from streamlint.frozen import Enumeration, frozen, replace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from streamlint.source import Span
    from streamlint.trace import BufferId, OpId, Trace


class Confidence(Enumeration):
    """How sure a finding is; computed from facts, never chosen by a rule."""

    POSSIBLE = "possible"
    """Something escaped, an alias or an undocumented behaviour was assumed."""
    LIKELY = "likely"
    """A path or an outside call order was assumed."""
    CERTAIN = "certain"
    """Straight line, everything resolved."""

    @property
    def rank(self) -> int:
        return {"possible": 0, "likely": 1, "certain": 2}[self.value]


class Severity(Enumeration):
    ERROR = "error"
    """Wrong results, an error or a deadlock."""
    WARNING = "warning"
    """Deprecated or fragile."""
    ADVICE = "advice"
    """Correct, but slow or redundant."""


class Seen(Enumeration):
    """Where a finding comes from."""

    PREDICTED = "predicted from source"
    OBSERVED = "seen only at run time"
    BOTH = "predicted from source, and seen at run time"


@frozen()
class Related:
    span: Span
    message: str


@frozen()
class Edit:
    """A stretch of a file and what takes its place; where the stretch is empty, the text is put in."""

    span: Span
    text: str

    @property
    def is_insertion(self) -> bool:
        span = self.span
        return (span.line, span.col) == (span.end_line, span.end_col)

    def told(self, path: str) -> str:
        """What is put in, and where, for a reader who looks at one file."""
        code = "; ".join(line.strip() for line in self.text.strip().splitlines())
        elsewhere = "" if self.span.path == path else f" of {self.span.path}"
        return f"`{code}` before line {self.span.line}{elsewhere}"


@frozen()
class Fix:
    """Edits of one file that together mend a finding."""

    title: str
    edits: tuple[Edit, ...]
    safe: bool
    """Whether the text in sight proves that it breaks no program: it only adds an order."""


@frozen()
class Occurrence:
    """What ``confirm`` and ``graph`` need: the ops behind a finding, in their trace."""

    trace: Trace
    earlier: OpId
    later: OpId
    buffer: BufferId | None
    explains: frozenset[tuple[OpId, OpId]] = frozenset()
    """The pairs that are unordered because of it."""
    circle: OpId | None = None
    """The op for which the later one waits, and which waits for it."""


Pair: TypeAlias = "tuple[str, Span, Span | None]"


@frozen()
class Finding:
    """One problem at one pair of places.

    ``message`` names what is unordered in the user's own names, without advice; ``help`` says
    how to fix it, and ``advice`` the same with the line to put in. ``fingerprint`` is stable when lines move.
    """

    code: str
    name: str
    message: str
    help: str
    confidence: Confidence
    severity: Severity
    primary: Span
    label: str
    """Short text for the caret under the primary place."""
    function: str
    related: tuple[Related, ...] = ()
    fingerprint: str = ""
    evidence: Occurrence | None = field(default=None, compare=False, repr=False)
    earlier: Span | None = None
    """The earlier place, if the finding is about two."""
    follows: tuple[Pair, ...] = ()
    """The finding that this one is a consequence of: the same missing edge would order both."""
    edge: str = ""
    """The wait that would order it, if that is what is missing: findings of one edge are told once."""
    fork: str = ""
    """The same at the beginning of a call, of what is pending then."""
    also: tuple[Related, ...] = ()
    """Where the findings are that follow from it and are not shown: of no report, see ``leading``."""
    seen: Seen = Seen.PREDICTED
    at_call: bool = False
    """The earlier operation is what an unseen caller may have queued before its call."""
    fixes: tuple[Fix, ...] = ()
    """What would mend it, the best first."""
    statement: str = ""
    """``"PyTorch: `side.wait_stream(main)`"``: how a library says it, where no fix knows the line."""

    @property
    def advice(self) -> str:
        """How to mend it, with the lines to put in if it is known where they go."""
        edits = self.fixes[0].edits if self.fixes else ()
        if edits and all(edit.is_insertion for edit in edits):
            return f"{self.help}; for example {', and '.join(edit.told(self.primary.path) for edit in edits)}"
        return f"{self.help} ({self.statement})" if self.statement else self.help

    @property
    def elsewhere(self) -> tuple[Related, ...]:
        """All other places that a reader is told of."""
        return (*self.related, *self.also)

    @property
    def pair(self) -> Pair:
        """What a finding is about: there is one for each rule and pair of places."""
        return (self.code, self.primary, self.earlier)

    @property
    def sort_key(self) -> tuple[str, int, int, str, str]:
        return (self.primary.path, self.primary.line, self.primary.col, self.code, self.message)


@frozen()
class SourceError:
    """A file that could not be read or analyzed; the run goes on without it."""

    path: str
    line: int
    message: str


SAME_EDGE = "the same order is missing"
SAME_PLACE = "the same mistake"

OF_FIXES = "fixes"
"""``LeftOut.what`` where fixes of findings were not looked for."""


@frozen()
class LeftOut:
    """What was not looked at in a function, because a budget ran out."""

    path: str
    function: str
    what: str
    count: int = 1
    """Entries in which it was: a method is called by itself, and before and after others.

    Where it is fixes, the findings without them.
    """


@frozen()
class Statistics:
    """How much was analyzed, counted in functions that touch streams."""

    exact: int = 0
    cut: int = 0
    skipped: int = 0
    left_out: tuple[LeftOut, ...] = ()

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(
            self.exact + other.exact,
            self.cut + other.cut,
            self.skipped + other.skipped,
            self.left_out + other.left_out,
        )


@frozen()
class Report:
    """The result of a run, sorted, before suppression comments and selection are applied.

    ``findings`` holds consequences too (``Finding.follows``): see ``leading``.
    """

    findings: tuple[Finding, ...]
    errors: tuple[SourceError, ...]
    files: int
    analyzed: int
    statistics: Statistics = Statistics()
    marked: frozenset[str] | None = None
    """The files whose text may hold comments for us; None if nobody has looked."""


def leading(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings to show: a consequence only if what it follows from is not among them, or is less sure.

    So one missing edge is shown once, and suppressing the finding that stands for it brings the
    next one to light.
    """
    causes = _all_causes(findings)
    standing = _standing(findings, causes)
    places = {finding.pair: place for place, finding in enumerate(standing)}
    also: dict[Pair, list[Finding]] = {finding.pair: [] for finding in standing}
    for finding in (one for one in findings if one.pair not in places):
        shown = (places[pair] for pair in causes[finding.pair] & places.keys())
        above = [place for place in shown if not _is_surer(finding, standing[place])]
        if above:
            first = min(above, key=lambda place: (-standing[place].confidence.rank, place))
            also[standing[first].pair].append(finding)
    return tuple(_with(finding, also[finding.pair]) for finding in standing)


def standing_alone(findings: Sequence[Finding]) -> frozenset[Pair]:
    """The findings that follow from none which is as sure.

    Where two follow from each other, on two paths, it is the surer one, or the first.
    """
    return frozenset(finding.pair for finding in _standing(findings, _all_causes(findings)))


def _all_causes(findings: Sequence[Finding]) -> dict[Pair, set[Pair]]:
    by_pair = {finding.pair: finding for finding in findings}
    return {finding.pair: _causes(finding, by_pair) for finding in findings}


def _standing(findings: Sequence[Finding], causes: Mapping[Pair, set[Pair]]) -> list[Finding]:
    # One place may have several that read alike: reads of one buffer that two writes precede.
    ordered = sorted(findings, key=lambda finding: finding.sort_key)
    rank = {finding.pair: number for number, finding in enumerate(ordered)}
    by_pair = {finding.pair: finding for finding in findings}
    return [finding for finding in findings if _stands(finding, by_pair, causes, rank)]


def _causes(finding: Finding, by_pair: Mapping[Pair, Finding]) -> set[Pair]:
    """All that a finding follows from in the end, or on the way there."""
    found: set[Pair] = set()
    waiting = list(finding.follows)
    while waiting:
        pair = waiting.pop()
        if pair in by_pair and pair not in found:
            found.add(pair)
            waiting += by_pair[pair].follows
    return found


def _stands(
    finding: Finding,
    by_pair: Mapping[Pair, Finding],
    causes: Mapping[Pair, set[Pair]],
    rank: Mapping[Pair, int],
) -> bool:
    """Whether nothing as sure stands for a finding; of those that follow from each other the first does."""
    for pair in causes[finding.pair] - {finding.pair}:
        cause = by_pair[pair]
        if _is_surer(cause, finding):
            return False
        follows_back = finding.pair in causes[pair]
        if not _is_surer(finding, cause) and not (follows_back and rank[finding.pair] < rank[pair]):
            return False
    return True


def _is_surer(one: Finding, other: Finding) -> bool:
    return one.confidence.rank > other.confidence.rank


def _with(finding: Finding, others: Sequence[Finding]) -> Finding:
    """A finding with the places that those have which follow from it, and it has not; it says how many."""
    known = {finding.primary, *(related.span for related in finding.related)}
    places = (
        Related(other.primary, other.label) if other.primary not in known else next(iter(other.related), None)
        for other in sorted(others, key=lambda one: one.sort_key)
    )
    also = {place.span: place for place in places if place is not None and place.span not in known}
    if not also:
        return finding
    if finding.earlier is None:
        noun, same = "calls" if len(also) > 1 else "call", SAME_PLACE
    else:
        noun, same = "accesses" if len(also) > 1 else "access", SAME_EDGE
    return replace(
        finding,
        message=f"{finding.message} (and {len(also)} more {noun})",
        also=tuple(replace(each, message=f"{each.message}: {same}") for each in also.values()),
    )
