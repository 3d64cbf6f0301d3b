"""How sure the facts are that a problem needs: its memory is memory and lives there, its streams are two.

``certain`` needs both operations to rest on what is shown, ``likely`` on what is shown or inferred; a
problem that rests on an assumption is ``possible``. This is the one place that says so, for all rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.judging.owners import is_argument
from streamlint.rules.base import is_entry, stream_of
from streamlint.trace import (
    CURRENT_DEVICE,
    THREAD_DEVICE,
    Alloc,
    Copy,
    Doubt,
    Evidence,
    Free,
    HostAccess,
    HostEffect,
    Launch,
    Makes,
    Mode,
    Origin,
    Purpose,
    Space,
    StreamChoice,
    SyncDevice,
    SyncStream,
)

if TYPE_CHECKING:
    from streamlint.rules.base import Judged, Problem
    from streamlint.trace import Access, Buffer, BufferId, Op, OpId, Trace

_DOUBTS = {Evidence.SHOWN: frozenset[Doubt](), Evidence.INFERRED: frozenset({Doubt.INFERRED})}


def doubts_of(judged: Judged, problem: Problem) -> frozenset[Doubt]:
    """The doubt that follows from how the facts of a problem are known."""
    return _DOUBTS.get(evidence_of(judged, problem), frozenset({Doubt.ASSUMED}))


def evidence_of(judged: Judged, problem: Problem) -> Evidence:
    """The weakest fact that a problem needs; of several buffers that show it the surest counts."""
    numbers = [problem.later] if problem.earlier is None else [problem.earlier, problem.later]
    ops = [judged.op(number) for number in numbers]
    buffers = memory_of(judged, problem)
    memory = max((_of(judged.trace, ops, buffer) for buffer in buffers), default=Evidence.SHOWN)
    return min(memory, _of_streams(judged, problem, ops), _of_devices(judged.trace, ops))


def is_hearsay(judged: Judged, problem: Problem) -> bool:
    """Whether a problem needs work that an unseen caller may have left, on what only may be its memory.

    ``def show(frames): for frame in frames[0]: ...`` would need a caller that passes pinned memory and does
    not wait, ``transform(x, options)`` one whose options are tensors. These are two assumptions, and
    nothing in the tree says either. What a call gets beside nothing else is what it works on:
    ``transform(batch)``. ``for row in numbers.tolist()`` waits for what its caller has queued, unless the
    numbers are on the host, and the work is not.
    """
    if problem.earlier is None or not is_entry(judged.op(problem.earlier)):
        return False
    if _are_values_awaited(judged, problem.earlier, problem.later):
        return True
    used_on = stream_of(judged.op(problem.later))
    if used_on is not None and judged.trace.streams[used_on].is_default:
        # The stream of a thread, or the default stream by its name: the caller's too, unless it enters one.
        return True
    later = judged.op(problem.later)
    if _comes_from_host(judged, problem, later):
        return True
    if evidence_of(judged, problem) is not Evidence.ASSUMED:
        return False
    if not isinstance(later, Launch):
        return isinstance(later, HostAccess)
    read = {access.buffer for access in later.accesses if access.mode is Mode.READ}
    beside = (judged.trace.buffers[number].kind for number in read.difference(memory_of(judged, problem)))
    return Doubt.OPAQUE in later.doubts and any(kind is not Evidence.ASSUMED for kind in beside)


def _are_values_awaited(judged: Judged, first: OpId, second: OpId) -> bool:
    """Whether the host asks for values between two operations, of memory that may live anywhere.

    On a device it waits for all that was queued on the stream of the first one.
    """
    stream = stream_of(judged.op(first))
    return any(
        isinstance(op, SyncStream)
        and op.stream == stream
        and op.purpose is Purpose.VALUES
        and op.doubts == _ANYWHERE
        for op in map(judged.op, judged.numbers(SyncStream, first=first + 1, before=second))
    )


_ANYWHERE = frozenset({Doubt.ALIAS})


def _comes_from_host(judged: Judged, problem: Problem, later: Op) -> bool:
    """Whether something is brought to a device of which nothing says that it is on one.

    ``batch = next(loader)``, and ``batch.to(device, non_blocking=True)`` on a stream of its own: what is
    there already is not copied. ``slot.copy_(rows, non_blocking=True)`` asks not to wait, which makes a
    difference only between the host and a device. It comes from the host, and was complete when the caller
    had it.
    """
    if problem.buffer is None or not isinstance(later, Copy):
        return False
    source, target = (judged.trace.buffers[access.buffer] for access in (later.src, later.dst))
    if source.id != problem.buffer or target.space.on_host:
        return False
    if later.only_if_elsewhere:
        return source.space is Space.UNKNOWN
    asks = later.host is HostEffect.ASYNC and target.space in (Space.DEVICE, Space.MANAGED)
    return asks and (source.space is Space.UNKNOWN or source.space.on_host)


def memory_of(judged: Judged, problem: Problem) -> list[BufferId]:
    """The memory that a problem is about."""
    numbers = [problem.later] if problem.earlier is None else [problem.earlier, problem.later]
    return [problem.buffer] if problem.buffer is not None else _shared([judged.op(n) for n in numbers])


def _of(trace: Trace, ops: list[Op], buffer: BufferId) -> Evidence:
    """Order between two streams matters wherever memory lives; what the host sees too early does not.

    Nor does what a library does in the background: ``comm.Iallreduce(MPI.IN_PLACE, p.grad)`` works on
    memory of the host as well, which is complete when it is computed.
    """
    buffers = trace.buffers
    known = buffers[buffer]
    if _may_be_uploaded(trace, ops, known) or any(_is_aside(trace, op) for op in ops):
        return min(known.kind, known.residence)
    if not any(isinstance(op, HostAccess) for op in ops) and not (len(ops) == 1 and isinstance(ops[0], Copy)):
        # host.copy_(rows, non_blocking=True) is work of a stream only if the rows are on a device.
        return min([known.kind, *_other_ends(trace, ops)]) if known.space.on_host else known.kind
    # A copy into pinned memory returns early only if its other end is on a device.
    return min(known.kind, known.residence, *_other_ends(trace, ops))


def _other_ends(trace: Trace, ops: list[Op]) -> list[Evidence]:
    """How it is known where both ends of each copy are."""
    copies = [op for op in ops if isinstance(op, Copy)]
    return [trace.buffers[access.buffer].residence for copy in copies for access in copy.accesses]


def _is_aside(trace: Trace, op: Op) -> bool:
    stream = stream_of(op)
    return stream is not None and trace.streams[stream].by_call


def _may_be_uploaded(trace: Trace, ops: list[Op], made: Buffer) -> bool:
    """Whether what is copied to a device may be on the host: there it is complete, and not freed too early.

    Who enters a stream for the copy of something that a device computes has it there.

    ``page = reader.page(i)``, and ``table.copy_(page, non_blocking=True)`` on a stream of its own; ``forces =
    model.eval(x) * 2``, and ``cuda.to_device(forces)`` before the function returns.
    """
    match ops:
        case [Launch(doubts=doubts), Copy() as copy] if Doubt.OPAQUE in doubts:
            is_given = made.origin is Origin.RESULT
        case [Copy() as copy, Free() | Alloc()] if trace.streams[copy.stream].is_default:
            is_given = made.space is Space.UNKNOWN
        case _:
            return False
    return is_given and copy.src.buffer == made.id and not trace.buffers[copy.dst.buffer].space.on_host


def _of_streams(judged: Judged, problem: Problem, ops: list[Op]) -> Evidence:
    """Whether the streams are two, and on which devices they are.

    ``self.lanes[a]`` and ``self.lanes[b]`` may be one lane, and ``torch.cuda.synchronize(self.device)`` may
    wait for the device that another place calls ``cuda:1``. Two streams that the code made are two, whatever
    their devices are.
    """
    trace = judged.trace
    known = {stream: trace.streams[stream] for op in ops if (stream := stream_of(op)) is not None}
    streams = list(known.values())
    if trace.assumed_device and any(
        stream.device not in (CURRENT_DEVICE, THREAD_DEVICE) for stream in streams
    ):
        first = problem.earlier
        waited = first is None or bool(judged.numbers(SyncDevice, first=first, before=problem.later))
        if waited or any(stream.span is None for stream in streams):
            return Evidence.ASSUMED
    containers = {stream.among for stream in streams}
    if len(streams) > 1 and len(containers) == 1 and "" not in containers:
        return Evidence.ASSUMED if any(stream.chosen for stream in streams) else Evidence.SHOWN
    return Evidence.SHOWN


def _of_devices(trace: Trace, ops: list[Op]) -> Evidence:
    """Whether work on the streams of two devices is where the path takes it to be.

    ``page.copy_(x, non_blocking=True)``, and then ``y.copy_(page, non_blocking=True)``, with ``y`` on device
    1: of an ``x`` that only may be on a device, it is not known which that is.
    """
    devices = {trace.streams[stream].device for op in ops if (stream := stream_of(op)) is not None}
    if len(devices) < 2:
        return Evidence.SHOWN
    return min((_of_place(trace.buffers, op) for op in ops), default=Evidence.SHOWN)


def _of_place(buffers: dict[BufferId, Buffer], op: Op) -> Evidence:
    """How it is known on which device an operation works that takes its stream from its operands."""
    if not isinstance(op, (Launch, Copy)) or op.choice is StreamChoice.NAMED:
        return Evidence.SHOWN
    there = [buffers[access.buffer] for access in op.accesses if not buffers[access.buffer].space.on_host]
    shown = any(buffer.residence is Evidence.SHOWN for buffer in there)
    return Evidence.SHOWN if shown or not there else Evidence.ASSUMED


def _shared(ops: list[Op]) -> list[BufferId]:
    """The memory that all of the operations touch; none if one of them touches none."""
    touched = [{access.buffer for access in _accesses(op)} for op in ops]
    return sorted(set.intersection(*touched)) if touched else []


def _accesses(op: Op) -> tuple[Access, ...]:
    match op:
        case Launch() | Copy() | HostAccess():
            return op.accesses
        case Free():
            return ()
        case _:
            return ()


def surely_uses(judged: Judged, problem: Problem, op: Op) -> bool:
    """Whether a call is configured as a kernel, and must write the array of the host that it gets.

    ``filters.blur[blocks, threads](page)``. Of several it may only read one; who overwrites that is wrong
    either way.
    """
    assert problem.earlier is not None
    if not isinstance(op, Launch) or op.choice is StreamChoice.IMPLIED or problem.buffer is None:
        return False
    both = (judged.op(problem.earlier), judged.op(problem.later))
    other = both[both[0] is op]
    overwrites = isinstance(other, HostAccess) and any(
        access.buffer == problem.buffer and access.mode.writes for access in other.accesses
    )
    return overwrites or len({access.buffer for access in op.accesses}) == 1


def fills_fresh(judged: Judged, problem: Problem) -> bool:
    """Whether the earlier op is a kernel, and the first that gets memory: there is nothing in it to be read.

    ``rows = cuda.device_array(n)``, and then ``fill[blocks, threads, stream](rows)`` of another module.
    """
    assert problem.earlier is not None
    op, buffer = judged.op(problem.earlier), problem.buffer
    if buffer is None or not isinstance(op, Launch) or op.choice is StreamChoice.IMPLIED:
        return False
    fresh = judged.trace.buffers[buffer].origin is Origin.ALLOCATED
    return fresh and judged.touching(buffer)[0] == problem.earlier


def _is_used_beside(judged: Judged, problem: Problem, later: Launch) -> bool:
    """Whether the same call also computes with the argument on the current stream, and not only aside.

    ``q = self.q(x)``, and ``with torch.cuda.stream(self.side): k = self.k(x)``: two layers, of which nothing
    is known, get the same tensor.
    """
    assert problem.earlier is not None
    current = stream_of(judged.op(problem.earlier))
    assert problem.buffer is not None
    return any(
        isinstance(op, Launch)
        and op.stream == current
        and op.at.call == later.at.call
        and op.makes is Makes.VALUES
        and any(access.buffer == problem.buffer and access.mode.reads for access in op.accesses)
        for op in map(judged.op, judged.uses(problem.buffer))
    )


def is_device_memory(judged: Judged, problem: Problem) -> bool:
    """Whether an argument is surely on the device: by its making, or because of what is done with it aside.

    A download shows it, and so does computing with a parameter itself. ``batch["x"]`` may be anything, and
    ``x.clone().cuda()`` inside of a stream's block may well begin on the host. A copy to
    ``self.device``, which is the host on some paths, is no download: nothing is on a device then.
    """
    assert problem.buffer is not None
    buffer = judged.trace.buffers[problem.buffer]
    if buffer.space is not Space.UNKNOWN:
        return buffer.space in (Space.DEVICE, Space.MANAGED)
    match judged.op(problem.later):
        case Copy(dst=dst, host=HostEffect.ASYNC, name="copy_"):
            # PyTorch's staging.copy_(x, non_blocking=True). Libraries without a current stream name the
            # stream of each call: their arguments are pending on none that is known.
            return judged.trace.buffers[dst.buffer].space is Space.PINNED
        case Launch() as later:
            known = Doubt.OPAQUE not in problem.doubts or _is_used_beside(judged, problem, later)
            return known and later.makes is Makes.VALUES and is_argument(buffer)
        case _:
            return False
