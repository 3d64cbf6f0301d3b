"""SL302 blocking-host-callback."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.finding import Severity
from streamlint.frozen import frozen
from streamlint.order.hb import Verdict
from streamlint.rules.base import Judged, Note, Problem, Rule, quoted
from streamlint.trace import (
    Callback,
    CallbackEnd,
    Copy,
    Doubt,
    HostEffect,
    HostSignal,
    HostWait,
    LaneId,
    MonitorId,
    MonitorKind,
    Op,
    OpId,
    SyncDevice,
    SyncEvent,
    SyncStream,
)
from streamlint.witness import ByDeadlock

if TYPE_CHECKING:
    from collections.abc import Iterator


@frozen()
class _Blocked:
    """A wait inside the body of a callback."""

    begin: OpId
    end: OpId
    wait: OpId
    monitor: MonitorId


def check(judged: Judged) -> Iterator[Problem]:
    if not judged.trace.monitors:
        return
    syncs = [OpId(i) for i, op in enumerate(judged.trace.ops) if _waits_for_device(op)]
    for blocked in _waits_in_callbacks(judged):
        cycles = (_cycle(judged, blocked, sync) for sync in syncs if sync > blocked.end)
        found = next((problem for problem in cycles if problem is not None), None)
        if found is not None:
            yield found


def _waits_for_device(op: Op) -> bool:
    match op:
        case SyncStream() | SyncEvent() | SyncDevice():
            return True
        case Copy(host=host):
            return host in (HostEffect.BLOCKS, HostEffect.BLOCKS_OBSERVED)
        case _:
            return False


def _waits_in_callbacks(judged: Judged) -> Iterator[_Blocked]:
    begins: dict[LaneId, OpId] = {}
    waits: dict[LaneId, list[tuple[OpId, MonitorId]]] = {}
    for number, op in enumerate(judged.trace.ops):
        match op:
            case Callback(body=body):
                begins[body] = OpId(number)
            case HostWait(lane=lane, monitor=monitor, limited=False) if lane in begins:
                waits.setdefault(lane, []).append((OpId(number), monitor))
            case CallbackEnd(body=body):
                for wait, monitor in waits.get(body, ()):
                    yield _Blocked(begins[body], OpId(number), wait, monitor)
            case _:
                pass


def _cycle(judged: Judged, blocked: _Blocked, sync: OpId) -> Problem | None:
    """A thread that waits for the callback at ``sync``, and for which the callback waits."""
    waits = judged.hb.ordered(blocked.end, sync)
    known = judged.hb.ordered_at_issue(blocked.end, sync)
    if waits.verdict is Verdict.NO or known.verdict is Verdict.YES:
        return None
    monitor = judged.trace.monitors[blocked.monitor]
    is_lock = monitor.kind is MonitorKind.LOCK
    if not is_lock and monitor.kind not in _SET:
        return None
    other = _taken(judged, monitor.id, sync) if is_lock else _set_later(judged, monitor.id, sync)
    if other is None:
        return None
    begin, synced = judged.op(blocked.begin), judged.op(sync)
    assert isinstance(begin, Callback)
    name, stream = quoted(monitor.name), quoted(judged.stream_name(begin.stream))
    doubts = waits.doubts | begin.doubts | judged.op(blocked.wait).doubts | synced.doubts
    if begin.at.call != synced.at.call:
        # Between two methods the caller may call a third one that sets the flag.
        doubts |= {Doubt.CALLS} if is_lock else {Doubt.CALLS, Doubt.SOME_PATHS}
    return Problem(
        later=blocked.wait,
        message=(
            f"the callback waits for {name}, which is {'held while' if is_lock else _SET[monitor.kind]} "
            f"{stream} is waited for: neither goes on"
        ),
        label="waits for a thread that waits for it",
        help=(
            f"{_help(monitor.kind, name)} before waiting for {stream}, or let the callback only signal, "
            "and do what may block in an ordinary thread"
        ),
        notes=(
            Note(begin.at.span, "the callback is queued here"),
            Note(judged.op(other).at.span, f"{name} is {'taken' if is_lock else 'signalled'} here"),
            Note(synced.at.span, f"{stream} is waited for here"),
        ),
        doubts=doubts,
        circle=sync,
    )


_SET = {
    MonitorKind.FLAG: "set only after",
    MonitorKind.QUEUE: "filled only after",
    MonitorKind.CONDITION: "notified only after",
}


def _help(kind: MonitorKind, name: str) -> str:
    return {
        MonitorKind.LOCK: f"release {name}",
        MonitorKind.FLAG: f"set {name}",
        MonitorKind.QUEUE: f"put into {name}",
        MonitorKind.CONDITION: f"notify {name}",
    }[kind]


def _taken(judged: Judged, monitor: MonitorId, sync: OpId) -> OpId | None:
    """Where the thread of ``sync`` took the lock that it holds there."""
    held: list[OpId] = []
    lane = judged.op(sync).lane
    for number, op in enumerate(judged.trace.ops[:sync]):
        if op.lane != lane:
            continue
        if isinstance(op, HostWait) and op.monitor == monitor:
            held.append(OpId(number))
        elif isinstance(op, HostSignal) and op.monitor == monitor and held:
            held.pop()
    return held[-1] if held else None


def _set_later(judged: Judged, monitor: MonitorId, sync: OpId) -> OpId | None:
    """Where the thread of ``sync`` signals, if nobody else does and it has not done so before."""
    signals = [
        OpId(i)
        for i, op in enumerate(judged.trace.ops)
        if isinstance(op, HostSignal) and op.monitor == monitor
    ]
    lane = judged.op(sync).lane
    later = all(number > sync and judged.op(number).lane == lane for number in signals)
    return signals[0] if signals and later else None


RULE = Rule(
    code="SL302",
    name="blocking-host-callback",
    summary="a host callback waits for a thread that waits for the callback",
    severity=Severity.ERROR,
    check=check,
    witness=ByDeadlock(),
    doc="""\
## What it does
Reports a host callback that waits for a lock which a thread holds while it waits for the stream, or for an
event, a future or a queue that a thread signals only after it has waited for the stream.

## Why is this bad?
The stream goes on when the callback returns, the callback when the thread lets it, and the thread when the
stream is done: nobody goes on. Whether the callback happens to run early enough decides, so the program may
hang now and then only.

## Example
```python
def on_done(_):
    with lock:
        finished.append(True)

stream.launch_host_func(on_done, None)
with lock:
    stream.synchronize()                 # holds what the callback waits for
```

Use instead:
```python
stream.launch_host_func(on_done, None)
stream.synchronize()
with lock:
    ...
```

## Limits
Only cycles that can be shown are reported. Python code in a callback is none by itself: waiting for a stream
was measured to release the interpreter's lock in the libraries known here. Waits with a timeout are not
reported, nor are semaphores, conditions and barriers of threads, nor locks that unseen code made.

## Source
[cudaLaunchHostFunc](https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__EXECUTION.html): a host
function must not synchronize with work that may depend on it; measured: synchronizations released the
interpreter's lock while a Python callback was pending.
""",
)
