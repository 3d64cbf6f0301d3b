"""Shared by the rules about unordered pairs: which conflicts each of them reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.conflicts import Conflict, ConflictKind
from streamlint.rules.base import Judged, Note, insufficient_record, last_barrier, on, quoted, what
from streamlint.trace import HostAccess, Mode, Op, OpId, Space

if TYPE_CHECKING:
    from collections.abc import Iterator


def device_pairs(judged: Judged, *, reads: bool) -> Iterator[Conflict]:
    """Conflicts whose later side is device work; ``reads``: it reads what the earlier side writes."""
    for conflict in judged.conflicts:
        if isinstance(judged.op(conflict.later), HostAccess) or isinstance(
            judged.op(conflict.earlier), HostAccess
        ):
            continue
        if (conflict.kind is ConflictKind.READ_AFTER_WRITE) == reads:
            yield conflict


def host_pairs(judged: Judged, *, reads: bool) -> Iterator[Conflict]:
    """Conflicts whose later side is the host itself."""
    for conflict in judged.conflicts:
        if not isinstance(judged.op(conflict.later), HostAccess) or isinstance(
            judged.op(conflict.earlier), HostAccess
        ):
            continue
        if (conflict.kind is ConflictKind.READ_AFTER_WRITE) == reads:
            yield conflict


def notes(judged: Judged, conflict: Conflict) -> tuple[Note, ...]:
    earlier = judged.op(conflict.earlier)
    verb = "written" if conflict.earlier_access.mode is not Mode.READ else "read"
    found = [Note(earlier.at.span, f"{verb} {on(judged, earlier)} here{_entry(earlier)}")]
    for more in (
        insufficient_record(judged, conflict.earlier, conflict.later),
        last_barrier(judged, conflict.earlier, conflict.later),
    ):
        if more is not None:
            found.append(more)
    return tuple(found)


def _entry(op: Op) -> str:
    return ""


def subject(judged: Judged, conflict: Conflict) -> str:
    return quoted(judged.buffer_name(conflict.buffer))


def place(judged: Judged, conflict: Conflict) -> Space:
    return judged.trace.buffers[conflict.buffer].space


def order_help(judged: Judged, conflict: Conflict) -> str:
    """How to add the missing edge between two streams, in the user's names."""
    from streamlint.rules.base import stream_of

    earlier, later = stream_of(judged.op(conflict.earlier)), stream_of(judged.op(conflict.later))
    if earlier is None or later is None:
        return "order the two operations"
    first, second = (judged.stream_name(stream) for stream in (earlier, later))
    return (
        f"record an event on {quoted(first)} after the {what(judged.op(conflict.earlier))} and make {quoted(second)} wait for it "
        f"before the {what(judged.op(conflict.later))} (PyTorch: `{_ref(second)}.wait_stream({_ref(first)})`)"
    )


def _ref(name: str) -> str:
    return (
        "torch.cuda.current_stream()"
        if name == "the current stream"
        else "torch.cuda.default_stream()"
        if "default stream" in name
        else name
    )


def op_id(number: int) -> OpId:
    return OpId(number)
