"""Groups of communication: calls of NCCL between ``groupStart()`` and ``groupEnd()`` are queued at the end.

An event that is recorded inside of a group stands for none of it, and a wait there makes none of it wait
(https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage/groups.html).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.library import stream_values

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span
    from streamlint.trace import Launch, StreamId


def start(m: Machine) -> None:
    """Groups may stand in groups: the outermost one counts."""
    m.group += not m.open_groups
    m.open_groups += 1


def queue(m: Machine, launch: Launch) -> None:
    """Queues a call now, or with the group that is open."""
    if m.open_groups:
        m.grouped.append(replace(launch, group=m.group))
    else:
        m.emit(launch)


def end(m: Machine, span: Span, name: str) -> None:
    """Queues all calls of the group as one: after the work of each of its streams, and before their next.

    "It will enforce a stream dependency of all streams before the NCCL kernel starts and block all streams
    until the NCCL kernel completes" (https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage/streams.html).
    """
    m.open_groups = max(0, m.open_groups - 1)
    if m.open_groups or not m.grouped:
        return
    called, m.grouped = m.grouped, []
    streams = tuple(dict.fromkeys(launch.stream for launch in called))
    _meet(m, streams, span, name)
    for launch in called:
        m.emit(launch)
    _meet(m, streams, span, name)


def _meet(m: Machine, streams: tuple[StreamId, ...], span: Span, name: str) -> None:
    """Each stream waits for all the others."""
    first, *others = streams
    for other in others:
        stream_values.waits(m, first, other, span, name)
    for other in others:
        stream_values.waits(m, other, first, span, name)
