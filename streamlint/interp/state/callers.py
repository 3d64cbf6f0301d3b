"""What unseen callers may do before and after the calls that a path is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import models
from streamlint.frozen import replace
from streamlint.interp.state import giving_up, held_by, lifetime, names, reach, symbols
from streamlint.interp.state.values import BufferV, EventV, Flavor, FuncV, HeapV, TupleV, Value, reading
from streamlint.models.schema import Lib
from streamlint.trace import (
    Access,
    Alloc,
    BufferId,
    Copy,
    Doubt,
    Event,
    EventId,
    Evidence,
    Free,
    HostAccess,
    HostEffect,
    Launch,
    Mode,
    Record,
    Role,
    Site,
    Space,
    StreamId,
    StreamKind,
    Wait,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span

_RESULT = frozenset({Doubt.RESULT})
_KEPT = frozenset({Doubt.ARGUMENT, Doubt.CALLS})

REST = "**"
"""The name under which a caller that is not seen passes keywords that nothing is known of."""


def begin(m: Machine, span: Span, call: int = 0) -> None:
    """The op that stands for what the caller may have queued before a call, on its arguments.

    Between the calls the memory that an object holds may have been moved, as ``model.to(device)`` does and
    loading its state: where it lives by default is only assumed then.
    """
    for number in m.by_default:
        m.buffers[number] = replace(m.buffers[number], residence=Evidence.ASSUMED)
    site = Site(span, m.entry, call=call)
    m.before_call[call] = m.emit(
        Launch(site, role=Role.BEFORE_CALL, stream=_current(m), accesses=(), name="before the call")
    )


def _current(m: Machine) -> StreamId:
    """The stream that is current where the unseen caller goes on: what a call has selected stays so.

    ``engine = Engine()``, whose constructor says ``torch.cuda.set_stream(self.stream)``.
    """
    here = m.device, m.lane
    selected = {stream.id for (_, device, lane), stream in m.current.items() if (device, lane) == here}
    if len(selected) == 1:
        return selected.pop()
    if m.project.arrays_of(m.frames[0].env.module) is Lib.WARP:
        # Who calls code of Warp's uses its stream, which is no default stream of CUDA.
        return m.current_stream(Lib.WARP).id
    return m.default(StreamKind.CURRENT, None).id


def end_call(m: Machine, results: Iterable[BufferV], span: Span, *, uses_arguments: bool) -> None:
    """The op that stands for what the caller may do next: it uses the results, mostly on the current stream.

    With ``uses_arguments`` it also reads what the call wrote of the memory that it was given. The op
    is there if the call used another stream, so that something can be unordered, launched a graph, let go of
    memory that is used aside (``def close(self): self.slots.clear()``), or hands out what an earlier call
    wrote aside: ``loader.begin(rows)``, then ``loader.result()``.
    """
    stream = _current(m)
    giving_up.used_by_owners(m, stream)
    work = [op for op in m.ops if isinstance(op, (Launch, Copy))]
    here = [op for op in work if op.at.call == m.call]
    views = list(results)
    _read_by_host(m, views, span, Role.AFTER_CALL)
    if all(op.stream == stream and not (isinstance(op, Launch) and op.graph is not None) for op in here):
        views = _written_aside(m, views, work)
        if not views and not any(isinstance(op, Free) and op.at.call == m.call for op in reversed(m.ops)):
            return
    if uses_arguments:
        # Who hands in a stream knows what is written on it, and the rank that sends only reads.
        aside = [
            op for op in here if _is_made_by_code(m, op.stream) and not models.is_for_some_ranks(op.name)
        ]
        written = [access for op in aside for access in op.accesses if access.mode.writes]
        views += [
            # What an object has of its own, other methods of it use: self.total.add_(x) hands nothing back.
            BufferV(a.buffer, a.region)
            for a in written
            if m.buffers[a.buffer].passed is not None
        ]
    used: dict[StreamId, list[Access]] = {stream: []}
    for view in {(view, view.result_of): view for view in views}.values():
        if not m.space(view).on_host:
            of = _consumer(m, view, stream)
            used.setdefault(of, []).append(reading(view, _RESULT))
    for of, accesses in used.items():
        site = m.site(span)
        m.emit(Launch(site, role=Role.AFTER_CALL, stream=of, accesses=tuple(accesses), name="after the call"))


def _read_by_host(m: Machine, views: Iterable[BufferV], span: Span, role: Role) -> None:
    """The op that stands for what a caller reads of memory of the host that copies are to fill.

    Of tensors only where an event is recorded behind the copy: whoever calls what has none may know another
    way to wait. An array that the call has made of its copy is for code of the host, which knows of no
    stream: ``return logits.to("cpu", non_blocking=True).numpy()``.
    """
    there = [view for view in views if m.space(view).on_host]
    if not there:
        return
    announced: set[StreamId] = set()
    filled: set[BufferId] = set()
    copied: set[BufferId] = set()
    made: set[BufferId] = set()
    for op in reversed(m.ops):
        match op:
            case Record() if _announces(m.events[op.event]):
                announced.add(op.stream)
            case Copy(host=HostEffect.ASYNC):
                if op.stream in announced:
                    filled.add(op.dst.buffer)
                elif op.at.call == m.call:
                    copied.add(op.dst.buffer)
            case Alloc() if op.at.call == m.call:
                made.add(op.buffer)
            case _:
                pass
    own = copied & made
    arrays = [view for view in there if view.id in own and view.flavor is Flavor.ARRAY]
    for view in arrays:
        m.buffers[view.id] = replace(m.buffers[view.id], in_array=True)
    used = dict.fromkeys([*arrays, *(view for view in there if view.id in filled)])
    if used:
        accesses = tuple(reading(view, _RESULT) for view in used)
        name = "yield" if role is Role.AFTER_YIELD else "return"
        m.emit(HostAccess(m.site(span), m.lane, role=role, accesses=accesses, name=name))


def _announces(event: Event) -> bool:
    """Whether it may have been recorded for somebody to wait for."""
    return event.is_named and not event.timing


def _consumer(m: Machine, view: BufferV, current: StreamId) -> StreamId:
    """The stream on which a result is used: the current one, or the only other one that waits for it.

    ``self.stages[k].wait_event(copied)``, and ``return moved``: the stream of stage ``k`` works with it.
    """
    there = m.buffers[view.id].device
    if there != m.device:
        # moved = x.to("cuda:1"): operators work on the current stream of the device of their tensors.
        return m.current_stream(Lib.TORCH, there).id
    if not _made_aside(m, [view]) or giving_up.waited_for(m, view.id, current) is not None:
        return current
    owner = m.buffers[view.id].alloc_stream
    waiting = {op.stream for op in m.ops if isinstance(op, Wait) and op.at.call == m.call}
    others = [
        number
        for number in sorted(waiting - {current, owner})
        if _is_made_by_code(m, number) and giving_up.waited_for(m, view.id, number) is not None
    ]
    return others[0] if len(others) == 1 else current


def _written_aside(m: Machine, views: Iterable[BufferV], work: Iterable[Launch | Copy]) -> list[BufferV]:
    """The memory that streams of the code's own have written in some call."""
    aside = {
        access.buffer
        for op in work
        if _is_made_by_code(m, op.stream)
        for access in op.accesses
        if access.mode.writes
    }
    return [view for view in views if view.id in aside]


def hand_out(m: Machine, value: Value, views: Iterable[BufferV], span: Span | None = None) -> None:
    """A value goes to the unseen caller, who may keep it; what it does not reach may be gone.

    Of what a side stream allocated (``views`` is the memory in the value) a consumer holds one at a time:
    ``for batch in prefetcher`` lets the last batch go when it gets the next one.
    """
    for event in _events_in(m, value):
        m.events[event.id] = replace(m.events[event.id], handed=True)
    lent = _made_aside(m, views)
    if lent:
        m.life.lent = [value]
        m.life.handed_out.update(view.id for view in lent)
    else:
        m.life.outside.append(value)
    if span is not None:
        lifetime.after_statement(m, span)


def lose_events(m: Machine) -> None:
    """What a call from outside has recorded and nothing holds any more when it ends, nobody waits for."""
    recorded = {op.event for op in m.ops if isinstance(op, Record) and op.at.call == m.call}
    own = {number for number in recorded if not m.events[number].implied and not m.events[number].handed}
    held = own & reach.held_events(m) if own else own
    for number in own - held:
        m.events[number] = replace(m.events[number], lost=True)
    begun = {op.event for op in m.ops if isinstance(op, Record) and not op.at.call}
    # return Pending(host, done): by which names code gets at what an object holds, its text shows.
    handed = {number for number in recorded if m.events[number].handed}
    by = held_by.holders(m, held | begun | handed) if held or begun or handed else {}
    for number in held | begun | handed:
        m.events[number] = replace(m.events[number], holders=by.get(number))


def come_again(m: Machine, func: FuncV, number: int) -> None:
    """The caller is done with what it was lent when it calls another method: ``get(i)``, ``evict(i)``."""
    lender = m.targets.get(number - 1)
    if m.life.lent and lender is not None and lender.function is not func.function:
        m.life.lent = []


def _events_in(m: Machine, value: Value, depth: int = 3) -> Iterator[EventV]:
    match names.settle(m, value):
        case EventV() as event:
            yield event
        case TupleV(items) if depth:
            for item in items:
                yield from _events_in(m, item, depth - 1)
        case HeapV(number) if depth:
            held = m.heap[number]
            own = () if held.symbol == symbols.SELF else held.attrs.values()
            for item in (*held.items, *held.named, *own):
                yield from _events_in(m, item, depth - 1)
        case _:
            pass


def consume(m: Machine, views: Iterable[BufferV], span: Span) -> None:
    """The op that stands for what the consumer of a generator does with what a side stream made for it.

    Or filled for it, where the current stream waits for that: ``yield self.page``.
    """
    given = list(views)
    _read_by_host(m, (view for view in given if view.flavor is Flavor.ARRAY), span, Role.AFTER_YIELD)
    filled = _filled_aside(m)
    aside = dict.fromkeys((*_made_aside(m, given), *(view for view in given if view.id in filled)))
    used = tuple(reading(view, _RESULT) for view in aside)
    if used:
        m.emit(
            Launch(
                m.site(span), role=Role.AFTER_YIELD, stream=_current(m), accesses=used, name="after the yield"
            )
        )


def _filled_aside(m: Machine) -> set[BufferId]:
    """What streams have written in this call for which the current one then waits."""
    current, waited = _current(m), set[StreamId]()
    recorded: dict[EventId, StreamId] = {}
    written: dict[StreamId, set[BufferId]] = {}
    for op in m.ops:
        match op:
            case Launch() | Copy() if op.at.call == m.call and op.stream != current:
                places = (access.buffer for access in op.accesses if access.mode.writes)
                written.setdefault(op.stream, set()).update(places)
            case Record():
                recorded[op.event] = op.stream
            case Wait() if op.stream == current and op.event in recorded:
                waited.add(recorded[op.event])
            case _:
                pass
    return {number for stream in waited for number in written.get(stream, ())}


def _made_aside(m: Machine, views: Iterable[BufferV]) -> list[BufferV]:
    """Device memory that belongs to a stream which the code made."""
    return [
        view
        for view in views
        if (owner := m.buffers[view.id].alloc_stream) is not None
        and _is_made_by_code(m, owner)
        and not m.space(view).on_host
    ]


def _is_made_by_code(m: Machine, number: StreamId) -> bool:
    stream = m.streams[number]
    return stream.kind in (StreamKind.NON_BLOCKING, StreamKind.BLOCKING) and stream.span is not None


def close(m: Machine) -> None:
    """Fills in the ops before the calls: every argument that was used may be pending."""
    for number, buffer in _kept(m):
        m.pending.setdefault(number, []).append(Access(buffer, Mode.WRITE, doubts=_KEPT))
    for number, accesses in m.pending.items():
        first = m.ops[number]
        assert isinstance(first, Launch)
        # No stream writes to pageable memory when the host is back.
        pending = (access for access in accesses if m.buffers[access.buffer].space is not Space.PAGEABLE)
        m.ops[number] = replace(first, accesses=tuple(pending))


def _kept(m: Machine) -> Iterator[tuple[int, BufferId]]:
    """What an object was given when it was made, with the calls that read it aside, by their first op.

    Its owner may write it before each of them: ``Average(model.weight)``, then ``update()`` after every step
    of the optimizer. What the object writes itself, as one that uploads into a cache does, is left to it.
    """
    made = m.targets.get(0)
    if made is None or made.cls is None or len(m.before_call) < 2:
        return
    given = {
        access.buffer
        for access in m.pending.get(m.before_call[0], ())
        if (passed := m.buffers[access.buffer].passed) is not None and passed.at_construction
    }
    if not given:
        return
    work = [op for op in m.ops if isinstance(op, (Launch, Copy)) and op.accesses]
    given -= {access.buffer for op in work for access in op.accesses if access.mode.writes}
    current = _current(m)
    seen: set[tuple[int, BufferId]] = set()
    for op in work:
        number = m.before_call.get(op.at.call, 0)
        if op.at.call and op.stream != current and number:
            seen.update((number, access.buffer) for access in op.accesses if access.buffer in given)
    yield from sorted(seen)
