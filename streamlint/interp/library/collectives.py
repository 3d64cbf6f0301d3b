"""Collectives of ``torch.distributed``: on the current stream, or aside with a handle to wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import assert_never

from streamlint.frozen import frozen, replace
from streamlint.interp.library import copies, grouped, tensors
from streamlint.interp.state import elements, symbols
from streamlint.interp.state.values import (
    NONE,
    BufferV,
    ConstV,
    ContextKind,
    ContextV,
    EventV,
    Flavor,
    PartialV,
    StreamV,
    SymV,
    TupleV,
    Value,
    symbol_of,
)
from streamlint.models import schema as fx
from streamlint.models import words
from streamlint.models.schema import Lib
from streamlint.trace import (
    Access,
    Doubt,
    Evidence,
    KeepAlive,
    Launch,
    Mode,
    Origin,
    Purpose,
    Record,
    Space,
    StreamKind,
    SyncStream,
    Wait,
)

if TYPE_CHECKING:
    from streamlint.interp.library.call import Call
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.source import Span
    from streamlint.trace import StreamId

_OBSERVED = frozenset({Doubt.OBSERVED})


def carry_out(call: Call, effect: fx.CommunicationEffect) -> Value | None:
    """Effects on collectives and groups of communication."""
    m, span = call.m, call.span
    match effect:
        case fx.Communicates():
            return run(call, effect)
        case fx.WaitsForResult(result):
            return wait_for(call, result)
        case fx.Coalesces():
            return coalesced(call, effect)
        case fx.GivesWritten():
            return written(call)
        case fx.Defers(func):
            return deferred(call, func)
        case fx.CallsAll(calls):
            return all_of(call, calls)
        case fx.GroupStarts(block):
            if block:
                return ContextV(ContextKind.GROUP, NONE, call.lib)
            grouped.start(m)
            return None
        case fx.GroupEnds():
            grouped.end(m, span, call.name())
            return None
        case _:
            assert_never(effect)


def run(call: Call, effect: fx.Communicates) -> Value:
    """Carries out a collective. One that runs aside on memory which is not known for sure does nothing here.

    A handle that orders more than is seen costs a miss; one that orders less, a false alarm. A flag that is
    left to callers (``def gather(x, async_op=True)``) is true on one path and false on another.
    """
    m = call.m
    used = [
        (view, mode)
        for names, mode in (
            (effect.reads, Mode.READ),
            (effect.writes, Mode.WRITE),
            (effect.updates, Mode.READ if _is_sent_here(call, effect) else Mode.UPDATE),
        )
        for name in names
        for view in tensors.buffers_in(m, [call.value(name)], taken=True)
    ]
    is_aside = not m.streams[m.current_stream(Lib.TORCH).id].is_default
    for view, _ in used:
        m.is_memory(view, Evidence.INFERRED)  # dist.reduce(total): what is sent is a tensor.
        if is_aside and m.space(view) is Space.UNKNOWN:
            # with torch.cuda.stream(side): dist.all_reduce(flat): nobody enters a stream for the host.
            m.lives(view, Space.DEVICE, Evidence.INFERRED)
    accesses = [Access(view.id, mode, view.region) for view, mode in used]
    if not _is_aside(call, effect):
        given = _given(call, effect)
        accesses += [Access(view.id, Mode.WRITE) for view in given.made]
        _host_waits(call, effect, m.current_stream(Lib.TORCH).id)
        tensors.launch(m, call.span, accesses, call.name())
        _follow_group(call, effect)
        return given.with_handle(m.fresh("the handle", call.span)) if effect.gives else NONE
    if used and effect.makes is None and not effect.gives and all(m.space(view).on_host for view, _ in used):
        return _by_host(call, accesses)
    if not used or any(m.space(view).on_host for view, _ in used):
        return m.result(call.name(), call.span)
    given = _given(call, effect)
    made = [*_results(call, effect), *given.made]
    accesses += [Access(view.id, Mode.WRITE) for view in made]
    views = [*(view for view, _ in used), *made]
    work = _aside(call, effect, accesses, views)
    if call.lib is Lib.FUNCTIONAL:
        for view in views:
            m.roles[_work_of(view)] = work
    if effect.makes is None:
        return given.with_handle(work) if effect.gives else work
    return made[0] if isinstance(call.value(effect.makes), (BufferV, SymV)) else m.new_list([*made])


def _by_host(call: Call, accesses: list[Access]) -> EventV:
    """``dist.irecv(page, src)`` of memory of the host, which the host uses from now on.

    Behind the wait it has done so; no stream waits for another one.
    """
    m = call.m
    tensors.launch(m, call.span, accesses, call.name())
    work = _handle(call)
    name = "the communication of the host"
    none = m.own_stream(StreamKind.NON_BLOCKING, name, call.span, Lib.TORCH, m.device)
    m.emit(Record(m.site(call.span), m.lane, stream=none.id, event=work.id))
    return work


def _handle(call: Call) -> EventV:
    work = call.m.new_event("the handle", call.span, call.lib, of_call=True)
    call.m.events[work.id] = replace(call.m.events[work.id], wait=words.wait_of_handle(call.lib))
    return work


_RANK = symbols.call("torch.distributed.get_rank")


def _is_sent_here(call: Call, effect: fx.Communicates) -> bool:
    """Whether the path has taken its rank for the one that sends: ``if dist.get_rank() == 0``, ``src=0``."""
    if effect.source is None:
        return False
    source = symbol_of(call.value(effect.source))
    ranks = (rank for rank, number in call.m.equal.items() if number is source)
    return any(isinstance(rank, symbols.Fresh) and rank.what is _RANK for rank in ranks)


def wait_for(call: Call, result: str) -> Value:
    """``wait_tensor(x)``: for the last collective that has made ``x``, or worked in place on it."""
    m, given = call.m, call.value(result)
    for view in tensors.buffers_in(m, [given], taken=True):
        work = m.roles.pop(_work_of(view), None)
        if isinstance(work, EventV):
            current = m.current_stream(Lib.TORCH).id
            m.emit(Wait(m.site(call.span), m.lane, stream=current, event=work.id, name=call.name()))
    return given


@frozen()
class _Given:
    """What a call gives before its handle, and the memory in it."""

    values: tuple[Value, ...] = ()
    made: tuple[BufferV, ...] = ()

    def with_handle(self, handle: Value) -> Value:
        return TupleV((*self.values, handle))


def _given(call: Call, effect: fx.Communicates) -> _Given:
    """``received, weights, done = buffer.combine(x, handle)``: nothing is received for what was not sent."""
    values: list[Value] = []
    made: list[BufferV] = []
    for name in effect.gives:
        views = tensors.buffers_in(call.m, [call.value(name)], taken=True) if name is not None else []
        mine = [_result(call, view) for view in views]
        made += mine
        if name is None:
            values.append(call.m.fresh("what is no memory", call.span))
        else:
            values.append(mine[0] if len(mine) == 1 else TupleV(tuple(mine)) if mine else NONE)
    return _Given(tuple(values), tuple(made))


def _results(call: Call, effect: fx.Communicates) -> list[BufferV]:
    """What a functional collective makes: allocated on the current stream, one for each operand."""
    if effect.makes is None:
        return []
    return [_result(call, view) for view in tensors.buffers_in(call.m, [call.value(effect.makes)])]


def _result(call: Call, like: BufferV) -> BufferV:
    m, stream = call.m, call.m.current_stream(Lib.TORCH).id
    device = m.buffers[like.id].device
    return m.new_buffer("", Space.DEVICE, Origin.RESULT, Flavor.TORCH, call.span, stream, device)


def _work_of(view: BufferV) -> Symbol:
    return symbols.call(_WORK, symbol_of(BufferV(view.id)))


def coalesced(call: Call, effect: fx.Coalesces) -> ContextV:
    """``with dist._coalescing_manager(group, async_ops=True) as work: ...``, and then ``work.wait()``."""
    m = call.m
    stream = _stream_of_group(call, effect)
    work = _handle(call)
    aside = copies.is_true(m, call.value(effect.flag), call.span, effect.flag)
    return ContextV(ContextKind.COALESCED, TupleV((work, stream)), call.lib, joins=not aside)


def coalesces(m: Machine, context: ContextV) -> Value:
    """Enters the block: its value is the handle."""
    match context.value:
        case TupleV((work, StreamV(stream))):
            m.coalescing = stream
            return work
        case _:
            return NONE


def has_coalesced(m: Machine, context: ContextV, span: Span) -> None:
    """Leaves the block: all that was called in it is queued, and the handle stands for that."""
    m.coalescing = None
    match context.value:
        case TupleV((EventV(work), StreamV(stream))):
            m.emit(Record(m.site(span), m.lane, stream=stream, event=work))
            if context.joins:
                current = m.current_stream(Lib.TORCH).id
                m.emit(Wait(m.site(span), m.lane, stream=current, event=work, name="leaving the block"))
        case _:
            pass


def _is_aside(call: Call, effect: fx.Communicates) -> bool:
    if call.m.coalescing is not None and _stream_of_group(call, effect).id == call.m.coalescing:
        return True
    if effect.flag is None:
        return effect.handle
    return copies.is_true(call.m, call.value(effect.flag), call.span, effect.flag)


def deferred(call: Call, func: str) -> Value:
    """``dist.P2POp(dist.isend, x, peer)``: the call that ``batch_isend_irecv`` makes."""
    others = {name: value for name, value in call.bound.items() if name != func}
    # isend(tensor, dst) and irecv(tensor, src) call the other rank otherwise.
    in_place = tuple(others[name] for name in ("tensor", "peer") if name in others)
    group = {"group": others["group"]} if "group" in others else {}
    return PartialV(call.value(func), in_place, group)


def all_of(call: Call, calls: str) -> Value:
    """``dist.batch_isend_irecv(ops)``: NCCL makes one group of them, for which there may be one handle."""
    m = call.m
    ops = elements.listed(m, call.value(calls))
    if ops is None or not all(isinstance(op, PartialV) for op in ops):
        return m.result(call.name(), call.span)
    first = len(m.ops)
    handles = [m.python.call(m, op, [], {}, call.span) for op in ops]
    recorded = {op.event: op.stream for op in m.ops[first:] if isinstance(op, Record)}
    streams = {recorded.get(handle.id) if isinstance(handle, EventV) else None for handle in handles}
    # The last one of a stream is recorded behind all others.
    return m.new_list([handles[-1]] * len(handles) if len(streams) == 1 and None not in streams else handles)


def ordered_by(m: Machine, symbol: Symbol) -> list[StreamV]:
    """The streams that a wait for an unknown value orders, if it comes from ``torch.distributed``; else none.

    ``for work in dist.batch_isend_irecv(ops): work.wait()`` makes the current stream wait for the
    communication, and for no stream that the program makes.
    """
    match symbols.root(symbol):
        case symbols.Name(path) if path.startswith("torch.distributed."):
            pass
        case _:
            return []
    others = [role for key, role in m.roles.items() if symbols.function_called(key) == _COMMUNICATION]
    return [m.current_stream(Lib.TORCH), *(stream for stream in others if isinstance(stream, StreamV))]


_COMMUNICATION = "communication of"
_WORK = "the last collective on"


def _aside(call: Call, effect: fx.Communicates, accesses: list[Access], views: list[BufferV]) -> EventV:
    """``work = all_reduce(x, async_op=True)``: starts after the current stream's work, on another stream."""
    m, span = call.m, call.span
    stream = _stream_of_group(call, effect).id
    after = call.value(effect.after) if effect.after is not None else NONE
    if isinstance(after, EventV):
        m.emit(Wait(m.site(span), m.lane, stream=stream, event=after.id, name=call.name()))
    else:
        _waits(call, waiting=stream, other=m.current_stream(Lib.TORCH).id)
    _host_waits(call, effect, stream)
    is_functional = call.lib is Lib.FUNCTIONAL
    work = m.event_of(call.name(), span, Lib.DISTRIBUTED) if is_functional else _handle(call)
    m.emit(
        Launch(
            m.site(span),
            m.lane,
            stream=stream,
            accesses=tuple(accesses),
            name=call.name(),
            completes=work.id,
        )
    )
    m.emit(Record(m.site(span), m.lane, stream=stream, event=work.id))
    for view in views:
        # The process group holds on to the tensors until the collective is done.
        m.emit(KeepAlive(m.site(span), m.lane, buffer=view.id, stream=stream, name=call.name()))
    return work


def _host_waits(call: Call, effect: fx.Communicates, stream: StreamId) -> None:
    """Where nothing says how much is received, the host waits for what counts it, behind all else queued."""
    m = call.m
    if effect.sized_by and all(call.value(name) in (NONE, ConstV(0)) for name in effect.sized_by):
        site = m.site(call.span)
        m.emit(SyncStream(site, m.lane, stream=stream, name=call.name(), purpose=Purpose.ASIDE))


def written(call: Call) -> Value:
    """``work.get_future().value()``"""
    m, handle = call.m, call.value("self")
    launches = (op for op in reversed(m.ops) if isinstance(op, Launch) and op.completes is not None)
    of_handle = (op for op in launches if isinstance(handle, EventV) and op.completes == handle.id)
    op = next(of_handle, None)
    accesses = op.accesses if op is not None else ()
    return m.new_list(
        BufferV(access.buffer, access.region, m.life.flavors.get(access.buffer, Flavor.TORCH))
        for access in accesses
        if access.mode.writes
    )


def _stream_of_group(call: Call, effect: fx.Communicates | fx.Coalesces) -> StreamV:
    """The stream that a process group makes when it first communicates aside."""
    m, key = call.m, _key(call, effect)
    known = m.roles.get(key)
    if isinstance(known, StreamV):
        return known
    made = m.new_stream(StreamKind.NON_BLOCKING, "the communication stream", call.span, Lib.TORCH)
    m.streams[made.id] = replace(m.streams[made.id], behind_current=True)
    m.roles[key] = made
    return made


def _follow_group(call: Call, effect: fx.Communicates) -> None:
    """Collectives of one group run in turn, also those on the current stream: seen, not documented."""
    known = call.m.roles.get(_key(call, effect))
    if isinstance(known, StreamV):
        current = call.m.current_stream(Lib.TORCH).id
        _waits(call, waiting=current, other=known.id, doubts=_OBSERVED)


def _key(call: Call, effect: fx.Communicates | fx.Coalesces) -> Symbol:
    given = call.value(effect.group) if effect.group is not None else NONE
    group, where = symbol_of(given), symbols.constant(call.m.device)
    return symbols.call(_COMMUNICATION, group, where)


def _waits(call: Call, *, waiting: StreamId, other: StreamId, doubts: frozenset[Doubt] = frozenset()) -> None:
    m, span = call.m, call.span
    event = m.event_of("a collective", span, Lib.TORCH)
    m.emit(Record(m.site(span), m.lane, stream=other, event=event.id))
    m.emit(Wait(m.site(span), m.lane, doubts, stream=waiting, event=event.id, name=call.name()))
