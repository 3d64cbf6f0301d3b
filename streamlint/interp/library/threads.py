"""Host threads: ``Thread(target=f)`` and ``executor.submit(f)`` run ``f`` on a lane of their own.

A new thread starts on the default stream, whatever its parent's current stream (measured). What it
does is placed where it starts; ``join()`` and ``result()`` order it before what follows.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.frozen import replace
from streamlint.interp.facts import classes
from streamlint.interp.library import devices, escape, feeding, polling, tensors
from streamlint.interp.state import arguments, cells, elements, lifetime, names, reach, symbols
from streamlint.interp.state.budgets import Most
from streamlint.interp.state.ends import Blocked, PathEnds, Returned
from streamlint.interp.state.project import FRAMEWORKS
from streamlint.interp.state.put_off import Pool, ThreadBody
from streamlint.interp.state.values import (
    NONE,
    ApiV,
    ClassV,
    ConstV,
    FuncV,
    HeapV,
    MethodV,
    PartialV,
    QueryV,
    Shape,
    StreamV,
    SymV,
    TupleV,
    Value,
)
from streamlint.models import host, python, vocabulary
from streamlint.models import torch as torch_model
from streamlint.trace import MAIN_LANE, Callback, Doubt, Join, LaneId, MonitorKind, Spawn

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.interp.state.values import DeviceV
    from streamlint.source import Span
    from streamlint.trace import Site

_THREAD = "thread"
_RESULT = "(result)"
"""Where a future keeps what its function returned: not a name that code can ask for."""
_LANE = "(lane)"
"""Where a thread keeps on which lane what it does stands: ``self.lane`` may be a stream of the program's."""
_TAKES = host.WAITS[MonitorKind.QUEUE] | {"get_nowait"}
_PUTS = host.SIGNALS[MonitorKind.QUEUE]
MOST_WAKES = Most(3, "wakes of a thread")
"""Times that a thread is seen to take something from a queue that was empty when it came there."""


def made(
    m: Machine, path: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> HeapV | SymV | None:
    """``Thread(...)`` and ``ThreadPoolExecutor(...)``; None for calls of anything else."""
    if path == "threading.Thread":
        return _make(m, args, kwargs)
    return _executor(m, path, args, kwargs, span) if path in python.EXECUTORS | python.POOLS else None


def _make(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> HeapV:
    """``threading.Thread(target=f, args=(...), kwargs={...})``"""
    made = m.new_object(Shape.INSTANCE, role=_THREAD)
    held = m.heap[made.id]
    held.attrs = dict(kwargs)
    if "target" not in kwargs and len(args) > 1:
        held.attrs["target"] = args[1]
    return made


def is_thread(m: Machine, value: HeapV) -> bool:
    return m.heap[value.id].role == _THREAD


def is_method(m: Machine, value: HeapV, name: str) -> bool:
    """Whether a method is that of ``threading.Thread``, from which the class is derived."""
    cls = m.heap[value.id].cls
    return cls is not None and name in python.THREAD_METHODS and classes.is_thread(m.project, cls)


def class_of_body(m: Machine, func: FuncV) -> ir.ClassDecl | None:
    """The class of which it is what a thread does: its ``run``."""
    cls = m.heap[func.receiver.id].cls if isinstance(func.receiver, HeapV) else None
    is_run = cls is not None and func.name.rpartition(".")[2] == "run"
    return cls if cls is not None and is_run and classes.is_thread(m.project, cls) else None


def shares_process(m: Machine, cls: ir.ClassDecl) -> bool:
    return not classes.derives_from(m.project, cls, python.PROCESSES)


def _is_process(m: Machine, thread: HeapV) -> bool:
    cls = m.heap[thread.id].cls
    return cls is not None and not shares_process(m, cls)


def runs_code(m: Machine, value: Value) -> bool:
    """Whether a value given to ``submit`` is code that can be followed: a function, or an object as one."""
    match value:
        case ApiV(path):
            return path.startswith(FRAMEWORKS)
        case HeapV():
            return any(classes.method(m, value, name) is not None for name in torch_model.CALLED)
        case _:
            return isinstance(value, (FuncV, PartialV, MethodV, ClassV))


def _executor(m: Machine, path: str, args: list[Value], kwargs: dict[str, Value], span: Span) -> SymV:
    """``ThreadPoolExecutor(max_workers=1)``, ``ThreadPool(processes=1)``"""
    made = m.result(path, span)
    is_pool = path in python.POOLS
    workers = names.settle(
        m, kwargs.get("processes" if is_pool else "max_workers", args[0] if args else NONE)
    )
    m.pools[made.symbol] = Pool(
        workers == ConstV(1),
        is_prepared="initializer" in kwargs or (is_pool and len(args) > 1),
        as_of_processes=is_pool,
    )
    return made


def pool_of(m: Machine, value: Value) -> Symbol | None:
    return value.symbol if isinstance(value, SymV) and value.symbol in m.pools else None


def shut_down(m: Machine, pool: Symbol, span: Span) -> None:
    """``pool.shutdown()``, and the end of its block: all that it was given is done."""
    for lane in m.pools[pool].lanes:
        m.emit(Join(m.site(span), m.lane, child=lane))
        m.polling.pop(lane, None)


def submit(
    m: Machine, args: list[Value], kwargs: dict[str, Value], span: Span, pool: Symbol | None = None
) -> HeapV:
    """``executor.submit(f, x)``: the future stands for the thread."""
    made = m.new_object(Shape.INSTANCE, role=_THREAD)
    known = m.pools.get(pool) if pool is not None else None
    behind = known.lanes[-1] if known is not None and known.one_by_one and known.lanes else None
    device = devices.current(m) if known is not None and known.is_prepared else None
    m.pooled.add(LaneId(m.lanes))
    body = ThreadBody(made, args[0], args[1:], kwargs)
    m.heap[made.id].attrs[_RESULT] = _run(m, body, span, behind=behind, device=device)
    lane = _lane(m, made)
    if pool is not None and known is not None and lane is not None:
        m.pools[pool] = replace(m.pools[pool], lanes=(*m.pools[pool].lanes, lane))
    return made


def of_asyncio(
    m: Machine, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value | None:
    """Functions of ``asyncio`` and methods of event loops; None for others."""
    match name, args:
        case "to_thread", [target, *_] if runs_code(m, target):
            return submit(m, args, kwargs, span)
        case "run_in_executor", [_, target, *rest] if runs_code(m, target):
            return submit(m, [target, *rest], kwargs, span)
        case "gather", [_, *_] if not any(arguments.is_rest(arg) for arg in args):
            return TupleV(tuple(args))
        case _, [first, *_] if name in python.GIVES_RESULT:
            return first
        case _:
            return None


def awaited(m: Machine, value: Value, span: Span) -> Value:
    """``await value``: the result of a thread's function, of several coroutines, or the value itself.

    A future that is not in sight is resolved by somebody, perhaps from a host function in a stream:
    ``stream.add_callback(lambda *_: loop.call_soon_threadsafe(future.set_result, None))``. Another thread may
    have waited for any stream before it resolves one.
    """
    match value:
        case HeapV() if is_thread(m, value):
            return method(m, value, "result", [], {}, span)
        case TupleV(items):
            return TupleV(tuple(awaited(m, item, span) for item in items))
        case SymV(symbol):
            by_thread = m.lanes > 1 and _is_future(symbol)
            told_from = [StreamV(op.stream) for op in m.ops if isinstance(op, Callback)]
            escape.barrier(m, escape.all_streams(m) if by_thread else told_from, span, "await")
            return value
        case _:
            return value


def _is_future(symbol: Symbol) -> bool:
    """``loop.create_future()``, ``asyncio.Future()``"""
    match symbol:
        case symbols.Fresh(symbols.Call(symbols.Attr(_, name) | symbols.Name(name), _)):
            return name.rpartition(".")[2] in python.MAKES_FUTURE
        case _:
            return False


def method(
    m: Machine, thread: HeapV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value:
    """``start``, ``join`` and ``result``."""
    held = m.heap[thread.id]
    run = classes.method(m, thread, "run") if name == "start" else None
    if run is not None:
        _run(m, ThreadBody(thread, run, [], {}), span)
    elif name == "start" and "target" in held.attrs:
        listed = elements.listed(m, held.attrs.get("args", NONE)) or []
        kwargs = named(m, held.attrs.get("kwargs"))
        _run(m, ThreadBody(thread, held.attrs["target"], listed, kwargs), span)
    elif name in python.HAS_ENDED and _LANE in held.attrs:
        return QueryV(thread, negated=not python.HAS_ENDED[name])
    elif name in python.JOINS or name == python.WAITS_FOR_RESULT:
        # A result that is not there in time raises, and nothing goes on.
        limit = kwargs.get("timeout", args[0] if args else NONE)
        joined(m, thread, span, limited=name in ("join", python.WAITS_FOR_RESULT) and limit != NONE)
    return held.attrs.get(_RESULT, NONE)


def joined(m: Machine, thread: HeapV, span: Span, *, limited: bool = False) -> None:
    """What a thread did was before: ``join()``, or ``done()`` that answered yes."""
    lane = _lane(m, thread)
    if lane is not None:
        join = Join(m.site(span), m.lane, child=lane, limited=limited)
        _doubt_limited(m, join)
        m.emit(join)
        if not limited:
            m.polling = {at: body for at, body in m.polling.items() if body.thread != thread}
        if not limited and _is_left_asleep(m, thread):
            escape.barrier(m, escape.all_streams(m), span, "the end of the thread", Doubt.BUDGET)


def _is_left_asleep(m: Machine, thread: HeapV) -> bool:
    """Whether a thread was last seen where it waits for a queue, and its function has a wait for the device.

    It has ended when it is joined: ``while self.jobs.get(): ...``, and then ``stream.synchronize()``.
    """
    waiting = (*m.left_asleep, *(sleeper for sleepers in m.asleep.values() for sleeper in sleepers))
    return any(
        sleeper.thread == thread and isinstance(sleeper.target, FuncV) and _waits(sleeper.target)
        for sleeper in waiting
    )


def _waits(target: FuncV) -> bool:
    function = target.function
    return not isinstance(function, ir.FunctionDecl) or not vocabulary.HOST_WAITS.isdisjoint(function.called)


def _lane(m: Machine, thread: HeapV) -> LaneId | None:
    """What the thread does stands on this lane, if it was started."""
    lane = m.heap[thread.id].attrs.get(_LANE)
    return LaneId(lane.value) if isinstance(lane, ConstV) and isinstance(lane.value, int) else None


def _doubt_limited(m: Machine, join: Join) -> None:
    """Who joins a thread again in one call of a function takes it to run: the time was over before its end.

    ``while len(buffer) < warmup: worker.join(0.01)``, and ``worker.join()`` at the end.
    """
    for number, op in enumerate(m.ops):
        if isinstance(op, Join) and op.limited and op.child == join.child and _in_one_call(op.at, join.at):
            m.ops[number] = replace(op, doubts=op.doubts | {Doubt.PATH})


def _in_one_call(one: Site, other: Site) -> bool:
    return (one.function, one.calls, one.call) == (other.function, other.calls, other.call)


def named(m: Machine, given: Value | None) -> dict[str, Value]:
    """What is called by name: ``kwargs={"stream": side}``."""
    if not isinstance(given, HeapV):
        return {}
    held = m.heap[given.id]
    return {str(key.value): held.entries[at] for at, key in held.keys.items() if isinstance(key, ConstV)}


def take(m: Machine, queue: HeapV, name: str, span: Span) -> None:
    """Before ``q.get()``: a thread cannot go on before something is in the queue."""
    held = m.heap[queue.id]
    if name in _TAKES and all(isinstance(item, ConstV) for item in held.items):
        feeding.go_on(m, queue, span)
    if name not in _TAKES or not _is_in_thread(m):
        return
    m.drained |= {queue.id}
    if name == "get" and not held.items and not held.open:
        raise Blocked(queue)


def took(m: Machine, queue: HeapV, name: str, span: Span) -> None:
    """After ``q.get()``: there is room again for who puts something there."""
    if name in _TAKES:
        feeding.go_on(m, queue, span)


def _is_in_thread(m: Machine) -> bool:
    """A host callback runs on a lane of its own too."""
    return m.lane != MAIN_LANE and any(isinstance(op, Spawn) and op.child == m.lane for op in m.ops)


def wake(m: Machine, queue: HeapV, name: str, span: Span) -> None:
    """After ``q.put(x)``: the threads that wait for it go on, from their beginning, and find it there."""
    if name not in _PUTS:
        return
    if _is_in_thread(m):
        m.fed |= {queue.id}
    feeding.go_on(m, queue, span)
    served: list[HeapV] = []
    for sleeper in m.asleep.pop(queue.id, []):
        # The thread holds what it takes until it is done with it: self.tasks.put(Task(page, done))
        waiting = m.heap[queue.id].items
        taken = tensors.buffers_in(m, waiting, unknown=False, objects=True)
        lifetime.escapes(m, taken, span)
        if not m.project.budgets.allows(MOST_WAKES, sleeper.wakes + 1):
            m.left_asleep.append(sleeper)
            continue
        there = len(waiting)
        _run(m, replace(sleeper, wakes=sleeper.wakes + 1), span)
        if len(m.heap[queue.id].items) < there:
            served.append(sleeper.thread)
    # Of several threads that wait for one queue, who got something last is the last to get something again.
    m.asleep.get(queue.id, []).sort(key=lambda sleeper: sleeper.thread in served)


def set_number(m: Machine, value: HeapV, name: str, span: Span) -> None:
    """After ``self.written += n``: the threads that ask for it go on, from their beginning."""
    for body in polling.told(m, value, name):
        if m.project.budgets.allows(MOST_WAKES, body.wakes + 1):
            _run(m, replace(body, wakes=body.wakes + 1), span)


def _held_by(m: Machine, given: Iterable[Value]) -> list[Value]:
    """What a thread is given, and what functions among that have closed over.

    ``def fetch(): return page.cpu()``, and ``pool.submit(self._when, ready, fetch)``.
    """
    held: list[Value] = []
    scopes: cells.Seen = set()
    waiting = list(given)
    while waiting:
        value = names.settle(m, waiting.pop())
        held.append(value)
        if isinstance(value, (FuncV, PartialV)):
            waiting += reach.inside(m, value, scopes)
    return held


def _run(
    m: Machine,
    body: ThreadBody,
    span: Span,
    *,
    behind: LaneId | None = None,
    device: DeviceV | None = None,
) -> Value:
    """``behind``: a thread of the pool that runs it when that is done."""
    child, thread = LaneId(m.lanes), body.thread
    m.lanes += 1
    before = _lane(m, thread) if body.wakes else None
    m.heap[thread.id].attrs[_LANE] = ConstV(int(child))
    start = Spawn(m.site(span), m.lane, child=child, goes_on=before, is_process=_is_process(m, thread))
    m.emit(start)
    # The thread holds its arguments until it has returned, whatever the caller drops meanwhile.
    held = _held_by(m, (body.target, *body.args, *body.kwargs.values()))
    lifetime.escapes(m, tensors.buffers_in(m, held, unknown=False), span)
    lane, before_device, thread_from = m.lane, devices.current(m), m.thread_from
    m.lane, m.thread_from = child, len(m.frames)
    devices.select(m, devices.of_new_thread(m) if device is None else device)
    for earlier in (before, behind):
        if earlier is not None:
            m.threads[child] = m.threads.get(earlier, earlier)
            m.emit(Join(m.site(span), child, child=earlier))
    first = len(m.ops)
    result: Value = NONE
    try:
        with suppress(Returned, PathEnds):
            result = m.python.call(m, body.target, body.args, body.kwargs, span)
        polling.goes_on(m, body, child, idle=len(m.ops) == first)
        return result
    except Blocked as at:
        if child in m.feeders and at.queue.id in m.feeders[child].queues:
            return NONE
        m.asleep.setdefault(at.queue.id, []).append(body)
        return NONE
    finally:
        m.lane, m.thread_from = lane, thread_from
        devices.select(m, before_device)
