"""What a finding is about in its trace, and which operations a reader needs to see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from streamlint.frozen import frozen
from streamlint.order.hb import Verdict
from streamlint.trace import (
    Alloc,
    Barrier,
    BeginCapture,
    Callback,
    CallbackEnd,
    EndCapture,
    Free,
    FreeKind,
    OpId,
    Record,
    Role,
    SyncDevice,
    SyncEvent,
    SyncStream,
    Wait,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from streamlint.finding import Occurrence
    from streamlint.order.conflicts import Conflict
    from streamlint.rules.base import Judged
    from streamlint.trace import BufferId, Op

MOST = 12
"""Operations that the picture of one finding shows."""

Thing: TypeAlias = tuple[str, int]
"""A stream, an event, a buffer, a lane or a monitor: what operations have in common."""


@frozen()
class Focus:
    """``pairs`` are those that nothing orders; ``racing`` has these, and the operations of other findings.

    The two of each of ``circles`` wait for each other.
    """

    racing: tuple[OpId, ...] = ()
    pairs: tuple[tuple[OpId, OpId], ...] = ()
    buffers: frozenset[BufferId] = frozenset()
    circles: tuple[tuple[OpId, OpId], ...] = ()
    about: tuple[tuple[OpId, BufferId], ...] = ()
    """Of several findings, the memory that each operation of ``racing`` is about."""

    def buffers_at(self, number: OpId) -> frozenset[BufferId]:
        """The memory that matters at an operation: of one that is racing, that of its own finding."""
        own = frozenset(buffer for each, buffer in self.about if each == number)
        return own or self.buffers

    def __or__(self, other: Focus) -> Focus:
        return Focus(
            tuple(sorted({*self.racing, *other.racing})),
            tuple(dict.fromkeys((*self.pairs, *other.pairs))),
            self.buffers | other.buffers,
            tuple(dict.fromkeys((*self.circles, *other.circles))),
            tuple(dict.fromkeys((*self._about(), *other._about()))),
        )

    def _about(self) -> Iterable[tuple[OpId, BufferId]]:
        return self.about or [(number, buffer) for number in self.racing for buffer in sorted(self.buffers)]


def focus_of(judged: Judged, evidence: Occurrence) -> Focus:
    earlier, later, buffer = evidence.earlier, evidence.later, evidence.buffer
    if evidence.circle is not None:
        both = (min(later, evidence.circle), max(later, evidence.circle))
        return Focus(both, circles=(both,), buffers=_none_or(buffer))
    if earlier == later:
        opened = left_open(judged, later)
        if opened is None:
            return Focus((later,), buffers=_none_or(buffer))
        pair = (opened.earlier, opened.later)
        return Focus(tuple(sorted({later, *pair})), (pair,), frozenset({opened.buffer}))
    shared = {each.buffer for each in judged.conflicts if (each.earlier, each.later) == (earlier, later)}
    racing = (min(earlier, later), max(earlier, later))
    unordered = bool(shared) or judged.hb.ordered(*racing).verdict is not Verdict.YES
    buffers = _none_or(buffer) or frozenset(shared)
    return Focus(racing, (racing,) if unordered else (), buffers)


def _none_or(buffer: BufferId | None) -> frozenset[BufferId]:
    return frozenset() if buffer is None else frozenset({buffer})


def left_open(judged: Judged, number: OpId) -> Conflict | None:
    """The first pair that a wait which orders nothing leaves unordered."""
    wait = judged.op(number)
    if not isinstance(wait, Wait):
        return None
    return next(
        (
            conflict
            for conflict in judged.conflicts
            if conflict.later > number and judged.stream_at(judged.op(conflict.later)) == wait.stream
        ),
        None,
    )


def chosen(judged: Judged, focus: Focus, most: int = MOST) -> list[OpId]:
    """The operations to show, in order: those that tell most about the pair first, ``most`` at most.

    What was tried to order the two comes before what else happens to the memory, and what is near before
    what is far.
    """
    kept = dict.fromkeys(focus.racing)
    seen: set[tuple[object, ...]] = set()
    for number in _by_worth(judged, focus):
        if len(kept) >= most:
            break
        op = judged.op(number)
        # Of the passes of a loop and the calls of a method the nearest stands for all.
        if number in kept or _says_nothing(judged, number, focus) or _kind_and_place(op) in seen:
            continue
        seen.add(_kind_and_place(op))
        kept[number] = None
    return sorted(kept)


def telling(judged: Judged, focus: Focus) -> list[OpId]:
    """All operations but those that would only fill a row."""
    numbers = map(OpId, range(len(judged.trace.ops)))
    return [n for n in numbers if n in focus.racing or not _says_nothing(judged, n, focus)]


def _by_worth(judged: Judged, focus: Focus) -> Iterator[OpId]:
    ops = judged.trace.ops
    if not focus.racing:
        yield from map(OpId, range(len(ops)))
        return
    first, last = focus.racing[0], focus.racing[-1]
    things = {thing for number in focus.racing for thing in _things(judged, judged.op(number))}
    orders = [n for n, op in enumerate(ops) if _orders(op) and _concerns(judged, OpId(n), things)]
    memory: set[Thing] = {("buffer", buffer) for buffer in focus.buffers}
    uses = [n for n, op in enumerate(ops) if memory.intersection(_things(judged, op))]
    alike = [n for n, op in enumerate(ops) if _own(things).intersection(_things(judged, op))]

    captures = [*_captures(judged, first)]

    def near(numbers: Iterable[int]) -> list[int]:
        return sorted(numbers, key=lambda n: min(abs(n - racing) for racing in focus.racing))

    ranked = [
        *captures,
        *near(n for n in orders if first < n < last),
        *near(alike),
        *near(n for n in uses if first < n < last),
        *near(n for n in orders if n < first),
        *near(n for n in uses if n < first),
        *near(n for n in orders if n > last)[:1],
    ]
    for number in ranked:
        record = judged.hb.record_seen_by(OpId(number))
        if record is not None:
            yield record
        yield OpId(number)


def _captures(judged: Judged, number: OpId) -> Iterator[int]:
    """The beginnings and ends of the captures in which an operation stands."""
    for begin in judged.numbers(BeginCapture, before=number):
        streams = _things(judged, judged.op(begin))
        ends = [n for n in judged.numbers(EndCapture, first=begin) if streams & _things(judged, judged.op(n))]
        if not ends or ends[0] > number:
            yield from (begin, *ends[:1])


def _own(things: set[Thing]) -> set[Thing]:
    """Events and locks: who else uses those of a racing operation belongs to its story."""
    return {thing for thing in things if thing[0] in ("event", "monitor", "body")}


def _things(judged: Judged, op: Op) -> set[Thing]:
    named = ("stream", "event", "buffer", "monitor", "body")
    found = {(name, value) for name in named if (value := getattr(op, name, None)) is not None}
    found |= {("buffer", access.buffer) for access in getattr(op, "accesses", ())}
    body = judged.index.bodies.get(op.lane)
    return found if body is None else found | {("body", op.lane), ("stream", body)}


def _orders(op: Op) -> bool:
    return isinstance(
        op,
        Record | Wait | SyncEvent | SyncStream | SyncDevice | Barrier | BeginCapture | EndCapture | Callback,
    )


def _concerns(judged: Judged, number: OpId, things: set[Thing]) -> bool:
    """Whether something that orders may order what is racing: it names one of their streams."""
    op = judged.op(number)
    if isinstance(op, SyncDevice):
        return True
    streams = {("stream", stream) for stream in getattr(op, "streams", ())}
    record = judged.hb.record_seen_by(number)
    if record is not None:
        streams |= _things(judged, judged.op(record))
    return bool(things & (_things(judged, op) | streams))


def _kind_and_place(op: Op) -> tuple[object, ...]:
    return (type(op), op.at.span, op.role)


def _says_nothing(judged: Judged, number: OpId, focus: Focus) -> bool:
    """What would only fill a row: the record inside of ``wait_stream``, callers that queue nothing.

    So would the allocation that comes with the first write, ``torch.zeros(n)``, and what a function drops at
    its end.
    """
    op = judged.op(number)
    if isinstance(op, Free) and op.kind is FreeKind.DROPPED:
        reused = [focus.buffers_at(n) for n in focus.racing if isinstance(judged.op(n), Alloc)]
        wanted = {buffer for each in reused for buffer in each} or focus.buffers
        return op.buffer not in wanted or number > focus.racing[-1]
    if isinstance(op, Alloc) and number + 1 < len(judged.trace.ops):
        then = judged.op(OpId(number + 1))
        return then.at.span == op.at.span and ("buffer", op.buffer) in _things(judged, then)
    if isinstance(op, Record):
        return judged.trace.events[op.event].implied
    if isinstance(op, CallbackEnd):
        return True
    is_caller = op.role in (Role.BEFORE_CALL, Role.AFTER_CALL, Role.AFTER_YIELD)
    return is_caller and not getattr(op, "accesses", ())
