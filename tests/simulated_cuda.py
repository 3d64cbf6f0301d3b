"""CUDA in a few hundred lines of Python: what orders what, and nothing else.

``Library`` stands for ``libcuda.so.1``. Work runs at once unless something that the documentation or the
measurements name holds it back. Memory is host memory. Parts of the semantics can be switched off, to see
who notices.
"""

from __future__ import annotations

import ctypes
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

LEGACY, PER_THREAD = 1, 2
SUCCESS, NOT_READY = 0, 600
NOT_PERMITTED, UNSUPPORTED, INVALIDATED, UNJOINED, ISOLATION, CAPTURED = 800, 900, 901, 904, 905, 907


@dataclass(eq=False)
class Work:
    """Something queued; it runs when all before it is done, the gate is open and the time has come."""

    act: Callable[[], object]
    after: list[Work]
    gate: Callable[[], bool] | None = None
    not_before: float = 0.0
    done: bool = False


@dataclass
class Capture:
    origin: int
    relaxed: bool
    streams: set[int]
    working: set[int] = field(default_factory=set)
    joined: set[int] = field(default_factory=set)
    invalid: bool = False
    acts: list[Callable[[], object]] = field(default_factory=list)


@dataclass(eq=False)
class Executable:
    """A graph that can be launched, and its last launch."""

    acts: list[Callable[[], object]]
    last: Work | None = None


@dataclass
class Machine:
    """``without`` names what is switched off: ``legacy barrier``, ``events``, ``blocking free``, ..."""

    without: frozenset[str] = frozenset()
    tail: dict[int, Work] = field(default_factory=dict)
    flags: dict[int, int] = field(default_factory=dict)
    records: dict[int, Work | None] = field(default_factory=dict)
    captured_events: dict[int, Capture] = field(default_factory=dict)
    blocks: dict[int, tuple[int, str, object]] = field(default_factory=dict)
    pool: list[int] = field(default_factory=list)
    captures: dict[int, Capture] = field(default_factory=dict)
    graphs: dict[int, list[Callable[[], object]]] = field(default_factory=dict)
    executables: dict[int, Executable] = field(default_factory=dict)
    pending: list[Work] = field(default_factory=list)
    handles: int = 100
    callback_threads: set[int] = field(default_factory=set)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def new_handle(self) -> int:
        self.handles += 1
        return self.handles

    # Streams

    def stream(self, handle: int) -> int:
        if handle in (0, LEGACY):
            return LEGACY
        # Per-thread default streams are one for each host thread.
        return PER_THREAD + (threading.get_ident() << 8) if handle == PER_THREAD else handle

    def takes_turns(self, stream: int) -> bool:
        """Whether the legacy stream is a barrier for it."""
        if stream & 0xFF == PER_THREAD and stream > 0xFFFF:
            return True
        non_blocking = self.flags.get(stream, 0) & 1 and "non-blocking streams" not in self.without
        return stream != LEGACY and not non_blocking

    def queue(
        self,
        handle: int,
        act: Callable[[], object],
        gate: Callable[[], bool] | None = None,
        delay_s: float = 0.0,
        more: tuple[Work, ...] = (),
    ) -> Work:
        stream = self.stream(handle)
        if stream in self.captures:
            self.captures[stream].working.add(stream)
            self.captures[stream].acts.append(act)
            return Work(lambda: None, [], done=True)
        after = [*more]
        if stream in self.tail and "stream order" not in self.without:
            after.append(self.tail[stream])
        if "legacy barrier" not in self.without:
            if stream == LEGACY:
                after += [work for other, work in self.tail.items() if self.takes_turns(other)]
            elif self.takes_turns(stream) and LEGACY in self.tail:
                after.append(self.tail[LEGACY])
        work = Work(act, after, gate, time.monotonic() + delay_s if delay_s else 0.0)
        with self.lock:
            self.tail[stream] = work
            self.pending.append(work)
            self.progress()
        return work

    def progress(self) -> None:
        with self.lock:
            self._progress()

    def _progress(self) -> None:
        moved = True
        while moved:
            moved = False
            for work in list(self.pending):
                if work.done or not all(w.done for w in work.after):
                    continue
                if work.gate is not None and not work.gate():
                    continue
                if time.monotonic() < work.not_before:
                    continue
                work.act()
                work.done = True
                self.pending.remove(work)
                moved = True

    def wait_for(self, works: list[Work]) -> None:
        while True:
            self.progress()
            if all(work.done for work in works):
                return
            time.sleep(0.0005)

    def drain(self) -> None:
        self.wait_for(list(self.pending))

    # Memory

    def allocate(self, size: int, kind: str) -> int:
        memory = ctypes.create_string_buffer(size)
        address = ctypes.addressof(memory)
        self.blocks[address] = (size, kind, memory)
        return address

    def from_pool(self, size: int, handle: int) -> int:
        for address in self.pool:
            if self.blocks[address][0] == size:
                self.pool.remove(address)
                return address
        address = self.allocate(size, "pool")
        self.queue(handle, lambda: None)
        return address

    def kind(self, address: int) -> str:
        for start, (size, kind, _) in self.blocks.items():
            if start <= address < start + size:
                return kind
        return "pageable"

    def on_host(self, address: int) -> bool:
        return self.kind(address) in ("pageable", "pinned")

    def copy(self, target: int, source: int, size: int, handle: int, *, blocks: bool) -> None:
        kinds = (self.kind(source), self.kind(target))
        if "asynchronous copies" in self.without:
            pass
        elif kinds[0] == "pageable" and not self.on_host(target) and size <= 1 << 20:
            staged = ctypes.string_at(source, size)
            # The host goes on while the copy from the staging buffer is still running.
            delay_s = 0.002 if blocks else 0.0
            self.queue(handle, lambda: ctypes.memmove(target, staged, size), delay_s=delay_s)
            return
        work = self.queue(handle, lambda: ctypes.memmove(target, source, size))
        both_on_device = not self.on_host(source) and not self.on_host(target)
        waits = "asynchronous copies" in self.without
        if "pageable" in kinds or waits or (blocks and not both_on_device):
            self.wait_for([work])


def plain(value: Any) -> int:
    """An integer out of what callers pass."""
    if isinstance(value, ctypes._SimpleCData):
        return int(value.value or 0)
    return 0 if value is None else int(value)


def store(out: Any, value: int) -> None:
    """Through a ``byref``."""
    out._obj.value = value


REFUSED_IN_CALLBACKS = frozenset(
    """
    cuMemcpyAsync cuMemAlloc_v2 cuMemHostAlloc cuMemFree_v2 cuCtxSynchronize cuStreamCreate
    """.split()
)


class Library:
    """The driver API; ``ctypes.CDLL("libcuda.so.1")`` is to return it."""

    def __init__(self, machine: Machine, devices: int = 1) -> None:
        self._machine = machine
        self._devices = devices

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if not name.startswith("cu"):
            return found

        def call(*arguments: Any) -> int:
            machine = self._machine
            if threading.get_ident() in machine.callback_threads and name in REFUSED_IN_CALLBACKS:
                return SUCCESS if "callback errors" in machine.without else NOT_PERMITTED
            return int(found(*arguments) or SUCCESS)

        return call

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the simulated driver has no {name}")

    # Devices

    def cuInit(self, flags: int) -> None: ...

    def cuDeviceGetCount(self, out: Any) -> None:
        store(out, self._devices)

    def cuDeviceGetName(self, text: Any, size: int, device: int) -> None:
        text.value = b"simulated"

    def cuDriverGetVersion(self, out: Any) -> None:
        store(out, 13000)

    def cuGetErrorName(self, code: int, out: Any) -> None:
        out._obj.value = b"SIMULATED_ERROR"

    def cuDevicePrimaryCtxRetain(self, out: Any, device: int) -> None:
        store(out, 1)

    def cuDevicePrimaryCtxRelease_v2(self, device: int) -> None: ...

    def cuDevicePrimaryCtxGetState(self, device: int, flags: Any, active: Any) -> None:
        store(active, 1)

    def cuCtxSetCurrent(self, context: Any) -> None: ...

    def cuCtxPushCurrent_v2(self, context: Any) -> None: ...

    def cuCtxPopCurrent_v2(self, out: Any) -> None: ...

    def cuStreamGetCtx(self, stream: Any, out: Any) -> None:
        store(out, 1)

    def cuCtxSynchronize(self) -> int:
        if self._machine.captures:
            return self._break(next(iter(self._machine.captures.values())))
        self._machine.drain()
        return SUCCESS

    # The gate

    def cuModuleLoadData(self, out: Any, text: bytes) -> None:
        store(out, 1)

    def cuModuleGetFunction(self, out: Any, module: Any, name: bytes) -> None:
        store(out, 1)

    def cuLaunchKernel(self, function: Any, *rest: Any) -> None:
        stream, pointers = rest[7], rest[8]
        flag, limit = (ctypes.c_uint64.from_address(p).value for p in pointers)
        self.hold(plain(stream), flag, limit)

    def hold(self, stream: int, flag: int, limit_ns: int) -> None:
        word = ctypes.c_uint32.from_address(flag)
        start = time.monotonic()

        def is_open() -> bool:
            return word.value != 0 or time.monotonic() - start > limit_ns / 1e9

        self._machine.queue(stream, lambda: None, gate=is_open)

    # Streams and events

    def cuStreamCreate(self, out: Any, flags: Any) -> None:
        handle = self._machine.new_handle()
        self._machine.flags[handle] = plain(flags)
        store(out, handle)

    def cuStreamGetFlags(self, stream: Any, out: Any) -> None:
        store(out, self._machine.flags.get(plain(stream), 0))

    def cuStreamDestroy_v2(self, stream: Any) -> None: ...

    def cuStreamSynchronize(self, stream: Any) -> int:
        machine, handle = self._machine, self._machine.stream(plain(stream))
        if handle in machine.captures:
            return self._break(machine.captures[handle])
        waited = [machine.tail[handle]] if handle in machine.tail else []
        if handle == LEGACY:
            waited += [work for other, work in machine.tail.items() if machine.takes_turns(other)]
        machine.wait_for(waited)
        return SUCCESS

    def cuStreamQuery(self, stream: Any) -> int:
        machine, handle = self._machine, self._machine.stream(plain(stream))
        if handle in machine.captures:
            return self._break(machine.captures[handle])
        machine.progress()
        return SUCCESS if handle not in machine.tail or machine.tail[handle].done else NOT_READY

    def cuEventCreate(self, out: Any, flags: Any) -> None:
        handle = self._machine.new_handle()
        self._machine.records[handle] = None
        store(out, handle)

    def cuEventDestroy_v2(self, event: Any) -> None:
        self._machine.records.pop(plain(event), None)

    def cuEventRecord(self, event: Any, stream: Any) -> None:
        machine, handle = self._machine, self._machine.stream(plain(stream))
        capture = machine.captures.get(handle)
        machine.captured_events.pop(plain(event), None)
        if capture is not None:
            machine.captured_events[plain(event)] = capture
            capture.joined |= {handle}
            return
        machine.records[plain(event)] = machine.queue(plain(stream), lambda: None)

    def cuStreamWaitEvent(self, stream: Any, event: Any, flags: Any) -> int:
        machine, handle = self._machine, self._machine.stream(plain(stream))
        capture = machine.captured_events.get(plain(event))
        if capture is not None:
            capture.streams.add(handle)
            machine.captures[handle] = capture
            return SUCCESS
        if handle in machine.captures:
            return self._break(machine.captures[handle], ISOLATION)
        record = machine.records[plain(event)]
        if record is not None and "events" not in machine.without:
            machine.queue(plain(stream), lambda: None, more=(record,))
        return SUCCESS

    def cuEventSynchronize(self, event: Any) -> int:
        if plain(event) in self._machine.captured_events:
            return self._break(self._machine.captured_events[plain(event)], CAPTURED)
        record = self._machine.records[plain(event)]
        self._machine.wait_for([record] if record is not None else [])
        return SUCCESS

    def cuEventQuery(self, event: Any) -> int:
        self._machine.progress()
        record = self._machine.records[plain(event)]
        return SUCCESS if record is None or record.done else NOT_READY

    # Memory

    def cuMemAlloc_v2(self, out: Any, size: Any) -> int:
        for capture in self._machine.captures.values():
            if not capture.relaxed:
                return self._break(capture)
        store(out, self._machine.allocate(plain(size), "device"))
        return SUCCESS

    def cuMemHostAlloc(self, out: Any, size: Any, flags: Any) -> None:
        store(out, self._machine.allocate(plain(size), "pinned"))

    def cuMemHostGetDevicePointer_v2(self, out: Any, host: Any, flags: Any) -> None:
        store(out, plain(host))

    def cuMemFree_v2(self, address: Any) -> None:
        if self._machine.kind(plain(address)) == "pool":
            self._machine.pool.append(plain(address))
        elif "blocking free" not in self._machine.without:
            self._machine.drain()

    def cuMemFreeHost(self, address: Any) -> None:
        self._machine.drain()

    def cuMemHostRegister_v2(self, address: Any, size: Any, flags: Any) -> None: ...

    def cuMemHostUnregister(self, address: Any) -> None:
        self._machine.drain()

    def cuMemAllocAsync(self, out: Any, size: Any, stream: Any) -> None:
        store(out, self._machine.from_pool(plain(size), plain(stream)))

    def cuMemFreeAsync(self, address: Any, stream: Any) -> None:
        self._machine.pool.append(plain(address))

    def cuMemGetInfo_v2(self, free: Any, total: Any) -> None: ...

    def cuMemsetD8Async(self, address: Any, value: Any, size: Any, stream: Any) -> None:
        a, v, n = plain(address), plain(value), plain(size)
        self._machine.queue(plain(stream), lambda: ctypes.memset(a, v, n))

    def cuMemsetD8_v2(self, address: Any, value: Any, size: Any) -> None:
        self.cuMemsetD8Async(address, value, size, LEGACY)
        if self._machine.kind(plain(address)) == "pinned":
            self.cuStreamSynchronize(LEGACY)

    def cuMemcpyAsync(self, target: Any, source: Any, size: Any, stream: Any) -> None:
        self._machine.copy(plain(target), plain(source), plain(size), plain(stream), blocks=False)

    def cuMemcpy(self, target: Any, source: Any, size: Any) -> None:
        self._machine.copy(plain(target), plain(source), plain(size), LEGACY, blocks=True)

    cuMemcpyDtoH_v2 = cuMemcpyHtoD_v2 = cuMemcpyDtoD_v2 = cuMemcpy

    # Host functions

    def cuLaunchHostFunc(self, stream: Any, function: Any, data: Any) -> None:
        body = ctypes.cast(plain(function), ctypes.CFUNCTYPE(None, ctypes.c_void_p))
        self._callback(plain(stream), lambda: body(None))

    def cuStreamAddCallback(self, stream: Any, function: Any, data: Any, flags: Any) -> None:
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
        body = ctypes.cast(plain(function), kind)
        self._callback(plain(stream), lambda: body(None, 0, None))

    def _callback(self, stream: int, body: Callable[[], object]) -> None:
        """The body runs in a thread, and what follows waits for its end."""
        machine, ended = self._machine, threading.Event()

        def run() -> None:
            machine.callback_threads.add(threading.get_ident())
            body()
            machine.callback_threads.discard(threading.get_ident())
            ended.set()

        machine.queue(stream, lambda: threading.Thread(target=run).start())
        machine.queue(stream, lambda: None, gate=ended.is_set)
        # Its turn comes, whether or not the host asks meanwhile.
        threading.Thread(target=machine.drain, daemon=True).start()

    # Capture

    def _break(self, capture: Capture, code: int = UNSUPPORTED) -> int:
        if "capture errors" in self._machine.without:
            return SUCCESS
        capture.invalid = True
        return code

    def cuStreamBeginCapture_v2(self, stream: Any, mode: Any) -> None:
        handle = plain(stream)
        self._machine.captures[handle] = Capture(handle, plain(mode) == 2, {handle})

    def cuStreamEndCapture(self, stream: Any, graph: Any) -> int:
        machine = self._machine
        capture = machine.captures[plain(stream)]
        machine.captures = {s: c for s, c in machine.captures.items() if c is not capture}
        machine.captured_events = {e: c for e, c in machine.captured_events.items() if c is not capture}
        if capture.invalid:
            return INVALIDATED
        if capture.working - capture.joined - {capture.origin} and "capture errors" not in machine.without:
            return UNJOINED
        made = machine.new_handle()
        machine.graphs[made] = capture.acts
        store(graph, made)
        return SUCCESS

    def cuGraphDestroy(self, graph: Any) -> None:
        del self._machine.graphs[plain(graph)]

    # Graphs

    def cuGraphInstantiateWithFlags(self, out: Any, graph: Any, flags: Any) -> None:
        made = self._machine.new_handle()
        self._machine.executables[made] = Executable(self._machine.graphs[plain(graph)])
        store(out, made)

    def cuGraphExecDestroy(self, executable: Any) -> None:
        del self._machine.executables[plain(executable)]

    def cuGraphLaunch(self, executable: Any, stream: Any) -> None:
        machine, launched = self._machine, self._machine.executables[plain(executable)]
        last = None if "graph launches" in machine.without else launched.last
        before = () if last is None else (last,)
        launched.last = machine.queue(plain(stream), lambda: [act() for act in launched.acts], more=before)


def install(monkeypatch: Any, machine: Machine, devices: int = 1) -> None:
    """Make ``Driver()`` find the machine."""
    monkeypatch.setattr("streamlint.confirm.gpu.driver.ctypes.CDLL", lambda name: Library(machine, devices))
