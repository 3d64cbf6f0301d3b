"""A GPU made of lists: a stream runs what it is given at once, unless it is held back.

``Device`` has the methods of ``streamlint.confirm.gpu.driver.Driver``, and ``fakegpu`` is the library
that the programs under test import. What a held stream was given waits until the host synchronizes.
"""

from __future__ import annotations

import _thread
import ctypes
import os
import signal
import threading
import time
import types
from contextlib import contextmanager
from typing import TYPE_CHECKING

from streamlint.confirm.gpu.driver import DriverError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CALLBACKS = """\
import threading

import fakegpu


def event_bad():
    ready, seen = threading.Event(), []

    def finished():
        ready.wait()
        seen.append(7)

    fakegpu.call_back(finished)
    fakegpu.synchronize()
    ready.set()
    return seen


def event_ok():
    ready, seen = threading.Event(), []

    def finished():
        ready.wait()
        seen.append(7)

    fakegpu.call_back(finished)
    ready.set()
    fakegpu.synchronize()
    return seen


def pool_ok():
    lock, seen = threading.RLock(), []

    def finished():
        lock.acquire()
        seen.append(7)
        lock.release()

    fakegpu.call_back(finished)
    fakegpu.synchronize()
    lock.acquire()
    lock.release()
    return seen


def signal_ok():
    done = threading.Event()
    fakegpu.call_back(lambda: done.set())
    done.wait()
    return 7


def lambda_bad():
    ready = threading.Event()
    fakegpu.call_back(lambda: ready.wait())
    fakegpu.synchronize()
    ready.set()


def hangs_anyway():
    ready = threading.Event()
    fakegpu.call_back(lambda: None)
    ready.wait()
    fakegpu.synchronize()
"""

PROGRAM = """\
import fakegpu


def bad():
    a, b = fakegpu.Stream(), fakegpu.Stream()
    x, y = [0], [0]
    fakegpu.copy(x, [7], stream=a)
    fakegpu.copy(y, x, stream=b)
    fakegpu.synchronize()
    return y[0]


def ok():
    a, b = fakegpu.Stream(), fakegpu.Stream()
    x, y = [0], [0]
    fakegpu.copy(x, [7], stream=a)
    fakegpu.wait(b, a)
    fakegpu.copy(y, x, stream=b)
    fakegpu.synchronize()
    return y[0]


def harmless():
    a, b = fakegpu.Stream(), fakegpu.Stream()
    x, y = [0], [0]
    fakegpu.copy(x, [0], stream=a)
    fakegpu.copy(y, x, stream=b)
    fakegpu.synchronize()
    return y[0]


def one_of_two_joined():
    streams, results = [fakegpu.Stream(), fakegpu.Stream()], [[0], [0]]
    x, y = [0], [0]
    for stream, part in zip(streams, results):
        fakegpu.copy(part, [7], stream=stream)
    reader = fakegpu.Stream()
    fakegpu.wait(reader, streams[0])
    fakegpu.copy(x, results[0], stream=reader)
    fakegpu.copy(y, results[1], stream=reader)
    fakegpu.synchronize()
    return x[0], y[0]


def give(destination, source, stream):
    fakegpu.copy(destination, source, stream=stream)


def hands_its_stream_over():
    a, b = fakegpu.Stream(), fakegpu.Stream()
    x, y = [0], [0]
    give(x, [7], a)
    fakegpu.copy(y, x, stream=b)
    fakegpu.synchronize()
    return y[0]


def on_other_device():
    # As `host.copy_(x)` of an `x` of device 2, while device 1 is current, whose end alone is waited for.
    host = [0]
    fakegpu.copy_there(host, [7])
    fakegpu.synchronize_here()
    seen = host[0]
    fakegpu.synchronize()
    return seen


def waits_before():
    # As `fetch(x).add_(7)`: what is called first waits for the device, and what is queued then is late.
    b, x, y = fakegpu.Stream(), [0], [0]
    fakegpu.write(fakegpu.fetch(x), [7])
    fakegpu.copy(y, x, stream=b)
    fakegpu.synchronize()
    return y[0]


def load(x):
    fakegpu.synchronize()
    fakegpu.write(x, [7])


def waits_inside():
    b, x, y = fakegpu.Stream(), [0], [0]
    load(x)
    fakegpu.copy(y, x, stream=b)
    fakegpu.synchronize()
    return y[0]


def two_libraries():
    # What CuPy writes on its current stream is read by PyTorch on the one that is current there.
    x, y = [0], [0]
    fakegpu.write(x, [7])
    fakegpu.copy(y, x, stream=fakegpu.OF_PYTORCH)
    fakegpu.synchronize()
    return y[0]


def registers():
    stream, x = fakegpu.Stream(), [0]
    fakegpu.register()
    fakegpu.copy(x, [7], stream=stream)
    fakegpu.synchronize()
    return x[0]


def branch():
    stream, x = fakegpu.Stream(), [0]
    if x[0]:
        fakegpu.copy(x, [7], stream=stream)
    fakegpu.synchronize()
    return x[0]


def noisy():
    return fakegpu.count()


def crash():
    fakegpu.crash()


def hang():
    fakegpu.hang()


def fails():
    raise ValueError("as always")


def corrupts():
    fakegpu.corrupt()


def allocates():
    fakegpu.allocate()


def late_error():
    stream, x = fakegpu.Stream(), [0]
    fakegpu.copy(x, [1], stream=stream)
    return 1 // x[0]


def takes(argument):
    return argument
"""


SITECUSTOMIZE = """\
# A user's own: it runs after that of `confirm`, which must pass on to it.
import builtins
import sys

from tests.confirm_support import Device, library

device = Device()
sys.modules["fakegpu"] = library(device, lambda: 0)
watch = getattr(builtins, "__streamlint__", None)
if watch is not None:
    watch._make_driver = lambda: device
"""


OF_PYTORCH = 9
"""A current stream."""


class Device:
    """Streams by handle, each a list of what waits on it."""

    def __init__(self) -> None:
        self.waiting: dict[int, list[Callable[[], None]]] = {}
        self.synchronizations = 0
        self.broken = False
        self.device = 1
        self.called_back: list[threading.Event] = []

    def queue(self, stream: int, work: Callable[[], None]) -> None:
        if self.waiting.get(stream):
            self.waiting[stream].append(work)
        else:
            work()

    def queue_of(self, stream: int) -> int:
        """The default stream of each device has the handle 0."""
        return stream if stream or self.device == 1 else -self.device

    def call_back(self, function: Callable[[], object]) -> None:
        """Call it on a thread that Python does not know, as the driver does."""
        ended = threading.Event()
        self.called_back.append(ended)

        def call() -> None:
            try:
                function()
            finally:
                ended.set()

        _thread.start_new_thread(call, ())

    def drain(self, stream: int) -> None:
        while self.waiting.get(stream):
            work = self.waiting[stream].pop(0)
            work()

    # What the driver offers

    def activate(self) -> None: ...

    def ensure_context(self) -> None: ...

    def knows(self, address: int) -> bool:
        del address
        return False

    def device_count(self) -> int:
        return 1

    def active_devices(self) -> list[int]:
        return [0]

    def trim_pools(self) -> None: ...

    def synchronize(self) -> None:
        self.synchronizations += 1
        if self.broken:
            raise DriverError("cuCtxSynchronize returned CUDA_ERROR_ILLEGAL_ADDRESS (700)")
        for stream in sorted(self.waiting):
            self.drain(stream)
        for ended in self.called_back:
            ended.wait()

    def context_of(self, stream: int) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.device if stream == 0 else 1)

    @contextmanager
    def pushed(self, context: ctypes.c_void_p) -> Iterator[None]:
        before, self.device = self.device, context.value or 0
        yield
        self.device = before

    def elsewhere(self) -> Iterator[int]:
        with self.pushed(ctypes.c_void_p(2)):
            yield 2

    def idle(self, stream: int) -> bool:
        return not self.waiting.get(stream)

    def load(self, ptx: str, name: str) -> ctypes.c_void_p:
        assert name in ptx
        return ctypes.c_void_p(2)

    def launch(self, function: ctypes.c_void_p, stream: int, arguments: tuple[int, ...]) -> None:
        del function, arguments
        self.waiting.setdefault(self.queue_of(stream), []).append(lambda: None)

    def mapped_word(self) -> tuple[ctypes.c_uint32, int]:
        return ctypes.c_uint32(0), 0

    def record(self, stream: int) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.queue_of(stream))

    def done(self, event: ctypes.c_void_p) -> bool:
        return self.idle(event.value or 0)

    def error_text(self, code: int) -> str:
        texts = {800: "operation not permitted", 900: "operation not permitted when stream is capturing"}
        return texts.get(code, "")

    def error_name(self, code: int) -> str:
        return {700: "CUDA_ERROR_ILLEGAL_ADDRESS"}.get(code, "")

    def device_name(self) -> str:
        return "lists"

    def version(self) -> str:
        return "0.0"


class Array:
    """Some numbers that can be referred to weakly, as arrays of the libraries can."""

    dtype = "int"

    def __init__(self, *values: int) -> None:
        self.values = list(values)
        self.shape = (len(values),)
        self.__array_interface__ = {"data": (id(self), False)}

    def __getitem__(self, index: int) -> int:
        return self.values[index]

    def __setitem__(self, index: int, value: int) -> None:
        self.values[index] = value

    def ravel(self) -> Array:
        return self

    def tolist(self) -> list[int]:
        return self.values

    def tobytes(self) -> bytes:
        return repr(self.values).encode()


class cudaError_t(int):  # noqa: N801 as the bindings call it
    name = "cudaErrorStreamCaptureUnsupported"


class CUDARuntimeError(RuntimeError):
    """As that of CuPy."""

    status = 900


def library(device: Device, counter: Callable[[], int]) -> types.ModuleType:  # noqa: C901
    """The module ``fakegpu`` on this device."""
    module = types.ModuleType("fakegpu")

    class Stream:
        made = 0

        def __init__(self) -> None:
            Stream.made += 1
            self.handle = Stream.made

    def copy_there(dst: list[int], src: list[int]) -> None:
        with device.pushed(ctypes.c_void_p(2)):
            copy(dst, src, types.SimpleNamespace(handle=device.queue_of(0)))  # type: ignore[arg-type]

    def fetch(value: list[int]) -> list[int]:
        device.synchronize()
        return value

    def copy(dst: list[int] | Array, src: list[int] | Array, stream: Stream) -> None:
        def work() -> None:
            dst[0] = src[0]

        device.queue(stream.handle, work)

    def wait(waiting: Stream, first: Stream) -> None:
        if not device.idle(first.handle):
            device.waiting.setdefault(waiting.handle, []).append(lambda: device.drain(first.handle))

    def filled(dst: list[int] | Array, src: list[int] | Array) -> list[int] | Array:
        device.queue(0, lambda: dst.__setitem__(0, src[0]))
        return dst

    registered: list[bool] = []

    def register() -> None:
        if registered:
            raise CUDARuntimeError("cudaErrorHostMemoryAlreadyRegistered")
        registered.append(True)

    def raises() -> None:
        raise CUDARuntimeError("cudaErrorStreamCaptureUnsupported")

    def corrupt() -> None:
        device.broken = True

    def allocate() -> None:
        raise MemoryError("CUDA out of memory. Tried to allocate 200.00 GiB")

    def hang() -> None:
        time.sleep(60)

    module.__dict__.update(
        Stream=Stream,
        Array=Array,
        refuse=lambda: (cudaError_t(900),),
        copy=copy,
        wait=wait,
        copy_there=copy_there,
        fetch=fetch,
        write=lambda dst, src: copy(dst, src, types.SimpleNamespace(handle=0)),  # type: ignore[arg-type]
        filled=filled,
        OF_PYTORCH=types.SimpleNamespace(handle=OF_PYTORCH),
        synchronize=device.synchronize,
        synchronize_here=lambda: device.drain(0),
        count=counter,
        call_back=device.call_back,
        crash=lambda: os.kill(os.getpid(), signal.SIGKILL),
        hang=hang,
        raises=raises,
        register=register,
        quiet=lambda: None,
        corrupt=corrupt,
        allocate=allocate,
        waiting=lambda: any(device.waiting.values()),
        pause=lambda _x: time.sleep(0.6) if any(device.waiting.values()) else None,
        look=lambda _x: None,
    )
    return module


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:  # noqa: PTH123
        return stat.read().rpartition(")")[2].split()[0] != "Z"
