"""What is drawn, before any notation: lanes, operations in rows, arrows, and the edges that are missing."""

from __future__ import annotations

from enum import Enum

from streamlint.frozen import frozen


class Part(Enum):
    """What an operation is to the finding that is drawn; the value is its class in a style sheet."""

    RACING = "racing"
    """One of those that nothing orders, or the one that the finding is about."""
    OTHER = "other"
    UNSEEN = "unseen"
    """It stands for code that was not seen: what callers queued before, or do with a result."""
    HELD = "held"
    """No operation: a stream that is held back (``confirm``)."""


class How(Enum):
    """Why one operation begins after another has ended; the value says it in a legend."""

    WAITS = "waits for"
    ISSUED = "is issued after"
    MAYBE = "may wait for"


@frozen()
class Lane:
    """The host, a thread of it, or a stream: what stands in it runs from top to bottom."""

    name: str
    kind: str


@frozen()
class Operation:
    """One operation, or a stretch of time from row ``row`` to row ``last``.

    ``code`` is the user's own expression, ``effect`` what it does, with the user's names in backticks.
    """

    lane: int
    row: int
    last: int
    code: str
    effect: str
    place: str = ""
    """``18``, or ``loader.py:18`` where the picture has more than one file."""
    hint: str = ""
    """More about it, in lines: the whole expression, the file, the calls that lead there."""
    letter: str = ""
    part: Part = Part.OTHER


@frozen()
class Arrow:
    """``later`` begins after ``earlier`` has ended; both are numbers of operations."""

    earlier: int
    later: int
    how: How


class Fault(Enum):
    """What is wrong between two; the value says it in the picture."""

    UNORDERED = "no order"
    DOUBTFUL = "not sure"
    """What may order the two is not known to."""
    CIRCLE = "deadlock"
    """Each waits for the other."""


@frozen()
class Missing:
    """An edge that is not there, between two that use the same memory; or a circle of two waits."""

    earlier: int
    later: int
    fault: Fault = Fault.UNORDERED


@frozen()
class Break:
    """A line of text above a row: where another call begins."""

    row: int
    text: str


@frozen()
class Picture:
    title: str
    """In a sentence, names in backticks."""
    subtitle: str
    lanes: tuple[Lane, ...]
    operations: tuple[Operation, ...]
    arrows: tuple[Arrow, ...]
    missing: tuple[Missing, ...]
    breaks: tuple[Break, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences below: the path that was taken, and how many operations were left out."""
