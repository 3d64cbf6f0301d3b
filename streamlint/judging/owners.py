"""Whose a stream is: of the code at hand, of its caller, or of other objects too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.order.hb_streams import kind_of
from streamlint.rules import lifetimes
from streamlint.rules.base import stream_of
from streamlint.trace import Doubt, StreamKind

if TYPE_CHECKING:
    from streamlint.interp.entries.runs import Entry, Run
    from streamlint.rules.base import Judged, Problem
    from streamlint.trace import Buffer, Op, Stream, StreamId, Trace


def may_order(judged: Judged, earlier: Op, later: Op, run: Run) -> bool:
    """Whether one op is on a stream of an object that the caller passes, and may order between two calls."""
    numbers = {number for number in (stream_of(earlier), stream_of(later)) if number is not None}
    streams = [judged.trace.streams[number] for number in numbers]
    return any(
        (is_of_caller(stream) and not _is_in_own_record(stream, run))
        or is_waited_for_by_owner(stream, run.entry)
        for stream in streams
    )


def is_waited_for_by_owner(stream: Stream, entry: Entry) -> bool:
    """Whether who makes such objects gives them a stream, and waits for it in other functions itself."""
    passed = stream.passed
    return passed is not None and passed.at_construction and passed.name in entry.waited_by_owners


def _is_in_own_record(stream: Stream, run: Run) -> bool:
    """Whether an object keeps a record with the stream, and nobody else waits for a field of that name.

    ``class Comm: def __init__(self): self.side = torch.cuda.Stream()``, and ``Reducer(comm)``: a class
    without methods orders nothing, and other code of the module would have to say ``comm.side``.
    """
    passed = stream.passed
    if passed is None or not (passed.in_record and passed.at_construction):
        return False
    return passed.part.rpartition(".")[2] not in run.entry.joined_elsewhere


def is_ordered_by_default(judged: Judged, problem: Problem) -> bool:
    """Whether two streams are ordered for every caller that enters none.

    ``with self.lane: y = x * 2`` of a ``cupy.cuda.Stream()``, and ``y.sum()`` behind it: a blocking stream
    waits for the default stream, and that one for it. It is the current one unless somebody enters another;
    where code in sight does, that is judged there.
    """
    if problem.earlier is None or Doubt.SAME_STREAM not in problem.doubts:
        return False
    pair = [judged.trace.streams[one] for one in lifetimes.user_and_owner(judged, problem) if one is not None]
    return {kind_of(stream) for stream in pair} == {StreamKind.CURRENT, StreamKind.BLOCKING} and (
        pair[0].device == pair[1].device
    )


def plain_name(stream: Stream) -> str:
    return stream.name.partition("[")[0].rpartition(".")[2].rpartition(":")[2]


def is_argument(thing: Stream | Buffer) -> bool:
    return thing.passed is not None and thing.passed.is_argument


def is_of_caller(stream: Stream) -> bool:
    """Whether an object has the stream which a caller passes: the caller may order its work too."""
    passed = stream.passed
    return passed is not None and not passed.rest and passed.part.startswith(".")


def is_own(trace: Trace, stream: StreamId, entry: Entry) -> bool:
    """Whether a stream was made by the code at hand, or given to the object when it was made."""
    known = trace.streams[stream]
    match known.kind:
        case StreamKind.NON_BLOCKING | StreamKind.BLOCKING:
            others = known.handed or is_argument(known) or is_of_caller(known)
            return not others or _at_construction(known, entry)
        case StreamKind.UNKNOWN:
            return _at_construction(known, entry)
        case StreamKind.CURRENT | StreamKind.LEGACY | StreamKind.PER_THREAD:
            return False


def is_handed_in(trace: Trace, stream: StreamId, entry: Entry) -> bool:
    """Whether a stream is an argument of the call: the caller, who knows both, may have forked it."""
    known = trace.streams[stream]
    return (
        known.kind in (StreamKind.UNKNOWN, StreamKind.NON_BLOCKING, StreamKind.BLOCKING)
        and (is_argument(known) or is_of_caller(known))
        and not is_own(trace, stream, entry)
    )


def is_made_in(stream: Stream, entry: Entry, later: Op) -> bool:
    """Whether the function that is the entry makes the stream itself, above the op.

    So does one that has an object make it for itself: ``def run(self): self.set_up(); self.step()``.
    """
    made, start = stream.span, entry.start
    if stream.call is not None and stream.call == later.at.call:
        return stream.call > 0 or not entry.is_method
    here = made is not None and made.path == start.path and start.line <= made.line <= later.at.span.line
    return here and not entry.is_method


def _at_construction(stream: Stream, entry: Entry) -> bool:
    """Whether the object got it itself: ``lane`` or ``lanes[0]``, and not as a part of something else."""
    passed = stream.passed
    of_object = bool(entry.outside_calls) or entry.by_itself
    return of_object and passed is not None and passed.at_construction and "." not in passed.part
