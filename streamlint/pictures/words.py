"""What an operation says in a picture: the user's expression, and what it does in the user's names."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from typing_extensions import assert_never

from streamlint.rules.base import quoted, readable, unmarked
from streamlint.trace import (
    CURRENT_DEVICE,
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
    FreeKind,
    HandOff,
    HostAccess,
    HostSignal,
    HostWait,
    Join,
    KeepAlive,
    Launch,
    Mode,
    MonitorKind,
    Record,
    Role,
    Spawn,
    SyncDevice,
    SyncEvent,
    SyncStream,
    Wait,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from streamlint.files import SourceFiles
    from streamlint.rules.base import Judged
    from streamlint.source import Span
    from streamlint.trace import Access, BufferId, DeviceId, EventId, MonitorId, Op, OpId, StreamId, Trace

_MOST_NAMES = 3

_ROLES = {
    Role.BEFORE_CALL: "before the call",
    Role.AFTER_CALL: "after the call",
    Role.AFTER_YIELD: "after the yield",
    Role.SET_UP: "before the first call",
    Role.FORWARD: "in the module",
}
_BLOCKS = {"with": "with {}", "leaving the block": "with {}"}
_VERBS = {Mode.READ: "reads", Mode.WRITE: "writes", Mode.UPDATE: "updates", Mode.ADD: "adds to"}
_WAITED_FOR = {
    MonitorKind.LOCK: "waits until it has {}",
    MonitorKind.SEMAPHORE: "waits until it has {}",
    MonitorKind.FLAG: "waits until {} is set",
    MonitorKind.QUEUE: "waits for an item of {}",
    MonitorKind.TASKS: "waits for {}",
    MonitorKind.CONDITION: "waits until {} is notified",
    MonitorKind.ATTRIBUTE: "sees what {} was set to",
}
_GIVEN = {
    MonitorKind.LOCK: "gives {} back",
    MonitorKind.SEMAPHORE: "gives {} back",
    MonitorKind.FLAG: "sets {}",
    MonitorKind.QUEUE: "puts an item into {}",
    MonitorKind.TASKS: "is done with one of {}",
    MonitorKind.CONDITION: "notifies {}",
    MonitorKind.ATTRIBUTE: "sets {}",
}


def code_of(op: Op, sources: SourceFiles) -> str:
    """The user's own expression on one line; what stands for unseen code says so."""
    if op.role is not Role.CODE:
        return _ROLES[op.role]
    text = op.at.text or expression(op.at.span, sources)
    if isinstance(op, HostWait | HostSignal) and text:
        return _BLOCKS.get(op.name, "{}").format(text)
    for word in ("def ", "async def "):  # a function's end stands at its head
        if text.startswith(word):
            return f"the end of {text.removeprefix(word).partition('(')[0]}"
    return text or _without_source(op)


def expression(span: Span, sources: SourceFiles) -> str:
    """The source of a place with white space folded; nothing if it is not there."""
    lines = sources.lines(span.path)[span.line - 1 : span.end_line]
    if len(lines) != span.end_line - span.line + 1:
        return ""
    # The end first: both may lie in one line.
    cut = [*lines[:-1], lines[-1][: span.end_col]]
    cut[0] = cut[0][span.col :]
    return functools.reduce(_continued, (" ".join(line.split()) for line in cut))


def _continued(text: str, line: str) -> str:
    """Two lines in one, as they would be written in one: no blank inside of brackets."""
    if line.startswith((")", "]", "}")):
        return f"{text.rstrip(',')}{line}"
    between = "" if text.endswith(("(", "[", "{")) or line.startswith(".") else " "
    return f"{text}{between}{line}"


def _without_source(op: Op) -> str:
    name = getattr(op, "name", "")
    return str(name) if name else type(op).__name__.lower()


def conditions(trace: Trace) -> list[str]:
    """What a path took for granted, once each: ```host is None` is false``."""
    return list(dict.fromkeys(map(_condition, trace.path)))


def _condition(text: str) -> str:
    test, is_, answer = unmarked(text).rpartition(" is ")
    return f"`{test}`{is_}{answer}" if answer in ("true", "false") else unmarked(text)


def stream_name(judged: Judged, stream: StreamId) -> str:
    return quoted(judged.stream_name(stream))


def event_name(judged: Judged, event: EventId) -> str:
    return quoted(readable(judged.trace.events[event].name, "an event"))


def buffer_name(judged: Judged, buffer: BufferId) -> str:
    return quoted(judged.buffer_name(buffer))


def effect_of(judged: Judged, number: OpId, focus: frozenset[BufferId]) -> str:  # noqa: C901, PLR0911, PLR0912
    """What an operation does; memory in ``focus`` is named first, and always."""
    op = judged.op(number)
    match op:
        case Launch() | HostAccess():
            return _used(judged, op, focus)
        case Copy():
            return _copied(judged, op, focus)
        case Record():
            return f"records {event_name(judged, op.event)}"
        case Wait():
            return f"waits {_awaited(judged, number, op.event)}"
        case SyncEvent():
            return f"the host waits {_awaited(judged, number, op.event)}"
        case SyncStream():
            return f"the host waits for {stream_name(judged, op.stream)}"
        case SyncDevice():
            return _settled(op)
        case Barrier():
            return "not seen: it may order its streams"
        case Alloc():
            return _allocated(judged, number, op, focus)
        case Free():
            return _freed(judged, op)
        case KeepAlive():
            return f"keeps {buffer_name(judged, op.buffer)} for {stream_name(judged, op.stream)}"
        case HandOff():
            return f"hands {buffer_name(judged, op.buffer)} to {op.taker or 'other code'}"
        case Callback():
            return "queues a function of the host"
        case CallbackEnd():
            return "the function of the host ends"
        case Spawn():
            return "starts a thread"
        case Join():
            return "waits for the thread"
        case HostWait():
            return _of_monitor(judged, op.monitor, _WAITED_FOR)
        case HostSignal():
            return _of_monitor(judged, op.monitor, _GIVEN)
        case CudaCall():
            return "a CUDA call that orders nothing"
        case DestroyStream():
            return f"destroys {stream_name(judged, op.stream)}"
        case DestroyEvent():
            return f"destroys {event_name(judged, op.event)}"
        case BeginCapture():
            return "what is queued from here is captured, and does not run"
        case EndCapture():
            return "the capture ends"
        case _:
            assert_never(op)


def _used(judged: Judged, op: Launch | HostAccess, focus: frozenset[BufferId]) -> str:
    listed = "; ".join(_by_mode(judged, op.accesses, focus))
    match op.role:
        case Role.BEFORE_CALL:
            return f"callers may have queued work{f' that {listed}' if listed else ''}"
        case Role.AFTER_CALL | Role.AFTER_YIELD:
            return f"the caller {listed}" if listed else "the caller goes on"
        case Role.CODE | Role.SET_UP | Role.FORWARD:
            return listed or _nameless(op)
        case _:
            assert_never(op.role)


def _nameless(op: Launch | HostAccess) -> str:
    """``y.sum().item()`` reads what has no name; a captured operation has no accesses, its graph has them."""
    verbs = [verb for mode, verb in _VERBS.items() if any(access.mode is mode for access in op.accesses)]
    if verbs:
        return f"{' and '.join(verbs)} memory without a name"
    return "work on the GPU" if isinstance(op, Launch) else "uses memory"


def _by_mode(judged: Judged, accesses: tuple[Access, ...], focus: frozenset[BufferId]) -> Iterator[str]:
    """``reads `x`, `y```: memory without a name in the source only where the finding is about it.

    What is done to memory in focus comes first: a card has no room for the rest of a long list.
    """
    by_mode = {
        mode: dict.fromkeys(access.buffer for access in accesses if access.mode is mode) for mode in _VERBS
    }
    for mode, buffers in sorted(by_mode.items(), key=lambda each: focus.isdisjoint(each[1])):
        verb = _VERBS[mode]
        shown = sorted(buffers, key=lambda buffer: buffer not in focus)
        names = [
            quoted(name)
            for buffer in shown
            if " " not in (name := judged.buffer_name(buffer)) or buffer in focus
        ]
        if names:
            more = [f"{len(names) - _MOST_NAMES} more"] if len(names) > _MOST_NAMES else []
            yield f"{verb} {', '.join([*dict.fromkeys(names[:_MOST_NAMES]), *more])}"


def _copied(judged: Judged, op: Copy, focus: frozenset[BufferId]) -> str:
    source, target = (judged.buffer_name(access.buffer) for access in op.accesses)
    if source == target or (" " in source and op.src.buffer not in focus):
        return f"writes {quoted(target)}"
    if " " in target and op.dst.buffer not in focus:
        return f"reads {quoted(source)}"
    return f"copies {quoted(source)} to {quoted(target)}"


def _awaited(judged: Judged, number: OpId, event: EventId) -> str:
    """Which point in which stream a wait sees: that is what readers get wrong."""
    known = judged.trace.events[event]
    record = judged.hb.record_seen_by(number)
    if record is None:
        return f"for nothing: {event_name(judged, event)} has not been recorded"
    seen = judged.op(record)
    assert isinstance(seen, Record)
    if not known.is_named:
        return f"for {stream_name(judged, seen.stream)}"
    return f"for {event_name(judged, event)}, recorded in {seen.at.span.line_from(judged.op(number).at.span)}"


def _settled(op: SyncDevice) -> str:
    if op.role is Role.SET_UP:
        return "all that was queued so far is complete"
    return f"the host waits for {device_name(op.device)}"


def device_name(device: DeviceId) -> str:
    if device == CURRENT_DEVICE:
        return "the device"
    return f"device {device}" if device.isdigit() else f"device `{device}`"


def _allocated(judged: Judged, number: OpId, op: Alloc, focus: frozenset[BufferId]) -> str:
    """An allocation for which a finding wants the memory of another one says so."""
    name = buffer_name(judged, op.buffer)
    dropped = [
        buffer
        for other in judged.numbers(Free, before=number)
        if isinstance(free := judged.op(other), Free) and (buffer := free.buffer) in focus
    ]
    if " " in judged.buffer_name(op.buffer):
        name = "memory"  # "the memory allocated in line 15"
    if op.buffer in focus or not dropped:
        return f"allocates {name}"
    return f"allocates {name}, and may get the memory of {buffer_name(judged, dropped[-1])}"


def _freed(judged: Judged, op: Free) -> str:
    name = buffer_name(judged, op.buffer)
    return f"the last reference to {name} goes" if op.kind is FreeKind.DROPPED else f"frees {name}"


def _of_monitor(judged: Judged, monitor: MonitorId, said: Mapping[MonitorKind, str]) -> str:
    known = judged.trace.monitors[monitor]
    return said[known.kind].format(quoted(readable(known.name, "it")))
