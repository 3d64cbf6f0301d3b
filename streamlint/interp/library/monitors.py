"""Locks, flags and queues of host threads: who waits for whom.

A wait with a limit cannot hold up anything for good: it has waited if it says so, or did not raise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.facts import own_makers
from streamlint.interp.library import escape
from streamlint.interp.state import lifetime
from streamlint.interp.state.values import (
    NONE,
    ConstV,
    FuncV,
    HeapV,
    MethodV,
    QueryV,
    Shape,
    Value,
    symbol_of,
)
from streamlint.models import host
from streamlint.trace import MAIN_LANE, Doubt, HostSignal, HostWait, Monitor, MonitorId, MonitorKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.interp.state.values import HeapObject
    from streamlint.source import Span
    from streamlint.trace import LaneId

_OF_TASKS = host.SIGNALS[MonitorKind.TASKS] | host.WAITS[MonitorKind.TASKS]
ROLE = "monitor"
"""The role of an object that is only known as a lock or a flag."""


def make(m: Machine, path: str, args: list[Value], kwargs: dict[str, Value], span: Span) -> HeapV | None:
    """``threading.Lock()``, ``threading.Event()``; None for what is no lock or flag.

    Nor is a semaphore of which nobody knows how many may have it: calls of it are not followed.
    """
    kind = host.MONITORS.get(path)
    if kind is None:
        return None
    times = 0
    if kind is MonitorKind.SEMAPHORE:
        count = args[0] if args else kwargs.get("value", ConstV(1))
        if not (isinstance(count, ConstV) and isinstance(count.value, int)):
            return None
        times = count.value
    made = m.new_object(Shape.INSTANCE, role=ROLE)
    watch(m, made, kind, span, count=times)
    return made


def watch(m: Machine, value: HeapV, kind: MonitorKind, span: Span, *, count: int = 0) -> None:
    """From now on ``value`` is what threads wait at."""
    number = MonitorId(len(m.monitors))
    m.monitors[value.id] = Monitor(number, kind, f"the {kind.value}", span, count=count)


def method(
    m: Machine, value: HeapV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value:
    """``lock.acquire()``, ``flag.set()``, ``queue.get()``."""
    kind = m.monitors[value.id].kind
    if kind is MonitorKind.CONDITION:
        return _of_condition(m, value, name, args, span)
    if kind is MonitorKind.QUEUE and name in _OF_TASKS:
        _tasks(m, value, name, span)
    elif kind is MonitorKind.SEMAPHORE:
        return _of_semaphore(m, value, name, args, kwargs, span)
    elif name in host.SIGNALS[kind]:
        signal(m, value, span, name)
    elif name in host.WAITS[kind] and _for_good(kind, args, kwargs):
        wait(m, value, span, name)
    elif name in host.RAISES_IN_TIME and kind in (MonitorKind.QUEUE, MonitorKind.FLAG):
        wait(m, value, span, name, limited=True)
    elif name in host.WAITS[kind] and kind is MonitorKind.FLAG:
        return _in_time(m, value, name, span)
    elif name == "clear":
        cleared = m.monitors[value.id]
        count = len([*_signals(m, cleared.id)])
        m.monitors[value.id] = replace(cleared, cleared_after=count)
    else:
        if name in host.WAITS[kind]:
            # if lock.acquire(blocking=False): what follows may have been waited for.
            m.asking.append(len(m.ops))
        return m.result(name, span)
    return NONE if kind is not MonitorKind.FLAG else m.fresh(name, span)


_TASKS = "(tasks)"
"""The attribute of a queue that stands for what is in it and not done."""


def _tasks(m: Machine, queue: HeapV, name: str, span: Span) -> None:
    """``queue.task_done()``, and ``queue.join()``, which waits for that: of threads in sight, or of any."""
    tasks = m.heap[queue.id].attrs.get(_TASKS)
    if not isinstance(tasks, HeapV):
        tasks = m.new_object(Shape.INSTANCE, role=ROLE)
        watch(m, tasks, MonitorKind.TASKS, span)
        m.heap[queue.id].attrs[_TASKS] = tasks
    if name in host.SIGNALS[MonitorKind.TASKS]:
        signal(m, tasks, span, name)
        return
    number = m.monitors[tasks.id].id
    wait(m, tasks, span, name)
    if next(_signals(m, number), None) is None and not counts_itself(m, span):
        escape.barrier(m, escape.all_streams(m), span, name)


def counts_itself(m: Machine, span: Span) -> bool:
    """Whether only the function that waits for all of a queue says what is done: nobody waits before that.

    ``batch = self.queue.get(); self.queue.task_done()``, and ``self.queue.join()`` when there are no more.
    """
    function = m.site(span).function
    module = m.project.module_at(span.path)
    return module is not None and set(own_makers.counting(m.project, module, function)) == {function}


def _of_condition(m: Machine, value: HeapV, name: str, args: list[Value], span: Span) -> Value:
    """``condition.wait_for(lambda: self.pending == 0)``: what the test sees was set before.

    A wait with a timeout stands in a loop that asks again, and goes on like any other. What nobody in sight
    has notified may be told by unseen threads, whatever they did.
    """
    monitor = m.monitors[value.id].id
    if name in host.SIGNALS[MonitorKind.CONDITION]:
        signal(m, value, span, name)
    elif name in host.WAITS[MonitorKind.CONDITION]:
        if not _is_set_elsewhere(m, monitor):
            escape.barrier(m, escape.all_streams(m), span, name)
        m.emit(HostWait(m.site(span), m.lane, monitor=monitor, name=name))
        if name == "wait_for" and args and isinstance(args[0], (FuncV, MethodV)):
            m.python.call(m, args[0], [], {}, span)
    return m.fresh(name, span)


_MOST_GIVEN = 64
"""``room.release(n)`` of more than that is not counted."""


def _of_semaphore(
    m: Machine, value: HeapV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value:
    """``room.acquire()`` and ``room.release()``.

    Whether one with a limit (``acquire(timeout=1)``) has taken it, its answer says, if anybody asks.
    """
    monitor = m.monitors[value.id]
    if name in host.SIGNALS[monitor.kind]:
        times = args[0] if args else kwargs.get("n", ConstV(1))
        if isinstance(times, ConstV) and isinstance(times.value, int) and times.value <= _MOST_GIVEN:
            for _ in range(times.value):
                signal(m, value, span, name)
            return NONE
    elif name not in host.WAITS[monitor.kind]:
        return m.result(name, span)
    elif _for_good(monitor.kind, args, kwargs):
        wait(m, value, span, name)
        return ConstV(True)
    elif m.frame.calling is None or m.frame.calling is not m.frame.unused:
        return QueryV(value)
    m.monitors[value.id] = replace(monitor, uncounted=True)
    escape.barrier(m, escape.all_streams(m), span, name)
    return m.fresh(name, span)


def _taken(m: Machine, monitor: MonitorId) -> int:
    return sum(isinstance(op, HostWait) and op.monitor == monitor for op in m.ops)


def _for_good(kind: MonitorKind, args: list[Value], kwargs: dict[str, Value]) -> bool:
    """Whether the wait has no end of its own: no timeout, and no ``blocking=False``."""
    given = [*args, *kwargs.values()]
    blocks = kind is not MonitorKind.FLAG
    return all(value == NONE or (blocks and value == ConstV(True)) for value in given)


def signal(m: Machine, value: HeapV, span: Span, name: str) -> None:
    m.emit(HostSignal(m.site(span), m.lane, monitor=m.monitors[value.id].id, name=name))


def _in_time(m: Machine, flag: HeapV, name: str, span: Span) -> Value:
    """``arrived.wait(5)``: whether it was told in time, its answer says. Who does not ask may have been."""
    monitor = m.monitors[flag.id].id
    if not _is_set_elsewhere(m, monitor):
        escape.barrier(m, escape.all_streams(m), span, name)
        return m.fresh(name, span)
    doubts = frozenset({Doubt.THREADS})
    m.emit(HostWait(m.site(span), m.lane, doubts, monitor=monitor, name=name, limited=True))
    return QueryV(flag)


def wait(m: Machine, value: HeapV, span: Span, name: str, *, limited: bool = False) -> None:
    """A flag that no other thread was seen to set may stand for anything that unseen threads did.

    So does a semaphore that more have than there are, where nobody was seen to give it back.
    """
    monitor = m.monitors[value.id]
    m.emit(HostWait(m.site(span), m.lane, monitor=monitor.id, name=name, limited=limited))
    if monitor.kind is MonitorKind.SEMAPHORE:
        told = _taken(m, monitor.id) <= monitor.count + len([*_signals(m, monitor.id)])
    else:
        told = monitor.kind is not MonitorKind.FLAG or not _is_set_out_of_sight(m, monitor)
    if not told:
        escape.barrier(m, escape.all_streams(m), span, name)


def _is_set_out_of_sight(m: Machine, flag: Monitor) -> bool:
    """Whether a wait for a flag goes on by what the path does not show.

    Nobody has set it since it was cleared: a thread that takes a slot, works on it and sets ``slot.free`` has
    done so once more than it was run.
    """
    signals = [*_signals(m, flag.id)]
    if len(signals) == flag.cleared_after:
        return True
    told = any(lane != m.lane for lane in signals)
    return not told and (len(signals) != 1 or flag.cleared_after is not None)


def _is_set_elsewhere(m: Machine, monitor: MonitorId) -> bool:
    """Whether another thread has set a flag, or notified a condition: what that did is in sight."""
    return any(lane != m.lane for lane in _signals(m, monitor))


def _signals(m: Machine, monitor: MonitorId) -> Iterator[LaneId]:
    """The threads that have set, notified or put something at a monitor, each time that one did."""
    return (op.lane for op in m.ops if isinstance(op, HostSignal) and op.monitor == monitor)


def set_aside(m: Machine, held: HeapObject, name: str, new: Value, span: Span) -> None:
    """Before ``slot.busy = False``: who sees what a thread or a host function has set knows what that knew.

    Not where it is set to what it was: then nobody can tell.
    """
    held.told.pop(name, None)
    if m.lane != MAIN_LANE and held.attrs.get(name) != new:
        teller = _tells(m, held, name, name, span)
        lifetime.lets_go(m, held.attrs.get(name), teller)


def take_aside(m: Machine, value: Value, span: Span) -> None:
    """Behind ``self.kept.pop(key)`` in a thread or a host function: who else has it drops it after that."""
    if m.lane != MAIN_LANE and not isinstance(value, ConstV) and lifetime.waits_for_drop(m, value):
        teller = m.new_object(Shape.INSTANCE, role=ROLE)
        watch(m, teller, MonitorKind.ATTRIBUTE, span)
        signal(m, teller, span, "container")
        lifetime.lets_go(m, value, m.monitors[teller.id].id)


def drop_aside(m: Machine, values: Iterable[Value], span: Span) -> None:
    """Where variables of a thread end: what it took out of a queue, it holds until then.

    ``rows, done = self.filled.get()``, ``done.synchronize()``, ``del rows``: who else has it drops it after
    that, or the thread does. So with another value for the variable, and with the end of its function.
    """
    if m.lane == MAIN_LANE or not m.life.let_go:
        return
    held = lifetime.taken_by_lane(m, values)
    if held:
        teller = m.new_object(Shape.INSTANCE, role=ROLE)
        watch(m, teller, MonitorKind.ATTRIBUTE, span)
        signal(m, teller, span, "variable")
        m.life.let_go.update(dict.fromkeys(held, (m.monitors[teller.id].id, m.lane)))


def put_aside(m: Machine, container: HeapV, item: Value, span: Span) -> None:
    """``self.free.append(slot)`` in a thread or a host function: who takes the slot knows what that knew.

    So does who takes the number of a slot, as long as it is in there once; and whatever word comes through a
    queue of threads: ``acknowledged.put(True)``.
    """
    held = m.heap[container.id]
    told = container.id in m.monitors or (isinstance(item, ConstV) and type(item.value) is int)
    if isinstance(item, ConstV) and (not told or held.items.count(item) > 1):
        return
    held.told.pop(symbol_of(item), None)
    if m.lane != MAIN_LANE:
        _tells(m, held, symbol_of(item), "container", span)


def _tells(m: Machine, held: HeapObject, what: str | Symbol, name: str, span: Span) -> MonitorId:
    teller = m.new_object(Shape.INSTANCE, role=ROLE)
    watch(m, teller, MonitorKind.ATTRIBUTE, span)
    m.monitors[teller.id] = replace(m.monitors[teller.id], name=name)
    held.told[what] = teller, m.lane
    signal(m, teller, span, name)
    return m.monitors[teller.id].id


def see(m: Machine, held: HeapObject, what: str | Symbol, span: Span) -> None:
    """Before ``if not slot.busy``, and behind ``slot = self.free.pop()``.

    The path goes on with what another thread has set, or put there: that was before.
    """
    teller, lane = held.told[what]
    if lane != m.lane:
        del held.told[what]
        monitor = m.monitors[teller.id]
        m.emit(HostWait(m.site(span), m.lane, monitor=monitor.id, name=monitor.name))
