"""Happens-before: what is complete before what begins.

One node per op, one edge per reason that orders two ops. Edges point forward in issue order. An
edge with doubts may not exist; what only such edges order is *unknown*, never surely ordered.

The laws (``tests/test_hb_laws_*.py`` has one test each; the facts are measured and documented in
docs/semantics):

* Ops of one stream, and ops of one host lane, are ordered as issued.
* Device work starts after what the host knew when it issued it, and the host learns of device work
  only by a synchronization, or by a copy that blocks.
* A record is the tail of its stream; a wait is ordered after the record its event holds then.
* The legacy default stream is a two-sided barrier among the blocking streams, and the per-thread
  default streams, of its device.

Streams of uncertain identity give doubtful edges only (``Doubt.SAME_STREAM``): the stream current
at entry may be the legacy one, a stream from outside may be any stream but one: a non-blocking
stream created within the trace cannot be what was handed in.

A barrier on the legacy stream counts as sure even where its op has doubts of its own (an
unresolved call that is taken to launch something): of the two errors, a missed race costs less.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from streamlint.frozen import Enumeration, frozen
from streamlint.order.clocks import known
from streamlint.order.hb_build import Builder, EdgeKind
from streamlint.trace import Copy, Doubt, HostEffect, OpId, Trace

if TYPE_CHECKING:
    import networkx as nx

    from streamlint.order.clocks import View

__all__ = ["Edge", "EdgeKind", "HappensBefore", "Ordering", "Verdict"]

_NONE: frozenset[Doubt] = frozenset()


class Verdict(Enumeration):
    YES = "ordered"
    NO = "unordered"
    UNKNOWN = "ordered only if an assumption holds"


@frozen()
class Edge:
    """``earlier`` is complete before ``later`` begins, unless one of ``doubts`` is justified."""

    earlier: OpId
    later: OpId
    kind: EdgeKind
    doubts: frozenset[Doubt] = _NONE

    @property
    def doubt(self) -> Doubt | None:
        """One reason why the edge may not exist; ``None`` if it surely does."""
        return next((doubt for doubt in Doubt if doubt in self.doubts), None)


@frozen()
class Ordering:
    """``doubts`` are those of one chain of edges that would order the two; empty unless unknown."""

    verdict: Verdict
    doubts: frozenset[Doubt] = _NONE


_YES = Ordering(Verdict.YES)
_NO = Ordering(Verdict.NO)


class HappensBefore:
    """The order of one trace. Building takes near linear time, every question constant time.

    (Only the *doubts* of an unknown order take a walk over the edges.)
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        built = Builder(trace)
        built.run()
        self._sources = built.sources
        self._clocks = built.clocks
        self._issue = built.issue
        self._released = built.released
        self._seen = built.seen
        self._all_doubts = _NONE.union(*{doubts for sources in built.sources for _, _, doubts in sources})

    def ordered(self, earlier: OpId, later: OpId) -> Ordering:
        """Whether ``earlier`` is complete before ``later`` begins.

        Raises IndexError for an id that is not in the trace.
        """
        clocks = self._clocks
        if earlier >= later:
            return _NO
        if clocks.is_before(earlier, later, clocks.firm):
            return _YES
        if clocks.is_before(earlier, later, clocks.hopeful):
            return Ordering(Verdict.UNKNOWN, self._doubts_between(earlier, later))
        return _NO

    def ordered_at_issue(self, earlier: OpId, later: OpId) -> Ordering:
        """Whether ``earlier`` is complete before the host issues ``later``.

        Stronger than ``ordered``: the host itself reads the source of a staged copy at once, and
        does not wait for its stream.
        """
        sure, hoped = self._issue[later]
        if sure is not None and (sure == earlier or self.ordered(earlier, sure).verdict is Verdict.YES):
            return _YES
        if hoped is not None:
            known_op, doubts = hoped
            before = self.ordered(earlier, known_op)
            if known_op == earlier or before.verdict is not Verdict.NO:
                return Ordering(Verdict.UNKNOWN, before.doubts | doubts)
        return _NO if sure is None else self.ordered(earlier, sure)

    def source_read_by_host(self, op: OpId) -> bool:
        """Whether ``op`` is a copy whose source the host has read when the call returns."""
        copy = self._trace.ops[op]
        if not isinstance(copy, Copy):
            return False
        match copy.host:
            case HostEffect.ASYNC:
                return False
            case HostEffect.STAGED:
                return True
            case HostEffect.BLOCKS | HostEffect.BLOCKS_OBSERVED:
                # The source of a device-to-host copy is read by the device, in stream order.
                return self._trace.buffers[copy.src.buffer].space.on_host

    def source_released(self, copy: OpId, later: OpId) -> Ordering:
        """Whether the source of ``copy`` has been read before ``later`` begins.

        ``ordered`` unless the host reads the source itself: then anything issued after the copy
        returned comes later, as ``stage[:] = 2`` in ``x.copy_(stage); stage[:] = 2``.
        """
        if later > copy and self.source_read_by_host(copy):
            place = self._released[copy]
            own = self._clocks.place[later]
            if place.at < own.at if own.chain == place.chain else known(self._clocks.firm[later], place):
                return _YES
        return self.ordered(copy, later)

    def record_seen_by(self, op: OpId) -> OpId | None:
        """The record that the event of a wait or event synchronize holds there.

        ``None`` where nothing was recorded before, and for every other op. Where a record is in
        doubt, the last one that may have happened.
        """
        return self._seen.get(op)

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """All edges, by ``later``; an edge that others already imply may be left out."""
        return tuple(
            Edge(earlier, OpId(later), kind, doubts)
            for later, sources in enumerate(self._sources)
            for earlier, kind, doubts in sources
        )

    @cached_property
    def graph(self) -> nx.DiGraph[OpId]:
        """The edges as a graph with edge attributes ``kind`` and ``doubts``, to explain and export.

        Of parallel edges the surest is kept.
        """
        import networkx as nx  # its import takes longer than most analyses

        graph: nx.DiGraph[OpId] = nx.DiGraph()
        graph.add_nodes_from(OpId(i) for i in range(len(self._trace.ops)))
        for edge in sorted(self.edges, key=lambda edge: -len(edge.doubts)):
            graph.add_edge(edge.earlier, edge.later, kind=edge.kind, doubt=edge.doubt, doubts=edge.doubts)
        return graph

    def _doubts_between(self, earlier: OpId, later: OpId) -> frozenset[Doubt]:
        """The doubts met on one way back from ``later`` until ``earlier`` is surely before."""
        clocks = self._clocks
        doubts: frozenset[Doubt] = _NONE
        here = later
        # Where all doubts of the trace are met, the rest of the way cannot add any.
        while doubts != self._all_doubts and not self._reaches(earlier, here, clocks.firm):
            # Ops that share a view share their past: go to where the view was formed.
            here = clocks.formed[here]
            here, _, met = min(
                (s for s in self._sources[here] if self._reaches(earlier, s[0], clocks.hopeful)),
                key=lambda s: (len(s[2]), s[0]),
            )
            doubts |= met
        return doubts

    def _reaches(self, earlier: OpId, op: OpId, views: list[View]) -> bool:
        return earlier == op or self._clocks.is_before(earlier, op, views)
