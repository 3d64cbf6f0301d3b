"""Shared by the rules about unordered pairs: which conflicts each of them reports."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from streamlint.order.conflicts import Conflict, ConflictKind
from streamlint.rules.base import (
    Judged,
    Note,
    Remedy,
    early_record,
    insufficient_record,
    is_entry,
    is_name,
    last_barrier,
    on,
    quoted,
    what,
)
from streamlint.rules.handed_over import between_defaults
from streamlint.trace import Copy, HostAccess, Launch, Mode, Op, Role, Space, StreamChoice, Symbol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.trace import OpId, StreamId


_ELSEWHERE = (Role.BEFORE_CALL,)
"""What the owner of memory writes between two calls it orders itself with what the first one left."""


def device_pairs(judged: Judged, *, reads: bool) -> Iterator[Conflict]:
    """Conflicts whose later side is device work; ``reads``: it reads what the earlier side writes."""
    for conflict in judged.conflicts:
        if isinstance(judged.op(conflict.later), HostAccess) or _is_of_host(judged, conflict.earlier):
            continue
        if judged.op(conflict.later).role in _ELSEWHERE:
            continue
        if (conflict.kind is ConflictKind.READ_AFTER_WRITE) == reads and not between_defaults(
            judged, conflict
        ):
            yield conflict


def host_pairs(judged: Judged, *, reads: bool) -> Iterator[Conflict]:
    """Conflicts whose later side is the host itself."""
    for conflict in judged.conflicts:
        if not isinstance(judged.op(conflict.later), HostAccess) or _is_of_host(judged, conflict.earlier):
            continue
        if (conflict.kind is ConflictKind.READ_AFTER_WRITE) == reads:
            yield conflict


def _is_of_host(judged: Judged, number: OpId) -> bool:
    """Whether a host thread did it by itself, and no host function that is queued on a stream."""
    op = judged.op(number)
    return isinstance(op, HostAccess) and judged.stream_at(op) is None


def notes(judged: Judged, conflict: Conflict) -> tuple[Note, ...]:
    earlier = judged.op(conflict.earlier)
    verb = "written" if conflict.earlier_access.mode is not Mode.READ else "read"
    told = f"{verb} {on(judged, earlier)} here{_when(earlier, judged.op(conflict.later))}"
    record = insufficient_record(judged, conflict.earlier, conflict.later)
    return (
        Note(earlier.at.span, _pending(judged, conflict) if is_entry(earlier) else told),
        *(() if record is None else (record,)),
        *last_barrier(judged, conflict.earlier, conflict.later),
    )


def _pending(judged: Judged, conflict: Conflict) -> str:
    """What an unseen caller may have queued: no statement of the code in sight does it."""
    doing = "reading" if conflict.earlier_access.mode is Mode.READ else "writing"
    user = on(judged, judged.op(conflict.earlier))
    return f"what was queued {user} before this call may still be {doing} {subject(judged, conflict)}"


def _when(earlier: Op, later: Op) -> str:
    """Why the earlier operation may stand below the later one: a call or a loop came around again."""
    if earlier.at.call < later.at.call:
        return ", in an earlier call"
    first, second = earlier.at.span, later.at.span
    comes_around = first.path == second.path and (first.line, first.col) >= (second.line, second.col)
    if first == second and type(earlier) is not type(later):
        # if x.any().to("cpu", non_blocking=True): one expression copies, and is read.
        comes_around = False
    return ", on an earlier pass" if comes_around and earlier.at.function == later.at.function else ""


def subject(judged: Judged, conflict: Conflict) -> str:
    """What the pair is about; of an object that is not resolved, the attribute: ``context.requests``."""
    local = judged.view_here(conflict.buffer, conflict.later_access.region)
    if local:
        return quoted(local)
    name = judged.buffer_name(conflict.buffer)
    if not is_name(name):
        return name
    attributes = (part.text for part in conflict.later_access.region if isinstance(part, Symbol))
    return quoted(name + "".join(itertools.takewhile(lambda text: text.startswith("."), attributes)))


def place(judged: Judged, conflict: Conflict) -> Space:
    return judged.trace.buffers[conflict.buffer].space


def order_help(judged: Judged, conflict: Conflict) -> Remedy:
    """How to add the missing edge between two streams, in the user's names."""
    earlier, later = (judged.op(one) for one in (conflict.earlier, conflict.later))
    waited, waiter = judged.stream_at(earlier), judged.stream_at(later)
    if waited is None or waiter is None:
        return Remedy("order the two operations")
    first, second = (quoted(judged.stream_name(stream)) for stream in (waited, waiter))
    done, at = what(earlier), what(later)
    if judged.trace.streams[waiter].by_call and not is_entry(earlier):
        by = f"synchronize {first}, or an event behind it"
        return Remedy(f"make the host wait for the {done} before the {at}: {by}")
    if judged.trace.streams[waiter].behind_current and not is_entry(earlier):
        return Remedy(
            f"call {at} on a stream that has waited for {first}: it waits for the one that is current then"
        )
    if judged.trace.streams[waited].by_call:
        return Remedy(f"wait for the {done} before the {at}, by what it gave back")
    statement = _in_words(judged, conflict, waited, waiter)
    if is_entry(earlier):
        return Remedy(f"make {second} wait for {first} before the {at}, here or in the callers", statement)
    record = early_record(judged, conflict.earlier, conflict.later)
    if record is not None:
        if judged.trace.events[record.event].is_named:
            return Remedy(f"record {judged.event_name(record.event)} later, after the {done}")
        return Remedy(f"make {second} wait for {first} later, after the {done}")
    if earlier.at.span in later.at.calls:
        # loss.backward() runs the hook that is to wait: there is no place behind it.
        return Remedy(f"make {second} wait for {first} before the {at}", statement)
    last = _last_to_wait_for(judged, conflict)
    if last is not earlier:
        earlier, done = last, what(last)
    if done == at:
        done, at = _told_apart(earlier, later, done)
    both = f"record an event on {first} after the {done} and make {second} wait for it before the {at}"
    return Remedy(both, statement)


_MOST_COMPARED = 64
"""Pairs of a path among which the last one is looked for."""


def _last_to_wait_for(judged: Judged, conflict: Conflict) -> Op:
    """The last operation in front of the later one that the same wait would have to come behind.

    ``out = net(page); loss = out - target`` on one stream, then both are filled anew on another.
    """
    earlier, later = judged.op(conflict.earlier), judged.op(conflict.later)
    if len(judged.conflicts) > _MOST_COMPARED:
        return earlier
    pair = (judged.stream_at(earlier), judged.stream_at(later))
    pending = (
        other.earlier
        for other in judged.conflicts
        if conflict.earlier < other.earlier < conflict.later <= other.later
        and (judged.stream_at(judged.op(other.earlier)), judged.stream_at(judged.op(other.later))) == pair
    )
    return judged.op(max(pending, default=conflict.earlier))


def _told_apart(earlier: Op, later: Op, name: str) -> tuple[str, str]:
    """Two operations of one name: by their lines, or as one that comes around."""
    first, second = earlier.at.span, later.at.span
    if first.begins_in_line_of(second):
        return name, "next one" if first == second else f"second {name}"
    return f"{name} in {first.line_from(second)}", f"{name} in {second.line_from(second)}"


def host_help(judged: Judged, conflict: Conflict) -> str:
    """How the host waits for what a stream may still be writing."""
    earlier = judged.op(conflict.earlier)
    stream = judged.stream_at(earlier)
    name = quoted(judged.stream_name(stream)) if stream is not None else "the device"
    if is_entry(earlier):
        return f"synchronize {name} before the memory is read, here or in the callers"
    done = what(earlier)
    return f"wait for the {done} first: synchronize {name}, or an event recorded on it after the {done}"


def _in_words(judged: Judged, conflict: Conflict, waited: StreamId, waiter: StreamId) -> str:
    """The statement in the words of the library, if the code at the place has names for both streams."""
    both = [judged.trace.streams[stream] for stream in (waiter, waited)]
    told = {stream.words for stream in both if stream.words is not None or not stream.is_default}
    said = told.pop() if len(told) == 1 else None
    if said is None:
        return ""
    later = judged.op(conflict.later)
    if all(stream.is_default for stream in both):
        # Default streams are nobody's: the calls tell the library.
        calls = (judged.op(conflict.earlier), later)
        if any(isinstance(op, (Launch, Copy)) and op.library not in ("", said.library) for op in calls):
            return ""
    function = judged.op(judged.seen[0]).at.function
    for here in (judged.seen_from(number) for number in judged.seen):
        first, second = (here.written_stream(stream, said) for stream in (waited, waiter))
        if first and second and judged.op(here.seen[0]).at.function == function:
            statement = f"{said.library}: `{said.wait.format(first=first, second=second)}`"
            # with torch.cuda.stream(side): y = x * 2    in the block, current_stream() is side itself.
            inside = first == said.current and _takes_no_stream(later)
            return f"{statement} before `{second}` becomes the current stream" if inside else statement
    return ""


def _takes_no_stream(op: Op) -> bool:
    return isinstance(op, (Launch, Copy)) and op.choice is StreamChoice.IMPLIED
