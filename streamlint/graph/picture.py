"""What a picture of a trace shows, before any notation: columns, nodes, edges and conflicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from typing_extensions import assert_never

from streamlint.order.conflicts import conflicts
from streamlint.order.hb import HappensBefore
from streamlint.trace import (
    MAIN_LANE,
    Alloc,
    Barrier,
    BeginCapture,
    Callback,
    CallbackEnd,
    Copy,
    CudaCall,
    DestroyEvent,
    DestroyStream,
    EndCapture,
    Free,
    HandOff,
    HostAccess,
    HostSignal,
    HostWait,
    Join,
    KeepAlive,
    Launch,
    OpId,
    Record,
    Spawn,
    SyncDevice,
    SyncEvent,
    SyncStream,
    Wait,
)

if TYPE_CHECKING:
    from streamlint.order.conflicts import Conflict
    from streamlint.order.hb import Edge
    from streamlint.trace import LaneId, Op, StreamId, Trace

_TEXT_LIMIT = 48


@dataclass(frozen=True, slots=True)
class Node:
    """One op. ``title`` says what it does in the user's own names, ``text`` is the statement."""

    op: OpId
    kind: str
    title: str
    text: str
    path: str
    line: int


@dataclass(frozen=True, slots=True)
class Column:
    """A stream, or a host thread, with its ops in issue order."""

    key: str
    label: str
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Race:
    """Two ops that nothing orders surely; ``label`` says what collides."""

    earlier: OpId
    later: OpId
    label: str
    sure: bool


@dataclass(frozen=True, slots=True)
class Picture:
    entry: str
    path: tuple[str, ...]
    columns: tuple[Column, ...]
    edges: tuple[Edge, ...]
    races: tuple[Race, ...]


def picture(trace: Trace) -> Picture:
    """The happens-before graph of one trace, with the conflicts that it leaves open."""
    order = HappensBefore(trace)
    nodes: dict[str, list[Node]] = {}
    labels: dict[str, str] = {}
    for number, op in enumerate(trace.ops):
        key, label = _column(op, trace)
        labels[key] = label
        nodes.setdefault(key, []).append(_node(number, op, trace))
    columns = tuple(Column(key, labels[key], tuple(nodes[key])) for key in sorted(nodes))
    return Picture(trace.entry, trace.path, columns, _edges(order), _races(trace, order))


def _edges(order: HappensBefore) -> tuple[Edge, ...]:
    """All edges but the doubtful ones beside a sure one, which say nothing more."""
    sure = {(edge.earlier, edge.later) for edge in order.edges if not edge.doubts}
    return tuple(edge for edge in order.edges if not edge.doubts or (edge.earlier, edge.later) not in sure)


def _races(trace: Trace, order: HappensBefore) -> tuple[Race, ...]:
    found: dict[tuple[OpId, OpId], Race] = {}
    for conflict in conflicts(trace, order):
        # Two ops can collide in several buffers; one line between them is enough to see it.
        found.setdefault((conflict.earlier, conflict.later), _race(conflict, trace))
    return tuple(found.values())


def _race(conflict: Conflict, trace: Trace) -> Race:
    name = trace.buffers[conflict.buffer].name
    sure = not conflict.doubts
    return Race(conflict.earlier, conflict.later, f"{conflict.kind.value}: {name}", sure)


def _node(number: int, op: Op, trace: Trace) -> Node:
    text = op.at.text if len(op.at.text) <= _TEXT_LIMIT else op.at.text[: _TEXT_LIMIT - 1] + "…"
    span = op.at.span
    return Node(OpId(number), type(op).__name__, _title(op, trace), text, span.path, span.line)


def _column(op: Op, trace: Trace) -> tuple[str, str]:
    """The key of the column, which also sorts them, and its label."""
    stream = _stream(op)
    if stream is None:
        return _lane(op.lane)
    found = trace.streams[stream]
    return f"stream{stream:04d}", f"{found.name} ({found.kind.value})"


def _lane(lane: LaneId) -> tuple[str, str]:
    return f"host{lane:04d}", "host" if lane == MAIN_LANE else f"host thread {lane}"


def _stream(op: Op) -> StreamId | None:
    """The stream on which the op takes its turn; ``None`` for what the host does itself."""
    match op:
        case Launch() | Copy() | Record() | Wait() | Callback() | CallbackEnd():
            return op.stream
        case BeginCapture() | EndCapture() | Alloc() | Free():
            return op.stream
        case HostAccess() | SyncEvent() | SyncStream() | SyncDevice() | Barrier():
            return None
        case KeepAlive() | HandOff() | Spawn() | Join() | HostWait() | HostSignal() | CudaCall():
            return None
        case DestroyStream() | DestroyEvent():
            return None
        case _:
            assert_never(op)


def _title(op: Op, trace: Trace) -> str:
    match op:
        case Launch() | HostAccess():
            return f"{op.name}{_accesses(op, trace)}"
        case Copy():
            buffers = trace.buffers
            return f"{op.name} {buffers[op.dst.buffer].name} <- {buffers[op.src.buffer].name}"
        case Record() | Wait() | SyncEvent() | DestroyEvent():
            return f"{_verb(op)} {trace.events[op.event].name}"
        case SyncStream() | DestroyStream():
            return f"{_verb(op)} {trace.streams[op.stream].name}"
        case SyncDevice():
            return f"{op.name} device {op.device}"
        case Alloc() | Free() | KeepAlive() | HandOff():
            return f"{op.name} {trace.buffers[op.buffer].name}"
        case Barrier() | Callback() | CudaCall():
            return op.name
        case CallbackEnd():
            return "end of host callback"
        case Spawn() | Join():
            return f"{_verb(op)} thread {op.child}"
        case HostWait() | HostSignal():
            return f"{op.name} {trace.monitors[op.monitor].name}"
        case BeginCapture() | EndCapture():
            return _verb(op)
        case _:
            assert_never(op)


def _verb(op: Op) -> str:
    match op:
        case Wait() | SyncEvent() | SyncStream():
            return op.name
        case DestroyStream() | DestroyEvent():
            return "destroy"
        case BeginCapture():
            return "begin capture"
        case EndCapture():
            return "end capture"
        case _:
            return type(op).__name__.lower()


def _accesses(op: Launch | HostAccess, trace: Trace) -> str:
    reads = [trace.buffers[a.buffer].name for a in op.accesses if a.mode.reads]
    writes = [trace.buffers[a.buffer].name for a in op.accesses if a.mode.writes]
    parts = [f"{word} {', '.join(names)}" for word, names in (("reads", reads), ("writes", writes)) if names]
    return f": {'; '.join(parts)}" if parts else ""
