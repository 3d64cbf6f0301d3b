"""Ends of a call that may be open for good: what the entries of a module must show together for that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.judging import evidence
from streamlint.judging.call_ends import OpenEnd, Unawaited
from streamlint.judging.forgotten_ends import has_handle
from streamlint.judging.owners import is_argument, is_of_caller, is_waited_for_by_owner, plain_name
from streamlint.rules.base import is_entry, is_handed_out, is_read_by_caller, is_return, stream_of
from streamlint.trace import Copy, Doubt, HostAccess, Launch, Origin, StreamChoice, StreamKind

if TYPE_CHECKING:
    from streamlint.interp.entries.runs import Entry
    from streamlint.rules.base import Judged, Problem
    from streamlint.trace import Op, Stream


def open_end(judged: Judged, problem: Problem, entry: Entry) -> tuple[OpenEnd, Doubt] | None:
    """The end of a call that may be open for good, and the doubt that does not hold if it is.

    The stream is one that the module makes: an unseen caller that knows it got it from here.
    """
    if problem.earlier is None:
        return None
    first, later = judged.op(problem.earlier), judged.op(problem.later)
    if has_handle(first):
        return None
    left = _left_to_consumer(judged, problem)
    if left is not None:
        first, doubt, stream = left, Doubt.RESULT, stream_of(left)
    elif Doubt.RESULT in problem.doubts and is_handed_out(later) and first.at.call <= later.at.call:
        doubt, stream = Doubt.RESULT, stream_of(first)
    elif Doubt.ARGUMENT in problem.doubts and is_entry(first) and _reads_device_memory(judged, problem):
        doubt, stream = Doubt.ARGUMENT, stream_of(later)
    else:
        return None
    known = judged.trace.streams[stream] if stream is not None else None
    if known is None or known.span is None or known.kind not in _MADE or is_of_caller(known):
        return None
    if is_waited_for_by_owner(known, entry) or plain_name(known) in entry.known_to_makers:
        return None
    at = first.at if doubt is Doubt.RESULT else later.at
    returned = doubt is Doubt.RESULT
    of_caller = problem.buffer is not None and judged.trace.buffers[problem.buffer].origin is Origin.ARGUMENT
    return OpenEnd(known.span, plain_name(known), at.span, at.function, returned, of_caller), doubt


def _left_to_consumer(judged: Judged, problem: Problem) -> Op | None:
    """The work that is left under way on what a consumer gets, whose use of it nobody waits for either.

    ``with torch.cuda.stream(side): y = rows.to(device, non_blocking=True)``, then ``return y``: who does not
    know that ``side`` writes it does not know that ``side`` allocates it again. A wait before it is used
    mends the one, ``y.record_stream(current)`` the other.
    """
    assert problem.earlier is not None
    use = judged.op(problem.earlier)
    if Doubt.RESULT not in problem.doubts or not is_handed_out(use) or problem.buffer is None:
        return None
    uses = judged.uses(problem.buffer, before=problem.earlier)
    last = judged.op(uses[-1]) if uses else None
    return last if last is not None and stream_of(last) != stream_of(use) else None


def left_by_event(judged: Judged, problem: Problem, entry: Entry) -> Unawaited | None:
    """What must hold where a result is handed out that a stream of the object's still writes.

    Somebody has made the stream for it, or given it one, and may wait for that. But an event is recorded
    behind the work: so the code itself means to wait for it.
    """
    if problem.earlier is None or Doubt.RESULT not in problem.doubts:
        return None
    first, later = judged.op(problem.earlier), judged.op(problem.later)
    stream = stream_of(first)
    known = judged.trace.streams[stream] if stream is not None else None
    if known is None or known.kind is not StreamKind.UNKNOWN or known.handed:
        return None
    if is_argument(known) and not _is_the_objects(known, first, entry):
        return None
    if has_handle(first) or is_of_caller(known) or not is_return(later) or problem.buffer is None:
        return None
    if judged.trace.buffers[problem.buffer].origin is Origin.ARGUMENT:
        return None
    return Unawaited(first.at.span, plain_name(known))


def _is_the_objects(stream: Stream, use: Op, entry: Entry) -> bool:
    """Whether an object got a stream when it was made, for which who made it does not wait by itself."""
    passed = stream.passed
    earlier = passed is not None and passed.call < use.at.call
    return earlier and not is_waited_for_by_owner(stream, entry)


_MADE = (StreamKind.NON_BLOCKING, StreamKind.BLOCKING)


def _reads_device_memory(judged: Judged, problem: Problem) -> bool:
    """Whether the later op reads an argument on a current or side stream that it did not name."""
    later = judged.op(problem.later)
    if not isinstance(later, (Launch, Copy)) or later.choice is StreamChoice.NAMED:
        return False
    reads = any(access.buffer == problem.buffer and access.mode.reads for access in later.accesses)
    return reads and evidence.is_device_memory(judged, problem)


def left_in_handle(judged: Judged, problem: Problem, entry: Entry) -> Unawaited | None:
    """What makes a mistake of a method of a handle that uses what its maker has left under way.

    The maker recorded an event behind that, and gave it to the handle: no other code gets at it.
    """
    if not entry.of_handle or problem.earlier is None or Doubt.RESULT not in problem.doubts:
        return None
    first, later = judged.op(problem.earlier), judged.op(problem.later)
    if is_handed_out(later) or first.at.call == later.at.call:
        return None
    return Unawaited(first.at.span)


def left_by_kept_event(judged: Judged, problem: Problem, entry: Entry) -> Unawaited | None:
    """What makes a mistake of a method by which the host uses what a copy of an earlier call may still use.

    ``self.host.copy_(x, non_blocking=True); self.done.record()``, and ``self.host.sum()`` in another one: who
    calls both may synchronize in between, but the object keeps an event for that, which nobody waits for.
    """
    if problem.earlier is None or Doubt.RESULT not in problem.doubts:
        return None
    first, later = judged.op(problem.earlier), judged.op(problem.later)
    if not isinstance(later, HostAccess) or first.at.call == later.at.call:
        return None
    stream = stream_of(first)
    known = judged.trace.streams[stream] if stream is not None else None
    name = plain_name(known) if known is not None and known.kind is not StreamKind.CURRENT else ""
    return Unawaited(first.at.span, name, by_host=True, ended_by=entry.ended_by)


def read_by_caller(judged: Judged, problem: Problem) -> Unawaited | None:
    """What makes a mistake of handing out memory of the host that a copy is to fill."""
    if problem.earlier is None or not is_read_by_caller(judged.op(problem.later)):
        return None
    in_array = problem.buffer is not None and judged.trace.buffers[problem.buffer].in_array
    return Unawaited(judged.op(problem.earlier).at.span, in_array=in_array)
