"""Vector clocks: which op is known to be complete before which other op begins.

Ops that are totally ordered among themselves (one stream, one host lane) form a chain. An op has
a place in one chain and two views: for every other chain, the last place known to be complete.
The *firm* view follows only edges that surely exist, the *hopeful* view follows all.

Views are immutable and shared: an op that learns nothing new has the very view of the op before
it, so a long run of launches on one stream costs no memory per chain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from streamlint.trace import OpId

if TYPE_CHECKING:
    from collections.abc import Sequence

View: TypeAlias = tuple[int, ...]
"""Last known place per chain, 0 for none; chains beyond its length are unknown."""


class Place(NamedTuple):
    """A position in a chain, counted from 1. Not every place needs to hold an op."""

    chain: int
    at: int


class Source(NamedTuple):
    """An op that is complete before the op being placed; doubtful sources feed only the hopeful view."""

    op: OpId
    firm: bool


def known(view: View, place: Place) -> bool:
    return place.chain < len(view) and view[place.chain] >= place.at


def _merge(a: View, b: View, place: Place) -> View:
    """What is known from both views, and that ``place`` is complete."""
    merged = list(map(max, a, b))
    merged += (a if len(a) > len(b) else b)[len(merged) :]
    chain, at = place
    if chain >= len(merged):
        merged += [0] * (chain + 1 - len(merged))
    merged[chain] = max(merged[chain], at)
    return tuple(merged)


class Clocks:
    """Places and views of the ops ``0 .. n-1``, filled in op order.

    Views only ever grow by whole views. Hence a view that knows a place of a chain knows all that
    the op at that place knew, and a source whose place is known already can be skipped at once.
    """

    __slots__ = ("_chains", "_last", "firm", "formed", "hopeful", "place")

    def __init__(self) -> None:
        self.place: list[Place] = []
        self.firm: list[View] = []
        self.hopeful: list[View] = []
        self.formed: list[OpId] = []
        """The op of the same chain whose hopeful view this op shares; itself where it learnt something."""
        self._chains = 0
        self._last: View = ()

    def new_chain(self) -> int:
        self._chains += 1
        return self._chains - 1

    def append(self, place: Place, base: OpId | None, sources: Sequence[Source], mark: Place | None) -> None:
        """Place the next op.

        ``base`` is the op before it in its chain. ``mark`` is a place without an op that is known
        too, provided that all that was known there is among ``sources`` or known to ``base``.
        """
        op = OpId(len(self.place))
        firm: View = () if base is None else self.firm[base]
        hopeful: View = () if base is None else self.hopeful[base]
        before = hopeful
        for source, is_firm in sources:
            where = self.place[source]
            if where.chain == place.chain and where.at <= (0 if base is None else self.place[base].at):
                continue
            if firm is hopeful and is_firm and self.firm[source] is self.hopeful[source]:
                firm = hopeful = self._join(firm, self.firm[source], where)
                continue
            hopeful = self._join(hopeful, self.hopeful[source], where)
            if is_firm:
                firm = self._join(firm, self.firm[source], where)
        if mark is not None and mark.chain != place.chain:
            same = firm is hopeful
            firm = self._join(firm, (), mark)
            hopeful = firm if same else self._join(hopeful, (), mark)
        self.place.append(place)
        self.firm.append(firm)
        self.hopeful.append(hopeful)
        self.formed.append(self.formed[base] if base is not None and hopeful is before else op)

    def _join(self, view: View, other: View, place: Place) -> View:
        if known(view, place):
            return view
        merged = _merge(view, other, place)
        # After a synchronize every stream learns the same; keep one copy of it.
        if merged == self._last:
            return self._last
        self._last = merged
        return merged

    def is_before(self, earlier: OpId, later: OpId, views: list[View]) -> bool:
        """Whether ``earlier`` is complete before ``later`` by ``views`` (``firm`` or ``hopeful``)."""
        place = self.place[earlier]
        own = self.place[later]
        if place.chain == own.chain:
            return place.at < own.at
        return known(views[later], place)
