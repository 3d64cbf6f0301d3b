"""Conflict search: pairs of accesses to one place, at least one a write, that nothing orders.

Per buffer a *frontier* of accesses is kept, and every new access is compared with it. An access
leaves the frontier only when another stands for it:

* a write that is surely ordered after it and covers its region (atomic additions, which commute,
  stand for additions only), or
* for a read, a later read of the same region, with the same doubts, on the same stream or lane
  (the latest read is the one to wait for),

and only if a write has no doubt of its own that the old access has not: what may not happen hides
nothing. An access that conflicts with another never removes it, so no race hides a second
one: **for every unordered pair (a, c) there is an access b, a itself or one that superseded it and
so comes surely after a, with (b, c) reported, and it is as little ordered as (a, c).** (Two equal
accesses of one op, as in ``torch.add(x, x, out=y)``, count as one.)

A host access supersedes device work only in a trace with one lane: host accesses of two threads
are not compared (data races among Python threads are not this tool's business), so one could not
report for the other. Those of a host function in a stream are: it runs when the stream comes to it.

Where a buffer's frontier grows past 64 entries, those that the host knows to be complete are
dropped: nothing it issues later can race with them (only in a trace with one lane). Past
``FRONTIER_LIMIT`` entries that are all pending, more than a program with a few dozen streams or
ring slots makes, the oldest is dropped and ``on_cut`` is told.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from streamlint.frozen import Enumeration, frozen
from streamlint.order.hb import HappensBefore, Ordering, Verdict
from streamlint.trace import (
    NOTHING,
    Access,
    BufferId,
    Callback,
    Copy,
    Doubt,
    HostAccess,
    HostEffect,
    Interval,
    LaneId,
    Launch,
    Mode,
    Op,
    OpId,
    Overlap,
    Region,
    Selector,
    StreamId,
    Trace,
    covers,
    overlap,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

FRONTIER_LIMIT = 512
_TIDY_AT = 64
_NONE: frozenset[Doubt] = frozenset()
_ALIAS = frozenset({Doubt.ALIAS})


class ConflictKind(Enumeration):
    """What the later access does to the earlier. A later update of what was written is a read of it."""

    READ_AFTER_WRITE = "read after write"
    WRITE_AFTER_READ = "write after read"
    WRITE_AFTER_WRITE = "write after write"


@frozen()
class Conflict:
    """Two accesses that are not surely ordered; ``ordering`` is ``NO`` or ``UNKNOWN``.

    ``doubts`` are all that speak against it: of the ordering, of the ops, of the accesses, and
    ``ALIAS`` where the regions may not overlap.
    """

    kind: ConflictKind
    earlier: OpId
    later: OpId
    buffer: BufferId
    earlier_access: Access
    later_access: Access
    ordering: Ordering
    doubts: frozenset[Doubt]


_Agent: TypeAlias = LaneId | tuple[StreamId, LaneId]
"""A lane, or a stream and the lane that issued to it."""


@frozen(eq=False)
class _Entry:
    op: OpId
    access: Access
    region: Region
    doubts: frozenset[Doubt]
    agent: _Agent
    by_host: bool
    at_issue: bool
    """The host reads it when it issues the op, before the op's turn on its stream."""
    lo: float
    hi: float
    """Bounds on the outermost axis, to tell most disjoint chunks apart at little cost."""


@dataclass(slots=True)
class _Frontier:
    """Reads are kept by what a later read must share to stand for them."""

    writes: list[_Entry] = field(default_factory=list)
    reads: dict[tuple[_Agent, Region, frozenset[Doubt]], _Entry] = field(default_factory=dict)
    tidy_at: int = _TIDY_AT

    def add(self, entry: _Entry) -> None:
        if entry.access.mode.writes:
            self.writes.append(entry)
            return
        key = (entry.agent, entry.region, entry.doubts)
        self.reads.pop(key, None)
        self.reads[key] = entry

    def replace(self, entries: Iterable[_Entry]) -> None:
        self.writes, self.reads = [], {}
        for entry in entries:
            self.add(entry)

    def all(self) -> list[_Entry]:
        return sorted((*self.writes, *self.reads.values()), key=lambda entry: entry.op)

    def __len__(self) -> int:
        return len(self.writes) + len(self.reads)


def conflicts(
    trace: Trace,
    hb: HappensBefore,
    *,
    on_cut: Callable[[BufferId], None] | None = None,
) -> Iterator[Conflict]:
    """All conflicts of the frontier law above, in issue order of ``later``, then of ``earlier``.

    ``on_cut`` is called with a buffer each time its frontier exceeded ``FRONTIER_LIMIT``.
    """
    return _Search(trace, hb, on_cut).run()


class _Search:
    def __init__(self, trace: Trace, hb: HappensBefore, on_cut: Callable[[BufferId], None] | None) -> None:
        self._trace = trace
        self._hb = hb
        self._on_cut = on_cut
        self._one_lane = len({op.lane for op in trace.ops}) <= 1
        self._bodies = {op.body for op in trace.ops if isinstance(op, Callback)}
        self._frontiers: dict[BufferId, _Frontier] = {}

    def run(self) -> Iterator[Conflict]:
        for index, op in enumerate(self._trace.ops):
            entries = [one for one in self._entries(OpId(index), op) if NOTHING[0] not in one.region]
            for entry in entries:
                frontier = self._frontiers.setdefault(entry.access.buffer, _Frontier())
                yield from self._meet(entry, frontier)
            for entry in entries:
                frontier = self._frontiers[entry.access.buffer]
                frontier.add(entry)
                if len(frontier) > frontier.tidy_at:
                    self._tidy(frontier, entry)

    def _entries(self, i: OpId, op: Op) -> list[_Entry]:
        match op:
            case Launch():
                return [self._entry(i, op, a, (op.stream, op.lane)) for a in dict.fromkeys(op.accesses)]
            case HostAccess():
                return [self._entry(i, op, a, op.lane, by_host=True) for a in dict.fromkeys(op.accesses)]
            case Copy():
                on = (op.stream, op.lane)
                if self._hb.source_read_by_host(i):
                    staged = op.host is HostEffect.STAGED
                    source = self._entry(i, op, op.src, op.lane, by_host=True, at_issue=staged)
                else:
                    source = self._entry(i, op, op.src, on)
                return [source, self._entry(i, op, op.dst, on)]
            case _:
                return []

    def _entry(
        self,
        i: OpId,
        op: Launch | Copy | HostAccess,
        access: Access,
        agent: _Agent,
        *,
        by_host: bool = False,
        at_issue: bool = False,
    ) -> _Entry:
        lo, hi = -math.inf, math.inf
        first = self._trace.buffers[access.buffer].first_part
        region = access.region if first is None else _counted(access.region, first)
        if region and isinstance(region[0], Interval):
            lo, hi = region[0].lo, region[0].hi
        return _Entry(i, access, region, op.doubts | access.doubts, agent, by_host, at_issue, lo, hi)

    def _meet(self, new: _Entry, frontier: _Frontier) -> list[Conflict]:
        """The conflicts of a new access; what it supersedes leaves the frontier."""
        lo, hi = new.lo, new.hi
        near = [old for old in frontier.writes if old.lo < hi and lo < old.hi]
        if new.access.mode.writes:
            near += [old for old in frontier.reads.values() if old.lo < hi and lo < old.hi]
            near.sort(key=lambda old: old.op)
        found: list[Conflict] = []
        gone: set[int] = set()
        for old in near:
            shared = _overlap(old, new)
            if shared is Overlap.NO or old.op == new.op:
                continue
            ordering = self._order(old, new)
            if ordering.verdict is Verdict.YES:
                if self._supersedes(new, old):
                    gone.add(id(old))
            elif old.access.mode.commutes(new.access.mode):
                continue
            elif not (old.by_host and new.by_host) or self._in_stream(old, new):
                found.append(_conflict(old, new, ordering, shared))
        if gone:
            frontier.writes = [old for old in frontier.writes if id(old) not in gone]
            frontier.reads = {key: old for key, old in frontier.reads.items() if id(old) not in gone}
        return found

    def _in_stream(self, old: _Entry, new: _Entry) -> bool:
        """Whether one of two accesses of the host is that of a host function queued on a stream."""
        first, second = self._trace.ops[old.op].lane, self._trace.ops[new.op].lane
        return first != second and not self._bodies.isdisjoint((first, second))

    def _order(self, old: _Entry, new: _Entry) -> Ordering:
        if new.at_issue:
            return self._hb.ordered_at_issue(old.op, new.op)
        if old.by_host:
            return self._hb.source_released(old.op, new.op)
        return self._hb.ordered(old.op, new.op)

    def _supersedes(self, new: _Entry, old: _Entry) -> bool:
        """Whether a write that comes surely after ``old`` stands for it from now on.

        An addition stands for other additions only: a third one may race with what was before them.
        """
        return (
            new.access.mode.writes
            and (new.access.mode is not Mode.ADD or old.access.mode is Mode.ADD)
            and new.doubts <= old.doubts
            and (self._one_lane or old.by_host or not new.by_host)
            and covers(new.region, old.region)
        )

    def _tidy(self, frontier: _Frontier, new: _Entry) -> None:
        entries = frontier.all()
        if self._one_lane:
            entries = [old for old in entries if old.op == new.op or not self._known_to_host(old, new.op)]
        for cut in entries[: max(len(entries) - FRONTIER_LIMIT, 0)]:
            if self._on_cut is not None:
                self._on_cut(cut.access.buffer)
        frontier.replace(entries[-FRONTIER_LIMIT:])
        frontier.tidy_at = min(max(_TIDY_AT, 2 * len(frontier)), FRONTIER_LIMIT)

    def _known_to_host(self, old: _Entry, now: OpId) -> bool:
        return old.by_host or self._hb.ordered_at_issue(old.op, now).verdict is Verdict.YES


def _counted(region: Region, first: Selector) -> Region:
    """A place with what stood for each part told as the first of them."""
    return tuple(Interval(0, 1) if one == first else one for one in region)


def _overlap(old: _Entry, new: _Entry) -> Overlap:
    a, b = old.region, new.region
    return Overlap.YES if a == b else overlap(a, b)


def _conflict(old: _Entry, new: _Entry, ordering: Ordering, shared: Overlap) -> Conflict:
    if not old.access.mode.writes:
        kind = ConflictKind.WRITE_AFTER_READ
    elif new.access.mode.reads:
        kind = ConflictKind.READ_AFTER_WRITE
    else:
        kind = ConflictKind.WRITE_AFTER_WRITE
    alias = _ALIAS if shared is Overlap.MAYBE else _NONE
    return Conflict(
        kind=kind,
        earlier=old.op,
        later=new.op,
        buffer=old.access.buffer,
        earlier_access=old.access,
        later_access=new.access,
        ordering=ordering,
        doubts=ordering.doubts | old.doubts | new.doubts | alias,
    )
