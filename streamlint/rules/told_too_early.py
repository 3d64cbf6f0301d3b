"""Host threads that a host function tells of work which is queued behind that function.

``stream.add_callback(lambda *_: ready.put(page))``, and then ``counts.copy_to_host(page, stream=stream)``:
who takes the page may read it before the copy has written there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.rules import pairs
from streamlint.rules.base import Note, Problem, quoted, what
from streamlint.rules.host_threads import may_know
from streamlint.trace import Callback, Copy, HostAccess, Launch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.order.conflicts import Conflict
    from streamlint.rules.base import Judged
    from streamlint.trace import OpId


def problems(judged: Judged, *, reads: bool) -> Iterator[Problem]:
    """``reads``: what the host does in the thread is a read."""
    for conflict in judged.conflicts:
        host = judged.op(conflict.earlier)
        if not isinstance(host, HostAccess) or conflict.earlier_access.mode.writes == reads:
            continue
        teller = told_by(judged, conflict.earlier, conflict.later)
        if teller is not None:
            yield _problem(judged, conflict, teller)


def told_by(judged: Judged, earlier: OpId, later: OpId) -> OpId | None:
    """The host function that made a thread go on to ``earlier``, if ``later`` is queued behind that function.

    Not if who queued both may have waited in between for what the thread did: here, or between two calls.
    """
    work = judged.op(later)
    start = judged.index.starts.get(judged.op(earlier).lane)
    if not isinstance(work, (Launch, Copy)) or start is None or start > earlier:
        return None
    for number in judged.numbers(Callback, before=start):
        op = judged.op(number)
        if isinstance(op, Callback) and op.body == judged.op(start).lane:
            behind = (op.stream, op.lane, op.at.call) == (work.stream, work.lane, work.at.call)
            return number if behind and not _may_have_waited(judged, earlier, later) else None
    return None


def _may_have_waited(judged: Judged, earlier: OpId, later: OpId) -> bool:
    unseen = judged.trace.calls_unseen(earlier, later)
    return unseen or may_know(judged, earlier, later)


def _problem(judged: Judged, conflict: Conflict, teller: OpId) -> Problem:
    here = judged.seen_from(conflict.later, conflict.earlier)
    work, subject = here.op(conflict.later), pairs.subject(here, conflict)
    stream = here.stream_at(work)
    name = quoted(here.stream_name(stream)) if stream is not None else "the device"
    does, did = ("overwrite", "overwritten") if conflict.earlier_access.mode.writes else ("read", "read")
    writes = conflict.later_access.mode.writes
    return Problem(
        later=conflict.later,
        earlier=conflict.earlier,
        buffer=conflict.buffer,
        message=f"the host may {does} {subject} before or while {name} {'writes' if writes else 'reads'} it",
        label=f"{'written' if writes else 'read'} on {name}",
        help=f"queue the host function after the {what(work)}, or the {what(work)} after what the host does",
        notes=(
            Note(here.op(conflict.earlier).at.span, f"{did} by the host here"),
            Note(here.op(teller).at.span, f"what tells the host to {does} it is queued here, before that"),
        ),
        doubts=conflict.doubts,
    )
