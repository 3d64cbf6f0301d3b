"""Streams that other objects have too: their owner may order between two calls of one that was given them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.judging.responsibility import is_of_caller
from streamlint.rules.base import stream_of

if TYPE_CHECKING:
    from streamlint.interp.entries.runs import Entry, Run
    from streamlint.rules.base import Judged
    from streamlint.trace import Op, Stream


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
