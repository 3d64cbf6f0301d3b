"""Conflict search: hand-written cases, and the frontier law against all pairs."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

import streamlint.order.conflicts as search
from streamlint.frozen import replace
from streamlint.order.conflicts import Conflict, ConflictKind, conflicts
from streamlint.order.hb import HappensBefore, Verdict
from streamlint.trace import (
    Access,
    Callback,
    Copy,
    Doubt,
    HostAccess,
    HostEffect,
    Interval,
    Launch,
    Mode,
    Op,
    OpId,
    Overlap,
    Picked,
    Rows,
    Space,
    StreamKind,
    Symbol,
    SymbolSlice,
    Trace,
    overlap,
)
from tests.random_traces import traces
from tests.traces import Program, access

RAW, WAR, WAW = ConflictKind.READ_AFTER_WRITE, ConflictKind.WRITE_AFTER_READ, ConflictKind.WRITE_AFTER_WRITE
RANK = {Verdict.NO: 0, Verdict.UNKNOWN: 1, Verdict.YES: 2}


def found(p: Program) -> list[Conflict]:
    trace = p.trace()
    return list(conflicts(trace, HappensBefore(trace)))


def summary(p: Program) -> list[tuple[ConflictKind, OpId, OpId]]:
    return [(c.kind, c.earlier, c.later) for c in found(p)]


def test_the_three_kinds() -> None:
    p = Program()
    s, t, u, x = p.stream(), p.stream(), p.stream(), p.buffer()
    a = p.launch(s, writes=x)
    b = p.launch(t, reads=x)
    c = p.launch(u, writes=x)
    assert summary(p) == [(RAW, a, b), (WAW, a, c), (WAR, b, c)]
    assert all(conflict.doubts == frozenset() for conflict in found(p))


def test_an_update_of_pending_work_reads_it() -> None:
    p = Program()
    s, t, x = p.stream(), p.stream(), p.buffer()
    a = p.launch(s, access(x, Mode.UPDATE))
    b = p.launch(t, access(x, Mode.UPDATE))
    assert summary(p) == [(RAW, a, b)]


def test_reads_do_not_conflict_and_ordered_accesses_neither() -> None:
    p = Program()
    s, t, e, x, y = p.stream(), p.stream(), p.event(), p.buffer(), p.buffer()
    p.launch(s, reads=x, writes=y)
    p.launch(t, reads=x)
    p.record(s, e)
    p.wait(t, e)
    p.launch(t, reads=y)
    assert found(p) == []


def test_one_race_does_not_hide_the_next() -> None:
    """The unordered write in between must not stand for the first one."""
    p = Program()
    s, t, u, x = p.stream(), p.stream(), p.stream(), p.buffer()
    a = p.launch(s, writes=x)
    b = p.launch(t, writes=x)
    c = p.launch(u, reads=x)
    assert summary(p) == [(WAW, a, b), (RAW, a, c), (RAW, b, c)]


def test_latest_read_of_a_stream_stands_for_the_earlier() -> None:
    p = Program()
    s, t, x = p.stream(), p.stream(), p.buffer()
    p.launch(s, reads=x)
    b = p.launch(s, reads=x)
    c = p.launch(t, writes=x)
    assert summary(p) == [(WAR, b, c)]


def test_partial_write_leaves_the_whole_one() -> None:
    p = Program()
    s, t, x = p.stream(), p.stream(), p.buffer()
    a = p.launch(s, writes=x)
    p.launch(s, access(x, Mode.WRITE, (Interval(0, 4),)))
    c = p.launch(t, access(x, Mode.READ, (Interval(4, 8),)))
    assert summary(p) == [(RAW, a, c)]


def test_write_that_may_not_happen_hides_nothing() -> None:
    p = Program()
    s, t, x = p.stream(), p.stream(), p.buffer()
    a = p.launch(s, writes=x)
    b = p.launch(s, writes=x, doubts=frozenset({Doubt.OPAQUE}))
    c = p.launch(t, reads=x)
    assert [(f.earlier, f.later, f.doubts) for f in found(p)] == [
        (a, c, frozenset()),
        (b, c, frozenset({Doubt.OPAQUE})),
    ]


def test_doubtful_order_is_reported_and_removes_nothing() -> None:
    p = Program()
    s, t, u, x = p.stream(), p.stream(), p.stream(), p.buffer()
    a = p.launch(s, writes=x)
    p.barrier([s, t])
    b = p.launch(t, writes=x)
    p.launch(u, reads=p.buffer())
    got = found(p)
    assert [(f.earlier, f.later, f.ordering.verdict) for f in got] == [(a, b, Verdict.UNKNOWN)]
    assert got[0].doubts == {Doubt.ESCAPE}


def _bytes(part: Interval | Rows) -> set[int]:
    match part:
        case Interval(lo, hi):
            return set(range(lo, hi))
        case Rows(lo, width, pitch, count):
            return {lo + row * pitch + at for row in range(count) for at in range(width)}


def _rows(pitch: int) -> st.SearchStrategy[Rows]:
    return st.builds(Rows, st.integers(0, 40), st.integers(1, pitch - 1), st.just(pitch), st.integers(1, 5))


_PARTS = st.builds(lambda lo, size: Interval(lo, lo + size), st.integers(0, 60), st.integers(1, 20))


@given(st.integers(2, 12).flatmap(lambda pitch: st.tuples(_rows(pitch), _rows(pitch) | _PARTS)))
def test_rows_of_a_copy_share_the_bytes_that_they_have(pair: tuple[Rows, Interval | Rows]) -> None:
    rows, other = pair
    shared = Overlap.YES if _bytes(rows) & _bytes(other) else Overlap.NO
    assert overlap((rows,), (other,)) is shared
    assert overlap((other,), (rows,)) is shared


def test_regions_that_may_overlap() -> None:
    p = Program()
    s, t, x = p.stream(), p.stream(), p.buffer()
    p.launch(s, access(x, Mode.WRITE, (SymbolSlice(Symbol("a"), Symbol("b")),)))
    p.launch(t, access(x, Mode.READ, (SymbolSlice(Symbol("c"), Symbol("d")),)))
    p.launch(t, access(x, Mode.READ, (SymbolSlice(Symbol("b"), Symbol("e")),)))
    assert [f.doubts for f in found(p)] == [{Doubt.ALIAS}]


def test_a_running_number_lies_behind_what_it_has_come_by() -> None:
    """``x[at : at + n]``, and then ``at += n + m``."""
    p = Program()
    s, t, x = p.stream(), p.stream(), p.buffer()
    first = SymbolSlice(Symbol("at"), Symbol("at+n"))
    behind = Symbol("at+(n+m)", behind=frozenset({"at+n"}))
    before = replace(behind, far=-1)
    p.launch(s, access(x, Mode.WRITE, (first,)))
    p.launch(t, access(x, Mode.READ, (SymbolSlice(behind, Symbol("end")),)))
    assert not list(found(p))
    p.launch(t, access(x, Mode.READ, (SymbolSlice(before, Symbol("end")),)))
    assert [f.doubts for f in found(p)] == [{Doubt.ALIAS}]


def test_a_buffer_that_is_picked_may_be_another() -> None:
    p = Program()
    s, t, x = p.stream(), p.stream(), p.buffer()
    part = (Interval(0, 4),)
    p.launch(s, access(x, Mode.WRITE, (Picked("k"), *part)))
    p.launch(t, access(x, Mode.READ, (Picked("k"), *part)))
    p.launch(t, access(x, Mode.READ, part))
    p.launch(t, access(x, Mode.READ, (Interval(4, 8),)))
    assert [f.doubts for f in found(p)] == [frozenset(), {Doubt.ALIAS}]


def test_host_overwrites_a_pinned_source_but_not_a_staged_one() -> None:
    p = Program()
    s, pinned, pageable, x = p.stream(), p.buffer(Space.PINNED), p.buffer(Space.PAGEABLE), p.buffer()
    a = p.copy(s, pinned, x)
    p.copy(s, pageable, x, HostEffect.STAGED)
    p.host(writes=pageable)
    d = p.host(writes=pinned)
    assert summary(p) == [(WAR, a, d)]


def test_staged_destination_is_still_pending_for_another_stream() -> None:
    p = Program()
    s, t, x, y = p.stream(), p.stream(), p.buffer(Space.PAGEABLE), p.buffer()
    a = p.copy(s, x, y, HostEffect.STAGED)
    b = p.launch(t, reads=y)
    assert summary(p) == [(RAW, a, b)]


def test_blocking_read_back_follows_the_kernel_in_its_stream() -> None:
    p = Program()
    s, x, y = p.stream(), p.buffer(), p.buffer(Space.PAGEABLE)
    p.launch(s, writes=x)
    p.copy(s, x, y, HostEffect.BLOCKS)
    p.host(reads=y)
    assert found(p) == []


def test_staged_copy_reads_what_its_own_stream_has_not_written_yet() -> None:
    p = Program()
    s, x, y, z = p.stream(), p.buffer(), p.buffer(Space.PAGEABLE), p.buffer()
    a = p.copy(s, x, y)
    b = p.copy(s, y, z, HostEffect.STAGED)
    assert summary(p) == [(RAW, a, b)]


def test_observed_blocking_is_unknown() -> None:
    p = Program()
    s, x, y = p.stream(), p.buffer(), p.buffer(Space.PAGEABLE)
    p.copy(s, x, y, HostEffect.BLOCKS_OBSERVED)
    p.host(reads=y)
    assert [f.doubts for f in found(p)] == [{Doubt.OBSERVED}]


def test_argument_pending_on_the_current_stream() -> None:
    p = Program()
    current, side, x = p.stream(StreamKind.CURRENT), p.stream(), p.buffer()
    a = p.launch(current, access(x, Mode.WRITE, doubts=frozenset({Doubt.ARGUMENT})))
    b = p.launch(side, reads=x)
    assert summary(p) == [(RAW, a, b)]
    assert found(p)[0].doubts == {Doubt.ARGUMENT}


def test_threads_are_not_compared_with_each_other_but_hide_no_device_work() -> None:
    p = Program()
    s, x, thread = p.stream(), p.buffer(Space.PINNED), p.new_lane()
    p.spawn(thread)
    a = p.launch(s, writes=x)
    p.sync_stream(s)
    p.host(writes=x)
    d = p.host(writes=x, lane=thread)
    assert summary(p) == [(WAW, a, d)]


def test_completed_accesses_leave_a_long_frontier() -> None:
    """Hundreds of chunks, synchronized now and then, never reach the limit."""
    p = Program()
    s, t, x = p.stream(), p.stream(), p.buffer()
    for i in range(4 * search.FRONTIER_LIMIT):
        p.launch(s, access(x, Mode.WRITE, (Interval(i, i + 1),)))
        if i % 50 == 0:
            p.sync_stream(s)
    p.launch(t, reads=x)
    cut: list[int] = []
    trace = p.trace()
    pending = list(conflicts(trace, HappensBefore(trace), on_cut=cut.append))
    assert len(pending) == (4 * search.FRONTIER_LIMIT - 1) % 50
    assert cut == []


def test_an_overfull_frontier_says_so() -> None:
    p = Program()
    s, x = p.stream(), p.buffer()
    for i in range(search.FRONTIER_LIMIT + 2):
        p.launch(s, access(x, Mode.WRITE, (Interval(i, i + 1),)))
    cut: list[int] = []
    trace = p.trace()
    list(conflicts(trace, HappensBefore(trace), on_cut=cut.append))
    assert cut == [x, x]


# The law, against all pairs


def accesses(op: Op) -> tuple[Access, ...]:
    return op.accesses if isinstance(op, Launch | Copy | HostAccess) else ()


class Pairs:
    """All unordered pairs, by comparing every access with every other."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.hb = HappensBefore(trace)
        every = [(OpId(i), a) for i, op in enumerate(trace.ops) for a in dict.fromkeys(accesses(op))]
        self.racing = {
            (a, x, b, y): verdict
            for a, x in every
            for b, y in every
            if a < b and (verdict := self.race(a, x, b, y)) is not None
        }

    def by_host(self, i: OpId, access: Access) -> bool:
        op = self.trace.ops[i]
        if isinstance(op, Copy):
            return access == op.src and self.hb.source_read_by_host(i)
        return isinstance(op, HostAccess)

    def only_threads(self, a: OpId, x: Access, b: OpId, y: Access) -> bool:
        """Whether both accesses are the host's, and neither that of a host function in a stream."""
        lanes = {self.trace.ops[a].lane, self.trace.ops[b].lane}
        queued = {op.body for op in self.trace.ops if isinstance(op, Callback)}
        return self.by_host(a, x) and self.by_host(b, y) and (len(lanes) == 1 or not lanes & queued)

    def race(self, a: OpId, x: Access, b: OpId, y: Access) -> Verdict | None:
        if x.buffer != y.buffer or x.mode.commutes(y.mode):
            return None
        if overlap(x.region, y.region) is Overlap.NO or self.only_threads(a, x, b, y):
            return None
        verdict = self.order(a, x, b, y)
        return None if verdict is Verdict.YES else verdict

    def order(self, a: OpId, x: Access, b: OpId, y: Access) -> Verdict:
        later = self.trace.ops[b]
        if isinstance(later, Copy) and later.host is HostEffect.STAGED and y == later.src:
            return self.hb.ordered_at_issue(a, b).verdict
        if self.by_host(a, x):
            return self.hb.source_released(a, b).verdict
        return self.hb.ordered(a, b).verdict

    def explains(self, conflict: Conflict, a: OpId, x: Access) -> bool:
        """Whether the earlier access of ``conflict`` is ``x`` of ``a``, or stands for it."""
        b, z = conflict.earlier, conflict.earlier_access
        if (a, x) == (b, z):
            return True
        surer = self.trace.ops[b].doubts | z.doubts <= self.trace.ops[a].doubts | x.doubts
        if a == b:  # One op that names a place twice, as in ``torch.add(x, x, out=y)``.
            return surer and (x.buffer, x.region, x.mode) == (z.buffer, z.region, z.mode)
        return surer and a < b and self.order(a, x, b, z) is Verdict.YES


def check_law(trace: Trace) -> None:
    pairs = Pairs(trace)
    reported = list(conflicts(trace, pairs.hb))
    for c in reported:
        key = (c.earlier, c.earlier_access, c.later, c.later_access)
        assert pairs.racing[key] is c.ordering.verdict
    assert [c.later for c in reported] == sorted(c.later for c in reported)
    for (a, x, b, y), verdict in pairs.racing.items():
        assert any(
            c.later == b
            and c.later_access == y
            and RANK[c.ordering.verdict] <= RANK[verdict]
            and pairs.explains(c, a, x)
            for c in reported
        ), (a, b)


@settings(max_examples=400, deadline=None)
@given(traces(lanes=False))
def test_every_race_is_reported_or_stood_for(trace: Trace) -> None:
    check_law(trace)


@settings(max_examples=300, deadline=None)
@given(traces())
def test_every_race_among_lanes_is_reported_or_stood_for(trace: Trace) -> None:
    check_law(trace)
