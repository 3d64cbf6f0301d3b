"""Threads that feed queues go on while others take: ``for batch in source: self.queue.put(move(batch))``.

A loop of a thread makes its passes where the thread starts, as any loop does: one of unknown length a few,
one of known length until it has to wait. What the others then do with what they took, and give back, is met
by what the thread does *after* that. So whenever somebody takes something from a queue that the loop fills,
or puts something into one that it takes from, the loop makes one more pass, with the variables and streams
that it had. A thread that waits in ``put()``, as its queue is full, goes on when there is room again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.library import devices, monitors
from streamlint.interp.state import lifetime
from streamlint.interp.state.budgets import Most
from streamlint.interp.state.ends import Blocked, PathEnds, Returned
from streamlint.interp.state.frames import Consumer
from streamlint.interp.state.put_off import Feeder
from streamlint.interp.state.values import ConstV, Shape
from streamlint.trace import MAIN_LANE, MonitorKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from streamlint import ir
    from streamlint.interp.state.frames import Frame
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.values import HeapObject, HeapV, Value
    from streamlint.source import Span
    from streamlint.trace import LaneId

MOST_FED = Most(6, "passes of a thread that feeds a queue")
"""Passes that such a loop makes besides its own."""
SIZE = "maxsize"
"""The attribute of a queue that says how much goes into it."""


def bounded(m: Machine, queue: HeapV, args: list[Value], kwargs: dict[str, Value]) -> HeapV:
    """``queue.Queue(2)``, ``queue.Queue(maxsize=n)``"""
    m.heap[queue.id].attrs[SIZE] = args[0] if args else kwargs.get(SIZE, ConstV(0))
    return queue


def size(m: Machine, queue: HeapV) -> int:
    """How much goes into a queue: 0 for any number, -1 where that is not known."""
    told = m.heap[queue.id].attrs.get(SIZE)
    return max(told.value, 0) if isinstance(told, ConstV) and isinstance(told.value, int) else -1


# ----------------------------------------------------------------------------- the thread's own loop


def is_waiting(m: Machine) -> bool:
    """Whether the thread that runs has put more into a queue than goes into it: it waits there."""
    inner = m.feeders.get(m.lane)
    queues = m.fed | inner.queues if inner is not None else m.fed
    return any(_is_full(m.heap[number]) for number in queues)


def note(m: Machine, loop: ir.For | ir.While, source: Value, turn: int) -> None:
    """A loop has made its passes, or those that it can: those that follow come when others take or give."""
    frames = m.frames[m.thread_from :]
    knows = all(isinstance(m.heap[number].attrs.get(SIZE), ConstV) for number in m.fed)
    # for batch in self.batches(): for part in batch: queue.put(part): the function stands there twice.
    once = len({id(frame) for frame in frames}) == len(frames)
    if m.lane == MAIN_LANE or not m.fed or not knows or not once or any(map(_is_stepped, frames)):
        return
    streams = tuple((key, stream) for key, stream in m.current.items() if key[2] == m.lane)
    m.feeders[m.lane] = Feeder(
        loop,
        source,
        turn,
        _copied(frames),
        tuple(m.calls),
        streams,
        devices.current(m),
        m.fed,
        m.fed | m.drained,
    )


def _is_stepped(frame: Frame) -> bool:
    """Whether it is that of a generator which no loop walks: ``next(batches)``."""
    return frame.on_yield is not None and not isinstance(frame.on_yield, Consumer)


def _copied(frames: Iterable[Frame]) -> tuple[Frame, ...]:
    """Functions as they are now; a generator's values go to the copy of the one that walks it."""
    copies: dict[int, Frame] = {}
    for frame in frames:
        walked = frame.on_yield
        if isinstance(walked, Consumer):
            walked = Consumer(copies.get(id(walked.frame), walked.frame), walked.consume)
        env = replace(frame.env, names=dict(frame.env.names))
        copies[id(frame)] = replace(frame, env=env, on_yield=walked)
    return tuple(copies.values())


def _is_full(held: HeapObject) -> bool:
    size = held.attrs.get(SIZE)
    most = size.value if isinstance(size, ConstV) and isinstance(size.value, int) else 0
    return 0 < most < sum(not isinstance(item, ConstV) for item in held.items)


# ----------------------------------------------------------------------------- what others do


def go_on(m: Machine, queue: HeapV, span: Span) -> None:
    """After ``q.get()`` and ``q.put(x)`` of somebody else: loops of threads that use the queue go on."""
    for lane, feeder in list(m.feeders.items()):
        if lane == m.lane or queue.id not in feeder.queues:
            continue
        full = any(_is_full(m.heap[number]) for number in feeder.fills)
        if not full and m.project.budgets.allows(MOST_FED, feeder.passes + 1):
            del m.feeders[lane]
            _make_pass(m, lane, feeder, span)


def was_taken(m: Machine, before: Collection[LaneId] = ()) -> None:
    """Others have taken long ago what the threads of an object put into queues when it was made."""
    for lane, feeder in m.feeders.items():
        for number in feeder.fills if lane not in before else ():
            m.heap[number].items = [item for item in m.heap[number].items if isinstance(item, ConstV)]


def _make_pass(m: Machine, lane: LaneId, feeder: Feeder, span: Span) -> None:
    teller = m.new_object(Shape.INSTANCE, role=monitors.ROLE)
    monitors.watch(m, teller, MonitorKind.ATTRIBUTE, span)
    monitors.signal(m, teller, span, "queue")
    frames, calls, mine, device = m.frames, m.calls, m.lane, devices.current(m)
    used, thread_from = (m.fed, m.drained), m.thread_from
    ends = {number: _end(m.heap[number]) for number in feeder.queues}
    m.frames, m.calls, m.lane = [*frames, *_copied(feeder.frames)], list(feeder.calls), lane
    m.thread_from = len(frames)
    m.current.update(feeder.streams)
    devices.select(m, feeder.device)
    monitors.wait(m, teller, span, "queue")
    after = feeder
    try:
        with lifetime.holding(m, feeder.source):
            goes_on = m.python.make_pass(m, feeder.loop, feeder.source, feeder.turn)
        after = replace(
            feeder,
            turn=feeder.turn + 1,
            frames=_copied(m.frames[len(frames) :]),
            passes=feeder.passes + 1,
        )
    except (Returned, PathEnds):
        goes_on = False
    except Blocked:
        goes_on = True
    finally:
        for frame in m.frames[len(frames) :]:
            monitors.drop_aside(m, frame.env.names.values(), span)
        m.frames, m.calls, m.lane, m.thread_from = frames, calls, mine, thread_from
        m.fed, m.drained = used
        devices.select(m, device)
    for number, last in ends.items():
        _put_last(m.heap[number], last)
    if goes_on:
        m.feeders[lane] = after


def _end(held: HeapObject) -> int:
    """How many marks of the end stand at the end of a queue: ``queue.put(None)`` behind the loop."""
    marks = 0
    while marks < len(held.items) and isinstance(held.items[-1 - marks], ConstV):
        marks += 1
    return marks


def _put_last(held: HeapObject, marks: int) -> None:
    """The end of what a thread puts into a queue stays behind what it has put there since."""
    ends = [item for item in held.items if isinstance(item, ConstV)][:marks]
    held.items = [item for item in held.items if not isinstance(item, ConstV)] + ends
