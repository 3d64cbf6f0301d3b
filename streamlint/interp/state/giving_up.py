"""Memory that is given up without dropping a name: a gradient, a parameter's data, a storage of size 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.state import arguments, lifetime, names, naming, reach, symbols
from streamlint.interp.state.values import BufferV, Flavor, Value, reading
from streamlint.trace import (
    BufferId,
    Copy,
    Doubt,
    EventId,
    Free,
    FreeKind,
    Launch,
    Origin,
    Overlap,
    Record,
    Role,
    StreamId,
    StreamKind,
    SyncStream,
    Wait,
    overlap,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.source import Span

_ALIAS = frozenset({Doubt.ALIAS})
_CALLS = frozenset({Doubt.CALLS})
_RESULT = frozenset({Doubt.RESULT})


def give_up(m: Machine, value: Value | None) -> BufferV | None:
    """An object lets go of memory that code outside has allocated: ``p.grad = None``, ``p.data = other``.

    Whose it was is known only if a stream that uses it waited for the caller's stream before. Then the
    caller's stream allocated it, and gets it back with the last reference.
    """
    if not isinstance(value, BufferV) or value.flavor is Flavor.POINTER:
        return None
    buffer = m.buffers[value.id]
    outside = buffer.origin is Origin.ARGUMENT or value.id in m.life.gradients
    if buffer.alloc_stream is None and outside and not buffer.space.on_host:
        owner = m.default(StreamKind.CURRENT, None)
        if any(_has_waited(m, number, owner.id) for number in _uses_aside(m, value.id, owner.id)):
            _goes_back_to(m, value.id, owner.id)
        elif not _goes_back_to_backward(m, value.id):
            m.life.left[value.id] = len(m.ops)
            return None
    return value


def replaced(m: Machine, old: Value | None, new: Value) -> None:
    """A place that gets the copy on the host of what was there gives that up, whoever passed it.

    ``self.saved[tag] = host`` behind ``host.copy_(self.saved[tag], non_blocking=True)``: an offloader keeps
    what a caller has let go of, which is why there is a copy. Beside it ``self.saved[tag] = None`` tells
    nothing: a caller may hold what the code is through with.
    """
    old = names.settle(m, old) if old is not None else None
    if not isinstance(old, BufferV) or old.region or m.buffers[old.id].alloc_stream is not None:
        return
    argument = m.given.get(old.id)
    passed = arguments.passed(argument) if argument is not None else None
    if argument is None or passed is None or passed.call == m.call:
        return  # what a call was given its caller holds until it is over
    copies = {op.dst.buffer for op in m.ops if isinstance(op, Copy) and op.src.buffer == old.id}
    if reach.reached(m, [new], {number for number in copies if m.buffers[number].space.on_host}):
        m.life.passed_on.add(argument)
        give_up(m, old)


def _goes_back_to(m: Machine, number: BufferId, owner: StreamId) -> None:
    """Autograd goes on allocating when a hook has returned, as a caller does."""
    m.buffers[number] = replace(m.buffers[number], alloc_stream=owner, origin=Origin.ARGUMENT)
    m.life.given_up.add(number)
    m.life.candidates.add(number)


def used_since(m: Machine) -> None:
    """What somebody holds yet that its owner has given up, and has used aside since: see ``give_up``.

    ``grads = [p.grad for p in params]``, ``p.grad = None``, and then work on ``grads`` on another stream.
    """
    now = len(m.ops)
    late = [(number, since) for number, since in m.life.left.items() if since != now]
    if not late:
        return
    owner = m.default(StreamKind.CURRENT, None).id
    for number, since in late:
        m.life.left[number] = now
        if any(_has_waited(m, use, owner) for use in _uses_aside(m, number, owner, since)):
            del m.life.left[number]
            _goes_back_to(m, number, owner)


def _goes_back_to_backward(m: Machine, number: BufferId) -> bool:
    """A gradient that a backward pass of this call has computed goes back to the stream of that pass.

    ``loss.backward()``, ``grads = [p.grad for p in params]``, and ``p.grad = None``: it goes with ``grads``.
    """
    if number not in m.life.gradients:
        return False
    uses = (op for op in m.ops if isinstance(op, Launch) and any(a.buffer == number for a in op.accesses))
    backward = next(uses, None)
    if backward is None or backward.graph is not None or backward.at.call != m.call:
        return False
    m.buffers[number] = replace(m.buffers[number], alloc_stream=backward.stream)
    m.life.candidates.add(number)
    return True


def assign_data(m: Machine, value: BufferV, new: BufferV) -> None:
    """``p.data = other`` of a tensor whose memory is known."""
    move(m, value, new)
    give_up(m, value)


def move(m: Machine, value: BufferV, new: BufferV) -> None:
    """The same where nothing tells who has allocated what the tensor had: ``module.to("cpu")``."""
    _used_between_calls(m, value)
    for tensor in lifetime.move(m, value, new):
        if isinstance(tensor, int) and m.buffers[tensor].origin is Origin.ARGUMENT:
            put_into(m, tensor, m.buffers[tensor].name, new)
            _lend(m, new)
        elif not isinstance(tensor, int):
            _lend(m, new)
            if arguments.passed(tensor) is not None:
                put_into(m, tensor, symbols.text_of(tensor), new)
    m.life.given.add(new.id)


def assign_data_of(m: Machine, tensor: Symbol, new: BufferV) -> None:
    """The same of a tensor of unseen code."""
    m.roles[tensor] = new
    give_up(m, m.roles.pop(symbols.Attr(tensor, "data"), None))
    _lend(m, new)
    if arguments.passed(tensor) is not None:
        put_into(m, tensor, symbols.text_of(tensor), new)
    m.life.given.add(new.id)
    m.life.given_to[tensor] = None


def _lend(m: Machine, new: BufferV) -> None:
    """Who has a tensor has the memory that was put into it, from the call on that did so."""
    if m.buffers[new.id].alloc_stream is not None and not m.buffers[new.id].space.on_host:
        m.life.put_by[new.id] = m.call
        m.buffers[new.id] = replace(m.buffers[new.id], lent=True)


def put_into(m: Machine, tensor: Symbol | BufferId, name: str, new: BufferV) -> None:
    """``p.data = host.to("cuda", non_blocking=True)``: who has ``p`` uses the new memory from now on."""
    if m.buffers[new.id].alloc_stream is None or m.buffers[new.id].space.on_host:
        m.life.put_into.pop(tensor, None)
    else:
        m.life.put_into[tensor] = new
        naming.rename(m, new, f"{name.removesuffix('.data')}.data")


def used_by_owners(m: Machine, current: StreamId) -> None:
    """Who has a tensor uses what was put into it, once the current stream has waited for its maker."""
    for tensor, view in list(m.life.put_into.items()):
        waited = waited_for(m, view.id, current)
        if waited is not None:
            del m.life.put_into[tensor]
            m.life.put_by.pop(view.id, None)
            used = reading(view, _RESULT)
            m.emit(
                Launch(
                    m.site(waited),
                    role=Role.AFTER_CALL,
                    stream=current,
                    accesses=(used,),
                    name="use by its owner",
                )
            )


def _used_between_calls(m: Machine, view: BufferV) -> None:
    """What one method put into a tensor of others, and another one takes away, these have used in between.

    ``load()`` says ``p.data = host.to("cuda", non_blocking=True)`` aside, and ``evict()`` ``p.data = host``:
    the module of ``p`` has computed with it, on the current stream, which may not be done. Who calls
    ``load()`` twice in a row has not.
    """
    put, before = m.life.put_by.get(view.id), m.before_call.get(m.call)
    if put is None or before is None or put == m.call:
        return
    first, now = m.targets.get(put), m.targets.get(m.call)
    if first is None or now is None or first.function is now.function:
        return
    caller = m.ops[before]
    if isinstance(caller, Launch) and caller.stream != m.buffers[view.id].alloc_stream:
        del m.life.put_by[view.id]
        m.pending.setdefault(before, []).append(reading(view, _CALLS))
        m.life.candidates.add(view.id)


def waited_for(m: Machine, number: BufferId, stream: StreamId) -> Span | None:
    """Where a stream, or the host, has waited for the one that made memory, since that was last written."""
    owner = m.buffers[number].alloc_stream
    recorded: set[EventId] = set()
    found: Span | None = None
    for op in m.ops:
        match op:
            case Launch() | Copy() if any(a.buffer == number and a.mode.writes for a in op.accesses):
                recorded.clear()
                found = None
            case Record(stream=source, event=event) if source == owner:
                recorded.add(event)
            case Wait(stream=waiting, event=event) if waiting == stream and event in recorded:
                found = op.at.span
            case SyncStream(stream=source) if source == owner:
                found = op.at.span
            case _:
                pass
    return found


def _uses_aside(m: Machine, number: BufferId, owner: StreamId, since: int = 0) -> Iterator[int]:
    for place, op in enumerate(m.ops[since:], since):
        if not isinstance(op, (Launch, Copy)) or op.stream == owner or op.at.call != m.call:
            continue
        if any(access.buffer == number for access in op.accesses):
            yield place


def _has_waited(m: Machine, use: int, owner: StreamId) -> bool:
    """Whether the stream of a use has waited for its owner in the same call."""
    op = m.ops[use]
    assert isinstance(op, (Launch, Copy))
    records: dict[EventId, StreamId] = {}
    for earlier in m.ops[:use]:
        match earlier:
            case Record(stream=stream, event=event) if earlier.at.call == op.at.call:
                records[event] = stream
            case Wait(stream=op.stream, event=event) if records.get(event) == owner:
                return True
            case _:
                pass
    return False


def drop(m: Machine, view: BufferV, span: Span, name: str) -> None:
    """Memory goes back at once, whoever still names it: ``x.untyped_storage().resize_(0)``."""
    lifetime.catch_up(m)
    _used_between_calls(m, view)
    if give_up(m, view) is None or m.buffers[view.id].alloc_stream is None:
        return
    m.life.candidates.discard(view.id)
    doubts = _CALLS if view.id in m.life.given_up else frozenset[Doubt]()
    if _is_of_others(m, view):
        doubts |= _ALIAS
    m.emit(Free(m.site(span), m.lane, doubts, buffer=view.id, kind=FreeKind.DROPPED, name=name))


def _is_of_others(m: Machine, view: BufferV) -> bool:
    """Whether memory that stands for each of several is used aside for another one than that which goes back.

    ``side`` reads ``pages[a]``, and ``pages[b].untyped_storage().resize_(0)``.
    """
    owner = m.buffers[view.id].alloc_stream
    used = (op for op in m.ops if isinstance(op, (Launch, Copy)) and op.stream != owner)
    accesses = (access for op in used for access in op.accesses if access.buffer == view.id)
    return bool(view.region) and any(overlap(one.region, view.region) is Overlap.NO for one in accesses)
