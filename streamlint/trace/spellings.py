"""How code writes what its messages are about, as names of streams, events, graphs and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from streamlint.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from streamlint.source import Span
    from streamlint.trace.regions import Region
    from streamlint.trace.things import BufferId, EventId, GraphId, OpId, StreamId

Named: TypeAlias = "tuple[str, StreamId | EventId | GraphId] | tuple[str, BufferId, Region]"
"""A stream, an event, a graph or a view, and the kind of it first: ``"stream"`` and so on, or ``"view"``."""


@frozen()
class Spelling:
    """How a function writes something; ``since`` is the first op that comes after it wrote it so."""

    text: str
    since: OpId
    is_name: bool
    """Whether it is a variable, and no attribute or element."""
    line: int
    """Where it wrote it so."""


_Known: TypeAlias = "Mapping[tuple[str, Named], Sequence[Spelling]]"


class Spellings:
    """How the functions of a program write what they work with: ``self.side``, ``src[k]``.

    A message calls things as the code at its place does; elsewhere the same memory has other names. That is
    gathered when somebody asks: most paths have nothing that a message is about.
    """

    __slots__ = ("_gather", "_known")

    def __init__(self, gather: Callable[[], _Known] = dict) -> None:
        self._gather: Callable[[], _Known] | None = gather
        self._known: _Known = {}

    @property
    def known(self) -> _Known:
        """By function and thing, in order."""
        if self._gather is not None:
            self._known, self._gather = self._gather(), None
        return self._known

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spellings) and self.known == other.known

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[object, ...]:
        return _gathered, (dict(self.known),)

    def at(self, function: str, op: OpId, span: Span, thing: Named) -> str:
        """What a function calls something at an op: as it stands there, or before that, variables first.

        What has no name yet has the next one that it gets: ``y = x * 2`` makes ``y``.
        """
        known = self.known.get((function, thing), ())
        found = [one for one in known if one.since <= op] or known[:1]
        there = [one for one in found if span.line <= one.line <= span.end_line]
        best = max(there or found, key=lambda one: (one.is_name, one.since), default=None)
        return "" if best is None else best.text


def _gathered(known: _Known) -> Spellings:
    return Spellings(lambda: known)
