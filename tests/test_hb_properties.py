"""Properties of happens-before on random traces."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from streamlint.order.hb import HappensBefore, Verdict
from streamlint.trace import MAIN_LANE, Doubt, OpBase, OpId, SyncDevice, Trace
from tests.random_traces import traces

if TYPE_CHECKING:
    from collections.abc import Iterable

RANK = {Verdict.NO: 0, Verdict.UNKNOWN: 1, Verdict.YES: 2}


def pairs(trace: Trace) -> list[tuple[OpId, OpId]]:
    n = len(trace.ops)
    return [(OpId(a), OpId(b)) for a in range(n) for b in range(n)]


def reachable(edges: Iterable[tuple[OpId, OpId]]) -> set[tuple[OpId, OpId]]:
    """All pairs that edges lead from one to the other of; they point forward."""
    behind: dict[OpId, set[OpId]] = {}
    for earlier, later in sorted(edges, reverse=True):
        behind.setdefault(earlier, set()).update({later}, behind.get(later, ()))
    return {(a, b) for a, found in behind.items() for b in found}


@settings(max_examples=300, deadline=None)
@given(traces())
def test_answers_are_reachability(trace: Trace) -> None:
    hb = HappensBefore(trace)
    anyhow = reachable(hb.graph.edges)
    surely = reachable((e.earlier, e.later) for e in hb.edges if not e.doubts)
    for pair in pairs(trace):
        expected = Verdict.YES if pair in surely else Verdict.UNKNOWN if pair in anyhow else Verdict.NO
        assert hb.ordered(*pair).verdict is expected


@settings(max_examples=150, deadline=None)
@given(traces())
def test_edges_point_forward(trace: Trace) -> None:
    assert all(edge.earlier < edge.later for edge in HappensBefore(trace).edges)


@settings(max_examples=150, deadline=None)
@given(traces())
def test_doubts_are_those_of_a_chain_of_edges(trace: Trace) -> None:
    """Without the edges that carry one of the doubts not named, the two are still connected."""
    hb = HappensBefore(trace)
    connected: dict[frozenset[Doubt], set[tuple[OpId, OpId]]] = {}
    for a, b in pairs(trace):
        got = hb.ordered(a, b)
        if got.verdict is not Verdict.UNKNOWN:
            assert not got.doubts
            continue
        assert got.doubts
        if got.doubts not in connected:
            trusted = ((e.earlier, e.later) for e in hb.edges if e.doubts <= got.doubts)
            connected[got.doubts] = reachable(trusted)
        assert (a, b) in connected[got.doubts]


@settings(max_examples=150, deadline=None)
@given(traces(), st.data())
def test_a_synchronize_more_never_loses_order(trace: Trace, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(trace.ops)))
    # A lane that has begun: nothing comes before its spawn.
    lane = data.draw(st.sampled_from(sorted({MAIN_LANE, *(op.lane for op in trace.ops[:at])})))
    base: OpBase = trace.ops[0]
    sync = SyncDevice(base.at, lane, device=data.draw(st.sampled_from(("cur", "1"))))
    more = dataclasses.replace(trace, ops=(*trace.ops[:at], sync, *trace.ops[at:]))
    before, after = HappensBefore(trace), HappensBefore(more)
    for a, b in pairs(trace):
        a2, b2 = OpId(a + (a >= at)), OpId(b + (b >= at))
        assert RANK[after.ordered(a2, b2).verdict] >= RANK[before.ordered(a, b).verdict]


@settings(max_examples=100, deadline=None)
@given(traces())
def test_known_at_issue_is_known_when_it_runs(trace: Trace) -> None:
    hb = HappensBefore(trace)
    for a, b in pairs(trace):
        assert RANK[hb.ordered_at_issue(a, b).verdict] <= RANK[hb.ordered(a, b).verdict]
