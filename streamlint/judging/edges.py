"""Which wait is missing: what tells that problems of several paths are one missing edge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.rules.base import About, early_record, is_entry, place_of, stream_of
from streamlint.trace import Copy, HostAccess, KeepAlive, Launch

if TYPE_CHECKING:
    from streamlint.rules.base import Judged, Problem, Rule
    from streamlint.trace import OpId, Stream, StreamId, Trace


def stream_key(stream: Stream) -> tuple[object, ...]:
    """What tells the streams of a program apart, whatever path makes them."""
    return (stream.kind, stream.span, stream.name)


def kept_for_another(trace: Trace, op: KeepAlive) -> tuple[StreamId, StreamId] | None:
    """Two streams that code tells apart: one that allocated memory, and one for which the memory is kept.

    ``with torch.cuda.stream(self.side): y = x * 2``, and ``y.record_stream(current)``: nobody keeps memory
    for the stream that allocated it. Of memory that callers pass, it is not known who has allocated it.
    """
    made = trace.buffers[op.buffer].alloc_stream
    return None if made is None or made == op.stream else (made, op.stream)


def missing_edge(judged: Judged, rule: Rule, problem: Problem) -> str:
    """What tells the wait that would order a pair: who waits for whom, and before which statement.

    A helper launches an engine on a stream of its own, and four callers fill its input in four places: one
    wait before the launch orders them all. Empty where the mistake is another one (a record that is made too
    early is moved, a stream that is left out is passed), or where the wait could not name who it waits for,
    one of several streams that are made in one place. Several calls in one host function are mended where it
    is queued.
    """
    if problem.mended_at:
        return repr((rule.code, problem.mended_at))
    if rule.about is About.KEPT:
        return _missing_keeping(judged, problem)
    later = judged.op(problem.later)
    if (
        problem.earlier is None
        or not rule.about.is_order
        or problem.primary not in (None, problem.later)
        or not problem.explains <= {(problem.earlier, problem.later)}
        or not isinstance(later, (Launch, Copy, HostAccess))
        or early_record(judged, problem.earlier, problem.later) is not None
    ):
        return ""
    waited, waits = _agent(judged, problem.earlier), _agent(judged, problem.later)
    if sum(stream_key(stream) == waited for stream in judged.trace.streams.values()) > 1:
        return ""
    kind, span, *_ = place_of(later)
    return repr((waited, waits, kind.__name__, span))


def missing_fork(judged: Judged, problem: Problem) -> str:
    """What tells the wait at the beginning of a call that would order a pair which misses an edge.

    ``with torch.cuda.stream(self.side): self.packer.pack(x)``, where one packer or another reads ``x``: what
    is pending on it when the call begins one wait orders for both.
    """
    if problem.earlier is None:
        return ""
    first = judged.op(problem.earlier)
    agents = _agent(judged, problem.earlier), _agent(judged, problem.later)
    return repr((*agents, first.at.span)) if is_entry(first) else ""


def _missing_keeping(judged: Judged, problem: Problem) -> str:
    """What tells the memory that would have to be kept, and for whom.

    A padded and an unpadded part are concatenated on another stream than the one which uploads them: one
    ``part.record_stream(...)`` where they are uploaded serves both.
    """
    if problem.earlier is None or problem.buffer is None:
        return ""
    made = judged.trace.buffers[problem.buffer].span
    return repr(("kept", made, _agent(judged, problem.earlier))) if made is not None else ""


def _agent(judged: Judged, number: OpId) -> tuple[object, ...]:
    """A stream by its key, or a thread of the host."""
    op = judged.op(number)
    stream = stream_of(op)
    return ("host", op.lane) if stream is None else stream_key(judged.trace.streams[stream])
