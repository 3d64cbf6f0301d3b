"""A small program of its own that replays what a finding predicts, to attach to a bug report.

It has the streams, events, copies and waits of the finding's trace, by the user's names. Memsets
and copies stand for kernels. It replays a prediction, so it proves nothing about the user's code.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from streamlint.confirm.reproduce.boilerplate import Names, wrapped
from streamlint.confirm.reproduce.slicing import Harm, Slice, stream_of
from streamlint.trace import (
    Alloc,
    Copy,
    CudaCall,
    DestroyEvent,
    Free,
    FreeKind,
    HostAccess,
    HostEffect,
    Launch,
    Record,
    Space,
    StreamKind,
    SyncEvent,
    SyncStream,
    Wait,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streamlint.finding import Finding
    from streamlint.source import Span
    from streamlint.trace import BufferId, Op, OpId, StreamId

_OLD, _FIRST, _SECOND = 1, 7, 9
"""What the memory holds at first, and what the two operations write."""


def program(finding: Finding, piece: Slice, line: Callable[[Span], str]) -> str:
    """The text of the program.

    ``line`` gives the statement of the user's source that begins at a place.
    """
    return wrapped(_docstring(finding, piece), "\n".join(_Writer(piece, line).lines()))


def _docstring(finding: Finding, piece: Slice) -> str:
    place = f"{finding.primary.path}:{finding.primary.line}"
    path = "".join(f"\n* {condition}" for condition in piece.trace.path)
    lines = [
        f"Synthetic reproducer of a finding of streamlint: {finding.code} in {finding.function}, {place}.",
        "",
        f"{finding.message} ({finding.confidence.value})",
        f"Help: {finding.advice}",
        *([f"\nPath through the program:{path}"] if path else []),
        "",
        "It replays what streamlint predicts: memsets and copies stand for the program's own work. A value",
        "that changes shows that nothing orders the two operations, if the prediction is right. It proves",
        "nothing about the program. Needs an NVIDIA GPU and cuda-python (`pip install cuda-python`).",
    ]
    text = "\n".join(lines).replace("\\", "\\\\").replace('"""', "'''")
    return f'"""{text}\n"""'


class _Writer:
    """Writes the function ``run`` of one slice."""

    def __init__(self, piece: Slice, line: Callable[[Span], str]) -> None:
        self._piece, self._line = piece, line
        names = Names()
        trace = piece.trace
        ops = [piece.op(i) for i in piece.ops]
        self._streams = {s: names.new(trace.streams[s].name) for s in self._used_streams(ops)}
        events = dict.fromkeys(
            op.event
            for op in ops
            if isinstance(op, Record | Wait | SyncEvent | DestroyEvent | CudaCall) and op.event is not None
        )
        self._events = {e: names.new(trace.events[e].name) for e in events}
        self._buffers: dict[BufferId, str] = {}
        for op in ops:
            if isinstance(op, Copy):
                others = (a.buffer for a in (op.src, op.dst))
                for buffer in others:
                    if buffer not in self._buffers:
                        self._buffers[buffer] = names.new(trace.buffers[buffer].name)
        if piece.buffer not in self._buffers:
            self._buffers[piece.buffer] = names.new(trace.buffers[piece.buffer].name)
        self._values = self._choose_values()
        self._pooled = piece.harm in (Harm.FREED_WHILE_READ, Harm.FREED_WHILE_WRITTEN)

    def _used_streams(self, ops: list[Op]) -> list[StreamId]:
        owner = self._piece.trace.buffers[self._piece.buffer].alloc_stream
        found = [stream_of(op) for op in ops]
        if isinstance(self._piece.op(self._piece.later), Alloc | Free):
            found.append(owner)
        return list(dict.fromkeys(s for s in found if s is not None))

    def _choose_values(self) -> dict[OpId, int]:
        """What each write stores: another value for each, so that one can tell who came last."""
        piece = self._piece
        others = [i for i in piece.ops if i not in (piece.earlier, piece.later) and self._writes(i)]
        spare = [v for v in range(2, 256) if v not in (_FIRST, _SECOND)]
        values = {i: spare[n % len(spare)] for n, i in enumerate(others)}
        return values | {piece.earlier: _FIRST, piece.later: _SECOND}

    def _writes(self, number: OpId) -> bool:
        op = self._piece.op(number)
        return isinstance(op, Launch | Copy | HostAccess) and any(
            a.buffer == self._piece.buffer and a.mode.writes for a in op.accesses
        )

    @property
    def _needs_edge(self) -> OpId:
        """Before which operation the missing edge belongs: a free, rather than the next allocation."""
        return next((i for i in self._piece.ops if isinstance(self._piece.op(i), Free)), self._piece.later)

    @property
    def _memory(self) -> str:
        return self._buffers[self._piece.buffer]

    # ------------------------------------------------------------------------- text

    def lines(self) -> Iterator[str]:
        yield "def run(ordered):"
        yield from (f"    {line}" if line else "" for line in self._body())

    def _body(self) -> Iterator[str]:
        for stream, name in self._streams.items():
            yield self._stream(stream, name)
        for name in self._events.values():
            yield f"{name} = check(runtime.cudaEventCreate())"
        yield "edge = check(runtime.cudaEventCreate())"
        for buffer, name in self._buffers.items():
            yield self._buffer(buffer, name)
        yield from self._seen()
        yield "check(runtime.cudaDeviceSynchronize())"
        for before, number in zip((None, *self._piece.ops), self._piece.ops, strict=False):
            yield from self._op(number, before)
        yield ""
        yield "let_go()"
        yield f"return {self._result()}"

    def _stream(self, stream: StreamId, name: str) -> str:
        known = self._piece.trace.streams[stream]
        match known.kind:
            case StreamKind.LEGACY:
                return f"{name} = runtime.cudaStream_t(0)  # the legacy default stream"
            case StreamKind.CURRENT if not self._current_is_another:
                return f"{name} = runtime.cudaStream_t(0)  # {known.kind.value}: the default stream here"
            case StreamKind.PER_THREAD:
                return f"{name} = runtime.cudaStream_t(2)  # {known.kind.value}"
            case StreamKind.BLOCKING:
                return f"{name} = check(runtime.cudaStreamCreate())  # {known.kind.value}"
            case StreamKind.NON_BLOCKING | StreamKind.UNKNOWN | StreamKind.CURRENT:
                make = "runtime.cudaStreamCreateWithFlags(runtime.cudaStreamNonBlocking)"
                return f"{name} = check({make})  # {known.kind.value}"

    @property
    def _current_is_another(self) -> bool:
        """Whether nothing could go wrong if the stream current at entry were the legacy default stream."""
        kinds = {self._piece.trace.streams[s].kind for s in self._streams}
        return not kinds.isdisjoint({StreamKind.LEGACY, StreamKind.BLOCKING, StreamKind.PER_THREAD})

    def _buffer(self, buffer: BufferId, name: str) -> str:
        known = self._piece.trace.buffers[buffer]
        pooled = self._pooled and buffer == self._piece.buffer
        value = self._initial(buffer)
        comment = f"  # {known.space.value} memory"
        if pooled:
            owner = self._owner()
            return f"{name} = filled(check(runtime.cudaMallocAsync(SIZE, {owner})), {value})  # of a pool"
        match known.space:
            case Space.PINNED:
                make = "check(runtime.cudaMallocHost(SIZE))"
            case Space.PAGEABLE:
                make = f"ctypes.create_string_buffer(bytes([{value}]) * SIZE, SIZE)"
                return f"memory_of_{name} = {make}{comment}\n    {name} = ctypes.addressof(memory_of_{name})"
            case Space.MANAGED:
                make = "check(runtime.cudaMallocManaged(SIZE, runtime.cudaMemAttachGlobal))"
            case Space.DEVICE:
                make = "check(runtime.cudaMalloc(SIZE))"
            case _:
                host = self._used_by_host(buffer)
                make = f"check(runtime.{'cudaMallocHost' if host else 'cudaMalloc'}(SIZE))"
                comment = f"  # where it lives is not known: {'pinned' if host else 'device'} memory here"
        return f"{name} = filled({make}, {value}){comment}"

    def _used_by_host(self, buffer: BufferId) -> bool:
        ops = (self._piece.op(i) for i in self._piece.ops)
        return any(isinstance(op, HostAccess) and any(a.buffer == buffer for a in op.accesses) for op in ops)

    def _initial(self, buffer: BufferId) -> int:
        """The source of a copy into the memory holds what the copy writes."""
        if buffer == self._piece.buffer:
            return _OLD
        for number in self._piece.ops:
            op = self._piece.op(number)
            if isinstance(op, Copy) and op.src.buffer == buffer and op.dst.buffer == self._piece.buffer:
                return self._values[number]
        return 0

    def _seen(self) -> Iterator[str]:
        """Memory into which kernels that read copy what they see."""
        reading = any(
            isinstance(op := self._piece.op(i), Launch) and not self._writes(i) and op
            for i in self._piece.ops
        )
        updating = self._piece.harm is Harm.READ_AFTER_WRITE and self._writes(self._piece.later)
        if reading or updating:
            yield "seen = filled(check(runtime.cudaMalloc(SIZE)), 0)  # what a kernel reads is copied to it"

    def _op(self, number: OpId, before: OpId | None) -> Iterator[str]:
        op, piece = self._piece.op(number), self._piece
        if before is None or piece.op(before).at.span != op.at.span:
            yield ""
            yield self._comment(op.at.span)
        if number == self._needs_edge:
            yield from self._edge(op)
        if number != piece.earlier:
            yield from self._calls(number)
            return
        held = self._streams[_required(stream_of(op))]
        yield f"hold({held})  # the earlier operation starts late"
        yield from self._calls(number)
        yield "if ordered:"
        yield f"    check(runtime.cudaEventRecord(edge, {held}))"

    def _comment(self, span: Span) -> str:
        statement = " ".join(self._line(span).split())
        place = f"# {span.path}:{span.line}"
        return f"{place}: {textwrap.shorten(statement, 100, placeholder=' ...')}" if statement else place

    def _edge(self, op: object) -> Iterator[str]:
        """The missing edge, right before the later operation."""
        yield "if ordered:"
        match op:
            case Launch() | Copy() if not self._host_reads(op):
                waiting: str | None = self._streams[op.stream]
            case Alloc() | Free() if not _has_no_stream(op):
                waiting = self._owner()
            case _:
                waiting = None
        if waiting is None:
            yield "    check(runtime.cudaEventSynchronize(edge))"
        else:
            yield f"    check(runtime.cudaStreamWaitEvent({waiting}, edge, 0))"

    def _host_reads(self, op: object) -> bool:
        """Whether the host reads the source before the copy takes its turn on the stream."""
        return (
            isinstance(op, Copy)
            and op.src.buffer == self._piece.buffer
            and self._piece.trace.buffers[op.src.buffer].space.on_host
            and op.host is not HostEffect.ASYNC
        )

    def _calls(self, number: OpId) -> Iterator[str]:
        op = self._piece.op(number)
        match op:
            case Launch() | Copy() | HostAccess():
                yield from self._work(number, op)
            case Record():
                yield f"check(runtime.cudaEventRecord({self._events[op.event]}, {self._streams[op.stream]}))"
            case Wait():
                event, stream = self._events[op.event], self._streams[op.stream]
                yield f"check(runtime.cudaStreamWaitEvent({stream}, {event}, 0))"
            case SyncEvent():
                yield f"check(runtime.cudaEventSynchronize({self._events[op.event]}))"
            case SyncStream():
                yield f"check(runtime.cudaStreamSynchronize({self._streams[op.stream]}))"
            case DestroyEvent():
                yield f"check(runtime.cudaEventDestroy({self._events[op.event]}))"
            case CudaCall():
                yield self._query(op)
            case Free() | Alloc():
                yield from self._lifetime(op)
            case _:
                raise AssertionError(op)  # a slice has no others

    def _query(self, op: CudaCall) -> str:
        if op.event is not None:
            return f"runtime.cudaEventQuery({self._events[op.event]})  # asks, and waits for nothing"
        return (
            f"runtime.cudaStreamQuery({self._streams[_required(op.stream)]})  # asks, and waits for nothing"
        )

    def _work(self, number: OpId, op: Launch | Copy | HostAccess) -> Iterator[str]:
        piece = self._piece
        reads_later = number == piece.later and piece.harm is Harm.READ_AFTER_WRITE
        reads_earlier = number == piece.earlier and piece.harm in (
            Harm.WRITE_AFTER_READ,
            Harm.FREED_WHILE_READ,
        )
        writes = self._writes(number) and not reads_later and not reads_earlier
        match op:
            case HostAccess():
                if writes:
                    yield f"ctypes.memset({self._memory}, {self._values[number]}, SIZE)"
                else:
                    yield f"seen_by_host = byte({self._memory})"
            case Copy() if not self._writes(number) or writes:
                target, source = self._buffers[op.dst.buffer], self._buffers[op.src.buffer]
                yield self._copy(target, source, op.stream)
                if op.host is HostEffect.BLOCKS:
                    yield f"check(runtime.cudaStreamSynchronize({self._streams[op.stream]}))"
            case Launch() | Copy() if writes:
                fill = f"{self._memory}, {self._values[number]}, SIZE, {self._streams[op.stream]}"
                yield f"check(runtime.cudaMemsetAsync({fill}))"
            case Launch() | Copy():
                yield self._copy("seen", self._memory, op.stream)

    def _copy(self, target: str, source: str, stream: StreamId) -> str:
        return f"check(runtime.cudaMemcpyAsync({target}, {source}, SIZE, ANY, {self._streams[stream]}))"

    # ------------------------------------------------------------------------- lifetimes

    def _piece_owner(self) -> StreamId | None:
        later = self._piece.op(self._piece.later)
        stream = stream_of(later) if isinstance(later, Alloc | Free) else None
        return self._piece.trace.buffers[self._piece.buffer].alloc_stream if stream is None else stream

    def _owner(self) -> str:
        """The stream of the pool that the memory goes back to; the default one if that is not known."""
        owner = self._piece_owner()
        return self._streams[owner] if owner is not None else "0"

    def _lifetime(self, op: Alloc | Free) -> Iterator[str]:
        """The free, or the next allocation, which gets the block."""
        owner = self._owner()
        if isinstance(op, Free):
            yield f"address = int({self._memory})"
            plain = _has_no_stream(op)
            call = f"cudaFree({self._memory})" if plain else f"cudaFreeAsync({self._memory}, {owner})"
            yield f"check(runtime.{call})"
            if op is not self._piece.op(self._piece.later):
                return
            yield "# The next allocation gets the block, and is written at once."
            if plain:
                # A plain free has no stream: the block may go to any.
                owner = "another"
                yield "another = check(runtime.cudaStreamCreateWithFlags(runtime.cudaStreamNonBlocking))"
        yield f"following = check(runtime.cudaMallocAsync(SIZE, {owner}))"
        yield "if int(following) != address:"
        yield '    print("the next allocation got another block: nothing can be seen")'
        yield f"check(runtime.cudaMemsetAsync(following, {_SECOND}, SIZE, {owner}))"

    # ------------------------------------------------------------------------- the result

    def _result(self) -> str:
        piece = self._piece
        match piece.harm:
            case Harm.READ_AFTER_WRITE:
                return self._read_by(piece.later)
            case Harm.WRITE_AFTER_READ | Harm.FREED_WHILE_READ:
                return self._read_by(piece.earlier)
            case Harm.WRITE_AFTER_WRITE:
                return f"final({self._memory})"
            case Harm.FREED_WHILE_WRITTEN:
                return "final(following)"

    def _read_by(self, number: OpId) -> str:
        op = self._piece.op(number)
        match op:
            case HostAccess():
                return "seen_by_host"
            case Copy() if not self._writes(number):
                return f"final({self._buffers[op.dst.buffer]})"
            case _:
                return "final(seen)"


def _has_no_stream(op: Alloc | Free) -> bool:
    """A plain ``cudaFree`` takes effect at once; a dropped array goes back to its own stream's pool."""
    return isinstance(op, Free) and op.stream is None and op.kind is FreeKind.EXPLICIT


def _required(stream: StreamId | None) -> StreamId:
    assert stream is not None
    return stream
