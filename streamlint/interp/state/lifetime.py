"""When memory goes back to its allocator: the last reference is dropped by rebinding, ``del`` or return.

Order and lifetime are separate facts. A tensor that a side stream still reads may be dropped by
Python; the caching allocator then hands its block to the next allocation on the stream that
allocated it. So a drop is an op of its own (``Free`` of kind ``DROPPED``), and what the free means
to the streams is for the rules to judge.

Only buffers used on another stream than their own, or captured into a graph, those of a pool of host
memory, and ctypes callbacks that the driver will call are looked for: the others cannot be hurt by a
drop. After a statement, whatever no name, attribute, container, closure or value in flight reaches is
gone. In doubt a buffer is alive: a missed drop costs less than an invented one.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from streamlint.interp.state import at_work, gradients, last_seen, reach
from streamlint.interp.state.budgets import LIMITS
from streamlint.interp.state.values import (
    BufferV,
    CallbackV,
    Flavor,
    TupleV,
    Value,
)
from streamlint.models.cupy import ALLOCATORS
from streamlint.models.schema import Lib
from streamlint.trace import (
    Alloc,
    BufferId,
    Callback,
    Copy,
    Doubt,
    EndCapture,
    Free,
    FreeKind,
    HostAccess,
    HostEffect,
    HostWait,
    Launch,
    Makes,
    Mode,
    MonitorId,
    Origin,
    Site,
    Space,
    StreamId,
    launches_graph,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from collections.abc import Set as AbstractSet

    from streamlint.interp.state.captures import Recording
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.source import Span

USES_LOOKED_AT = 24
"""The last ops before an allocation: what they used may be what it gets."""
_FREED_WHEN_DROPPED = (Flavor.NUMBA_ARRAY, Flavor.PYCUDA_ARRAY, Flavor.WARP_ARRAY, Flavor.GPU_MAT)
"""Arrays that free their memory with their last reference, and in an order: no queued work is too late."""
_ALIAS = frozenset({Doubt.ALIAS})
_UNSEEN = frozenset({Doubt.ESCAPE})
_CALLS = frozenset({Doubt.CALLS})
_PATH = frozenset({Doubt.PATH})


def after_statement(m: Machine, span: Span) -> None:
    """Looks for buffers whose last reference the statement dropped."""
    catch_up(m)
    if m.life.candidates:
        _drop_among(m, m.life.candidates, span)


def before_allocation(m: Machine, stream: StreamId, span: Span) -> None:
    """Looks for memory that its own stream used last, and that an allocation may get from now on.

    ``out = sample(hidden)`` has left a kernel behind that reads its logits: ``torch.empty(n)`` gets their
    block. This matters to another stream that uses the new memory first: only paths with such streams are
    looked at.
    """
    if any(number != stream and not other.is_default for number, other in m.streams.items()):
        _drop_among(m, _used_lately(m, stream), span)


def _used_lately(m: Machine, stream: StreamId) -> set[BufferId]:
    """Memory of a stream's allocator that its last ops used, and that is not known to be gone."""
    found: set[BufferId] = set()
    gone: set[BufferId] = set()
    for op in reversed(m.ops[-USES_LOOKED_AT:]):
        match op:
            case Free(buffer=number):
                gone.add(number)
            case Launch() | Copy() if op.stream == stream:
                found.update(access.buffer for access in op.accesses)
            case _:
                pass
    return {
        number
        for number in found - gone
        if number < m.frame.born and m.buffers[number].alloc_stream == stream and _recycled(m, number)
    }


def after_turn(m: Machine, since: int, elements: Iterable[Value], span: Span) -> None:
    """The same after a turn of a comprehension, of what it made (``since``) and its elements do not hold.

    In ``[ahead.next().sum() for _ in range(6)]`` each batch is gone before the next one is asked for.
    """
    catch_up(m)
    made = {number for number in m.life.candidates if number >= since}
    if made:
        with holding(m, TupleV(tuple(elements))):
            _drop_among(m, made, span)


def _drop_among(m: Machine, wanted: set[BufferId], span: Span) -> None:
    life = m.life
    if not wanted or life.scans >= LIMITS.scans:
        return
    m.steps += 1
    missing = last_seen.not_there(m, wanted)
    if missing or not last_seen.last(m, wanted):
        m.search()  # also where it is spared
    if not missing:
        return
    life.scans += 1
    dropped = reach.unreachable(m, missing)
    last_seen.note(m, missing - dropped)
    for number in sorted(dropped):
        life.candidates.discard(number)
        # A site of its own: asking the machine for one would count a turn of the statement.
        at = Site(span, m.frame.function, "", tuple(m.calls), m.turn(span), m.call)
        teller, lane = life.let_go.pop(number, (None, m.lane))
        if teller is not None and lane != m.lane:
            # output.done.synchronize(); output.tokens = None: the last reference goes when both have let go.
            m.emit(HostWait(at, m.lane, monitor=teller, name="last reference"))
        m.emit(
            Free(
                at,
                m.lane,
                _doubts(m, number),
                buffer=number,
                kind=FreeKind.DROPPED,
                name="last reference",
                known_by_address=number in life.numbers,
            )
        )


def told_as_number(m: Machine, number: BufferId) -> None:
    """``address = (x * 2).data_ptr()``: who uses the address later may find the memory handed out again."""
    buffer = m.buffers[number]
    if _recycled(m, number) and (buffer.pool is not None or buffer.alloc_stream is not None):
        m.life.numbers.add(number)
        m.life.candidates.add(number)


def lets_go(m: Machine, value: Value | None, teller: MonitorId) -> None:
    """A thread assigns something else to what has held a value."""
    catch_up(m)
    if value is not None and m.life.candidates:
        for number in reach.reached(m, [value], m.life.candidates):
            m.life.let_go[number] = teller, m.lane


def taken_by_lane(m: Machine, values: Iterable[Value]) -> list[BufferId]:
    """The memory among values, and in tuples of them, that this thread was the last to take out of one."""
    found: list[BufferId] = []
    for value in values:
        match value:
            case BufferV(number) if m.life.let_go.get(number, (None, None))[1] == m.lane:
                found.append(number)
            case TupleV(items):
                found += taken_by_lane(m, items)
            case _:
                pass
    return found


def waits_for_drop(m: Machine, value: Value) -> bool:
    """Whether memory that a value holds is looked after: it is used aside, and a drop would be noted."""
    catch_up(m)
    return bool(m.life.candidates) and bool(reach.reached(m, [value], m.life.candidates))


def mark(m: Machine) -> tuple[int, int]:
    """Where a path stands, for ``came_back``."""
    return len(m.ops), len(m.buffers)


def came_back(m: Machine, since: tuple[int, int]) -> bool:
    """Whether memory that was there at a mark has gone back to its allocator since."""
    return bool(_gone(m, since))


def _gone(m: Machine, since: tuple[int, int]) -> list[BufferId]:
    ops, buffers = since
    freed = (op for op in m.ops[ops:] if isinstance(op, Free) and op.kind is FreeKind.DROPPED)
    return [op.buffer for op in freed if op.buffer < buffers]


def may_be_given_again(m: Machine, since: tuple[int, int], begin: int) -> bool:
    """Whether what has gone back since a mark may be what the next pass of a loop allocates.

    Its passes have allocated something of that kind since it began: one that only puts things away
    (``state[p][k] = host[p, k]``) gets nothing.
    """
    gone = {m.buffers[number].space.on_host for number in _gone(m, since)}
    return bool(gone) and any(
        isinstance(op, Alloc) and m.buffers[op.buffer].space.on_host in gone for op in m.ops[begin:]
    )


def was_lent(m: Machine, before: AbstractSet[BufferId]) -> bool:
    """Whether other memory than ``before`` went to the caller, who holds one at a time.

    It may have been made in an earlier call: ``batch, self.batch = self.batch, self.fetch(); return batch``.
    """
    return not m.life.handed_out <= before


def is_held_over(m: Machine, born: int, since: tuple[int, int]) -> bool:
    """Whether memory that was made after ``born`` and before a mark, and is used aside, is still there."""
    catch_up(m)
    return any(born <= number < since[1] for number in m.life.candidates)


@contextmanager
def holding(m: Machine, value: Value) -> Iterator[None]:
    """A running statement holds a value without a name: ``for t in [x.cuda() for x in xs]:``."""
    m.life.held.append(value)
    try:
        yield
    finally:
        m.life.held.pop()


def stays(m: Machine) -> None:
    """Passes of an endless loop are left out: its function has not come to its end, and holds what it has.

    ``while True: following = next(it, None); ...; yield slot; if following is None: return`` with work on the
    next slot under way: in the passes that were seen there was always another one.
    """
    m.life.held += m.frame.env.names.values()


def escapes(m: Machine, views: Iterable[BufferV | CallbackV], span: Span) -> None:
    """Unresolved code received the buffers, and may keep them (``queue.put(x)``)."""
    _held_since(m.life.escaped, (view.id for view in views), span)


def computes(m: Machine, function: Symbol, span: Span) -> None:
    """Unresolved code computes with what it was given, while autograd keeps nothing.

    ``self.policy(obs, bias)`` in a capture under ``no_grad``: what a captured step reads, its caller keeps.
    """
    if m.frame.gradless:
        m.life.steps[span] = function
        if m.captures.active:
            m.life.captured_steps.add(function)


def _held_since(held: dict[BufferId, set[Span]], numbers: Iterable[BufferId], span: Span) -> None:
    for number in numbers:
        held.setdefault(number, set()).add(span)


def backward_ran(m: Machine, loss: BufferV) -> None:
    """``loss.backward()``: autograd lets go of what it kept, and so do the modules that it came through.

    ``prediction = self.over(embeddings)``: a module that is not in sight keeps what it is given for its
    backward pass, as the rest of the graph does.
    """
    catch_up(m)
    reached = {loss.id}
    for op in reversed(m.ops):
        if not isinstance(op, Launch) or not any(a.mode.writes and a.buffer in reached for a in op.accesses):
            continue
        for access in op.accesses:
            if access.mode.reads:
                reached.add(access.buffer)
                for held in (m.life.saved, m.life.escaped):
                    held.get(access.buffer, set()).discard(op.at.span)


def is_not_saved(m: Machine, number: BufferId, span: Span) -> None:
    """The operator that was queued in a place keeps something else for its backward pass."""
    catch_up(m)
    m.life.saved.get(number, set()).discard(span)


def move(m: Machine, view: BufferV, new: BufferV) -> list[Symbol | BufferId]:
    """A tensor object, and all that stands for it by now, means other memory; gives the objects meant.

    After ``p.data = page`` it is ``p`` that ``p.data = other`` means, and ``page`` stays what it is.
    """
    objects, tensors = _that_mean(m, view)
    m.life.moved.update(dict.fromkeys(objects, new))
    m.roles.update(dict.fromkeys(tensors, new))
    if view.id not in m.life.given or not (objects or tensors):
        m.life.moved[view.id] = new
        objects.append(view.id)
    return [*objects, *tensors]


def is_of_a_tensor(m: Machine, view: BufferV) -> bool:
    """Whether some tensor object means just this memory: after ``w.data = page[:n]`` a part of a page."""
    return not view.region or any(_that_mean(m, view))


def _that_mean(m: Machine, view: BufferV) -> tuple[list[BufferId], list[Symbol]]:
    """The objects that were given just this memory: of one page, each has a part of its own."""
    here = (view.id, view.region)
    objects = [number for number, moved in m.life.moved.items() if (moved.id, moved.region) == here]
    return objects, [symbol for symbol in m.life.given_to if m.roles.get(symbol) == view]


# ----------------------------------------------------------------------------- what the ops show


def catch_up(m: Machine) -> None:
    """Notes what the ops since the last look mean for lifetimes."""
    life = m.life
    if life.read == len(m.ops):
        return
    for number, op in enumerate(m.ops[life.read :], life.read):
        match op:
            case Launch():
                _note_launch(m, op, number)
            case Copy():
                _note_uses(m, op)
                gradients.note(m, op, number)
                if op.only_if_elsewhere and _may_be_source(m, op):
                    life.same.setdefault(op.dst.buffer, set()).add(op.src.buffer)
            case Free(buffer=gone):
                life.candidates.discard(gone)
            case Alloc(buffer=made):
                life.plain.add(made)
            case HostAccess():
                gradients.note(m, op, number)
            case Callback(code=code) if code is not None:
                life.candidates.add(code)
            case EndCapture(stream=stream) if stream in m.captures.ended:
                _note_captured(m, m.captures.ended[stream])
            case _:
                pass
    life.read = len(m.ops)


def _note_uses(m: Machine, op: Launch | Copy) -> None:
    """Finds the buffers that an op uses on a stream of their device that is not their own."""
    where = m.streams[op.stream].device
    for access in op.accesses:
        buffer = m.buffers[access.buffer]
        if buffer.pool is not None and (not buffer.pool_awaits or op.library not in ("", buffer.pool_awaits)):
            # cupyx.empty_pinned(...): the pool knows of no streams at all. PyTorch's knows its own copies.
            m.life.candidates.add(buffer.id)
        if buffer.alloc_stream is None or buffer.space.on_host or not _recycled(m, buffer.id):
            continue
        # A copy between devices orders the current streams of both (measured), so it is no use aside.
        if buffer.alloc_stream != op.stream and buffer.device == where:
            m.life.candidates.add(buffer.id)


def _note_captured(m: Machine, recording: Recording) -> None:
    """Finds the memory that a graph uses and does not own: it is used again at each launch."""
    for buffer, _, _ in recording.modes:
        known = m.buffers[buffer]
        # What a captured copy reads on the host it reads at each launch: no pool waits for those.
        if known.space.on_host:
            goes_back = known.pool is not None and buffer not in m.life.captured
        else:
            owned = m.life.flavors.get(buffer) in _FREED_WHEN_DROPPED and buffer not in m.life.captured
            goes_back = known.alloc_stream is not None and (owned or _recycled(m, buffer))
        if goes_back:
            m.life.candidates.add(buffer)


def _may_be_source(m: Machine, op: Copy) -> bool:
    """``x.to(device)`` is ``x`` if it is there already; ``non_blocking=True`` tells of a host tensor."""
    return m.buffers[op.src.buffer].space is Space.UNKNOWN and op.host is not HostEffect.ASYNC


def _recycled(m: Machine, number: BufferId) -> bool:
    """Whether the memory goes back to a pool of its stream when the last reference is dropped.

    Only an explicit call frees what an address points to. Numba, PyCUDA and OpenCV give memory back by
    ``cuMemFree`` or ``cudaFree``, which block until the device is idle, and Warp in order of the legacy
    default stream.
    What was allocated during a capture belongs to the graph's own pool (PyTorch). CuPy allocates it where it
    allocates all else, unless the program has chosen another allocator.
    """
    flavor = m.life.flavors.get(number)
    if number in m.life.captured:
        return flavor is Flavor.DEVICE_ARRAY and ALLOCATORS.isdisjoint(at_work.words(m))
    return flavor is not Flavor.POINTER and flavor not in _FREED_WHEN_DROPPED


def _note_launch(m: Machine, op: Launch, number: int) -> None:
    _note_uses(m, op)
    plain = gradients.note(m, op, number)
    life = m.life
    made = [
        a.buffer for a in op.accesses if a.mode is Mode.WRITE and m.buffers[a.buffer].origin is Origin.RESULT
    ]
    operands = [a.buffer for a in op.accesses if a.mode is not Mode.WRITE]
    if Doubt.OPAQUE in op.doubts:
        _held_since(life.escaped, operands, op.at.span)
    elif made and op.makes in (Makes.AS_IT_IS, Makes.CONVERTED):
        for result in made:
            if m.buffers[result].instead_of is not None:
                life.same.setdefault(result, set()).update(operands)
                if op.makes is Makes.CONVERTED:
                    life.converted.add(result)
    elif (
        made
        and op.saves
        # comm.broadcast(x.data_ptr(), x.data_ptr(), ...) of NCCL: autograd sees no work of other libraries.
        and op.library in ("", Lib.TORCH.product)
        and not (plain and gradients.needs_none(m))
        # What a graph launches is no operator: autograd saw it when it was captured.
        and not launches_graph(op)
        and not (m.frames and m.frame.gradless)
    ):
        kept = (number for number in operands if life.flavors.get(number) in gradients.DIFFERENTIABLE)
        _held_since(life.saved, kept, op.at.span)


def _doubts(m: Machine, number: BufferId) -> frozenset[Doubt]:
    life = m.life
    if number in life.moved and number in life.viewed:
        # x.data = other: what x.view(n, -1) gave stays what it was, and may be held.
        return _ALIAS
    if number in life.given_up or number in life.handed_out:
        return _CALLS
    if number in life.grown:
        return doubts_of_growth(m, number)
    if _operand_lives(m, number, life.converted):
        return _ALIAS
    if _operand_lives(m, number):
        return _PATH
    if _may_be_kept(m, number) or (life.saved.get(number) and not gradients.are_off(m)):
        return _UNSEEN
    return frozenset()


def _may_be_kept(m: Machine, number: BufferId) -> bool:
    """Whether unseen code got the memory that may have kept it: a step that was captured has not."""
    steps, captured = m.life.steps, m.life.captured_steps
    return any(steps.get(span) not in captured for span in m.life.escaped.get(number, ()))


def doubts_of_growth(m: Machine, number: BufferId) -> frozenset[Doubt]:
    return _PATH if number in m.life.grown else frozenset()


def _operand_lives(m: Machine, number: BufferId, surely_made: AbstractSet[BufferId] = frozenset()) -> bool:
    """Whether the buffer may be another one that lives on: ``x.half()`` is ``x`` if ``x`` is that already.

    ``surely_made``: results that are taken to be memory of their own.
    """
    others: set[BufferId] = set()
    waiting = [number]
    while waiting:
        here = waiting.pop()
        for other in () if here in surely_made else m.life.same.get(here, ()):
            if other not in others:
                others.add(other)
                waiting.append(other)
    if any(m.buffers[other].origin is Origin.ARGUMENT for other in others):
        return True
    return bool(others - reach.unreachable(m, others))
