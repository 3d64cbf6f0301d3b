"""What other processes do with memory that they share with this one.

One stream stands for them. It waits for what they are given to wait for: the event that PyTorch records when
it shares a tensor, and events of which they got the handle. A message lets them read what they share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.facts import process_targets
from streamlint.interp.library import escape, tensors
from streamlint.interp.state import arguments, symbols
from streamlint.interp.state.values import EventV, Flavor
from streamlint.models import aside
from streamlint.models.schema import Lib
from streamlint.trace import (
    Access,
    Doubt,
    Launch,
    Mode,
    Origin,
    Purpose,
    Record,
    Space,
    StreamId,
    StreamKind,
    SyncStream,
    Wait,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.interp.library.call import Call
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.interp.state.values import Value
    from streamlint.source import Span

_OPAQUE = frozenset({Doubt.OPAQUE})


def share(call: Call, what: str) -> Value:
    """``reduce_tensor(x)``, ``cudaIpcGetMemHandle(pointer)``, ``done.ipc_handle()``."""
    m = call.m
    given = call.value(what)
    if isinstance(given, EventV):
        m.shared_events[given.id] = None
        if given.id in m.each_of:
            m.shared_events[m.each_of[given.id]] = None
    else:
        for view in call.buffers(what):
            _await_current(m, call.span, call.name())
            m.shared[view.id] = None
    return m.fresh(call.name(), call.span)


def opened(call: Call) -> Value:
    """``cudaIpcOpenMemHandle(handle, flags)``"""
    m = call.m
    made = m.new_buffer("", Space.DEVICE, Origin.ALLOCATED, Flavor.POINTER, call.span)
    m.shared[made.id] = None
    return made


def maker(m: Machine, method: Symbol) -> str:
    """Who made the queue whose method is called, if it is a parameter of what a process runs.

    ``def rollout(outbox): ... outbox.put(chunk)``, with ``Process(target=rollout, args=(queue,))``.
    """
    given = arguments.passed(method.of) if isinstance(method, symbols.Attr) else None
    target = m.targets.get(given.call) if given is not None and given.is_argument else None
    if target is None or not process_targets.runs_in_process(m.project, target):
        return ""
    return aside.OF_PROCESSES


def note(m: Machine, name: str, maker: str, values: Sequence[Value], span: Span) -> None:
    """A call that is not seen: it may start a process, tell one something, or hand memory to it.

    ``maker`` has made the object, if ``name`` is a method: ``context.Queue()`` of ``multiprocessing``.
    """
    of_python = has(maker)
    if starts(name, maker) or (of_python and name in aside.MESSAGES):
        # PyTorch pickles tensors of a device as handles, and records an event for who unpacks them.
        _hand_over(m, name, values, span)
    if name in aside.MESSAGES or (of_python and name in aside.SIGNALS):
        _tell(m, name, values, span)


def starts(name: str, maker: str) -> bool:
    """Whether a call takes code along to another process, where it gets at no stream or event of this one."""
    return name == aside.STARTS_PROCESS and has(maker)


def has(maker: str) -> bool:
    """Whether an object is there for other processes: a queue or a process of ``multiprocessing``."""
    return aside.OF_PROCESSES in maker.split(".")


def _hand_over(m: Machine, name: str, values: Sequence[Value], span: Span) -> None:
    """``Process(target=consume, args=(page, ready))``, ``queue.put(page)``"""
    given = tensors.buffers_in(m, list(values), unknown=False)
    sent = [view for view in given if m.space(view) is Space.DEVICE and view.flavor is Flavor.TORCH]
    if sent:
        _await_current(m, span, name)
    m.shared.update(dict.fromkeys(view.id for view in sent))


def _tell(m: Machine, name: str, values: Sequence[Value], span: Span) -> None:
    """``connection.send(layout)``: who gets it reads what it shares with this process.

    A message that holds the memory itself is pickled, and PyTorch records an event for who unpacks it.
    """
    if not m.shared:
        return
    peer = _peer(m, span)
    sent = {view.id for view in tensors.buffers_in(m, list(values), unknown=False)}
    if sent & m.shared.keys():
        _await_current(m, span, name)
    recorded = {op.event for op in m.ops if isinstance(op, Record)}
    for event in sorted(recorded & {*m.shared_events, *escape.events_in(m, values)}):
        m.emit(Wait(m.site(span), m.lane, stream=peer, event=event, name=name))
    accesses = tuple(Access(number, Mode.READ) for number in m.shared)
    m.emit(Launch(m.site(span), m.lane, _OPAQUE, stream=peer, accesses=accesses, name=name))
    # What is written next, an answer has asked for: nothing is assumed of how long it reads.
    m.emit(SyncStream(m.site(span), m.lane, stream=peer, name=name, purpose=Purpose.ASIDE))


def _await_current(m: Machine, span: Span, name: str) -> None:
    """Whoever opens the memory waits for what was queued when it was shared."""
    source, peer = m.current_stream(Lib.TORCH).id, _peer(m, span)
    event = m.event_of(name, span, Lib.TORCH)
    m.emit(Record(m.site(span), m.lane, stream=source, event=event.id))
    m.emit(Wait(m.site(span), m.lane, stream=peer, event=event.id, name=name))


def _peer(m: Machine, span: Span) -> StreamId:
    if m.peer is None:
        m.peer = m.new_stream(StreamKind.NON_BLOCKING, "the process that is told", span, Lib.TORCH).id
        m.streams[m.peer] = replace(m.streams[m.peer], by_call=True)
    return m.peer
