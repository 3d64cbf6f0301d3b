"""A CUDA runtime without a GPU, for the tracer: every call takes effect at once, in host memory.

Only what tells the tracer apart is true to the original: names, arguments, result tuples, handles,
addresses, callback threads and the refusals inside a capture.
"""

from __future__ import annotations

import _thread
import ctypes
import sys
from enum import IntEnum
from itertools import count
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

from streamlint.confirm.observe.cuda_tracer import address_of
from streamlint.confirm.observe.device import Device
from streamlint.trace import Space, StreamKind


class cudaError_t(IntEnum):
    cudaSuccess = 0
    cudaErrorNotReady = 600
    cudaErrorStreamCaptureUnsupported = 900


class cudaMemcpyKind(IntEnum):
    cudaMemcpyHostToDevice = 1
    cudaMemcpyDeviceToHost = 2
    cudaMemcpyDeviceToDevice = 3


class cudaStreamCaptureMode(IntEnum):
    cudaStreamCaptureModeGlobal = 0
    cudaStreamCaptureModeRelaxed = 2


class Handle:
    def __init__(self, value: int) -> None:
        self._value = value

    def __int__(self) -> int:
        return self._value


class Extent(NamedTuple):
    width: int
    height: int
    depth: int


class cudaMemLocationType(IntEnum):
    cudaMemLocationTypeDevice = 1


class cudaMemcpySrcAccessOrder(IntEnum):
    cudaMemcpySrcAccessOrderStream = 1


OK = cudaError_t.cudaSuccess
HOST_FN = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
STREAM_FN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)


class FakeDevice(Device):
    """What the driver would tell about the fake runtime."""

    def __init__(self) -> None:
        self.kinds: dict[int, StreamKind] = {}

    def stream_kind(self, handle: int) -> StreamKind:
        return self.kinds[handle]

    def current(self) -> str:
        return "0"

    def memory(self, address: int) -> tuple[Space, int, int]:
        return Space.PAGEABLE, address, 0


def install(device: FakeDevice) -> None:
    """Put the fake where programs import the runtime from."""
    package, bindings, runtime = ModuleType("cuda"), ModuleType("cuda.bindings"), fake_runtime(device)
    package.__path__, bindings.__path__ = [], []
    package.bindings, bindings.runtime = bindings, runtime  # type: ignore[attr-defined]
    sys.modules.update({"cuda": package, "cuda.bindings": bindings, "cuda.bindings.runtime": runtime})


def fake_runtime(device: FakeDevice) -> ModuleType:  # noqa: C901
    module = ModuleType("cuda.bindings.runtime")
    handles = count(0x1000, 0x10)
    memory: dict[int, Any] = {}

    def stream(flags: int = 0) -> tuple[Any, Handle]:
        handle = next(handles)
        device.kinds[handle] = StreamKind.NON_BLOCKING if flags & 1 else StreamKind.BLOCKING
        return OK, Handle(handle)

    def event(flags: int = 0) -> tuple[Any, Handle]:
        return OK, Handle(next(handles))

    capturing: list[bool] = []

    def begin_capture(_: Any, mode: int) -> tuple[Any]:
        capturing.append(mode == cudaStreamCaptureMode.cudaStreamCaptureModeRelaxed)
        return (OK,)

    def end_capture(_: Any) -> tuple[Any, Handle]:
        capturing.clear()
        return OK, Handle(1)

    def allocate(size: int, *_: Any) -> tuple[Any, int | None]:
        if capturing == [False]:
            return cudaError_t.cudaErrorStreamCaptureUnsupported, None
        block = ctypes.create_string_buffer(size)
        address = ctypes.addressof(block)
        memory[address] = block
        return OK, address

    def free(address: int, *_: Any) -> tuple[Any]:
        memory.pop(address, None)
        return (OK,)

    def nothing(*_: Any) -> tuple[Any]:
        return (OK,)

    def copy(dst: int, src: int, size: int, *_: Any) -> tuple[Any]:
        ctypes.memmove(address_of(dst), address_of(src), size)
        return (OK,)

    def fill(address: int, value: int, size: int, *_: Any) -> tuple[Any]:
        ctypes.memset(address, value, size)
        return (OK,)

    def elsewhere(function: Any, *arguments: Any) -> None:
        done = _thread.allocate_lock()
        done.acquire()

        def run() -> None:
            function(*arguments)
            done.release()

        _thread.start_new_thread(run, ())
        done.acquire()

    def launch(_: Any, function: Any, data: Any) -> tuple[Any]:
        elsewhere(HOST_FN(int(function)), data)
        return (OK,)

    def add_callback(_: Any, function: Any, data: Any, flags: int) -> tuple[Any]:
        elsewhere(STREAM_FN(int(function)), None, 0, data)
        return (OK,)

    for name in ("cudaStreamCreate", "cudaStreamCreateWithFlags"):
        setattr(module, name, stream)
    for name in ("cudaEventCreate", "cudaEventCreateWithFlags"):
        setattr(module, name, event)
    for name in ("cudaMalloc", "cudaMallocHost", "cudaHostAlloc", "cudaMallocAsync", "cudaMallocManaged"):
        setattr(module, name, allocate)
    for name in ("cudaFree", "cudaFreeHost", "cudaFreeAsync"):
        setattr(module, name, free)
    for name in ("cudaMemcpy", "cudaMemcpyAsync"):
        setattr(module, name, copy)
    for name in ("cudaMemset", "cudaMemsetAsync"):
        setattr(module, name, fill)
    for name in ("cudaMemcpyPeerAsync", "cudaMemcpyBatchAsync", "cudaMemcpy2DAsync", "cudaMemcpy3DAsync"):
        setattr(module, name, nothing)
    for name in (
        "cudaMemset2DAsync",
        "cudaMemset3DAsync",
        "cudaMemPrefetchAsync",
        "cudaStreamAttachMemAsync",
    ):
        setattr(module, name, nothing)
    for name in ("cudaMemcpy3DParms", "cudaMemcpyAttributes", "cudaMemLocation"):
        setattr(module, name, type(name, (), {}))
    module.make_cudaPitchedPtr = lambda ptr, *_: SimpleNamespace(ptr=ptr)  # type: ignore[attr-defined]
    module.make_cudaExtent = Extent  # type: ignore[attr-defined]
    for name in (
        *("cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize", "cudaStreamWaitEvent"),
        *("cudaEventRecord", "cudaStreamQuery", "cudaEventQuery", "cudaStreamDestroy", "cudaEventDestroy"),
        *("cudaSetDevice", "cudaGetLastError", "cudaPeekAtLastError"),
        *("cudaGraphLaunch",),
    ):
        setattr(module, name, nothing)
    values = {
        **{"cudaError_t": cudaError_t, "cudaMemcpyKind": cudaMemcpyKind},
        **{
            "cudaMemLocationType": cudaMemLocationType,
            "cudaMemcpySrcAccessOrder": cudaMemcpySrcAccessOrder,
            "cudaMemAttachGlobal": 1,
        },
        **{"cudaStreamCaptureMode": cudaStreamCaptureMode, "cudaMemGetInfo": lambda: (OK, 1, 2)},
        **{
            "cudaStreamBeginCapture": begin_capture,
            "cudaStreamEndCapture": end_capture,
            "cudaLaunchHostFunc": launch,
        },
        **{"cudaGraphInstantiate": lambda *_: (OK, Handle(1)), "cudaStreamAddCallback": add_callback},
        **{"cudaHostFn_t": lambda pointer: pointer, "cudaStreamCallback_t": lambda pointer: pointer},
        **{
            "cudaStreamNonBlocking": 1,
            "cudaStreamDefault": 0,
            "cudaStreamLegacy": 1,
            "cudaStreamPerThread": 2,
        },
        **{"cudaHostAllocDefault": 0, "cudaEventWaitExternal": 1, "cudaEventDisableTiming": 2},
    }
    for name, value in values.items():
        setattr(module, name, value)
    return module
