"""The CUDA runtime through cuda-python: ``cuda.bindings.runtime`` and the older ``cuda.cudart``.

Every call returns a tuple that starts with the error. Streams are explicit; 0 and 1 are the legacy
default stream, 2 the per-thread default stream.
"""

from __future__ import annotations

from streamlint.models.schema import (
    Allocates,
    Api,
    CaptureEnds,
    CaptureStarts,
    Copies,
    Destroys,
    Effect,
    Framework,
    Frees,
    HostCallback,
    HostWaitsDevice,
    HostWaitsEvent,
    HostWaitsStream,
    InstantiatesGraph,
    LaunchesGraph,
    Lib,
    NewEvent,
    NewStream,
    OrdersNothing,
    Pins,
    Queries,
    ReadsTimes,
    Records,
    Returns,
    SelectsDevice,
    StreamWaitsEvent,
    Uses,
)
from streamlint.trace import Space, StreamKind

_URL = "https://docs.nvidia.com/cuda/cuda-runtime-api/stream-sync-behavior.html"
_LEGACY = None
"""As a stream parameter of an effect: the call has none and runs on the legacy default stream."""


def _call(name: str, params: str, *effects: Effect) -> Api:
    return Api(name, params, effects, status=True)


CUDA_RUNTIME = Framework(
    lib=Lib.RUNTIME,
    url=_URL,
    modules=("cuda.bindings.runtime", "cuda.cudart", "cuda.bindings.cyruntime"),
    functions=(
        _call("cudaStreamCreate", "", NewStream(StreamKind.BLOCKING)),
        _call("cudaStreamCreateWithFlags", "flags", NewStream(StreamKind.BLOCKING, "flags")),
        _call("cudaStreamCreateWithPriority", "flags priority", NewStream(StreamKind.BLOCKING, "flags")),
        _call("cudaStreamDestroy", "stream", Destroys("stream")),
        _call("cudaStreamSynchronize", "stream", HostWaitsStream("stream")),
        _call("cudaStreamQuery", "stream", Queries("stream", status=True)),
        _call("cudaStreamWaitEvent", "stream event flags", StreamWaitsEvent("event", "stream")),
        _call(
            "cudaStreamAddCallback",
            "stream function data flags",
            HostCallback("stream", "function", "data", deprecated=True),
        ),
        _call("cudaLaunchHostFunc", "stream function data", HostCallback("stream", "function", "data")),
        _call("cudaStreamBeginCapture", "stream mode", CaptureStarts("stream")),
        _call("cudaStreamEndCapture", "stream", CaptureEnds("stream")),
        _call("cudaGraphInstantiate", "graph flags", InstantiatesGraph("graph")),
        _call("cudaGraphInstantiateWithParams", "graph params", InstantiatesGraph("graph")),
        _call("cudaGraphLaunch", "graph stream", LaunchesGraph("graph")),
        _call("cudaGraphUpload", "graph stream", OrdersNothing()),
        _call("cudaEventCreate", "", NewEvent()),
        _call("cudaEventCreateWithFlags", "flags", NewEvent(untimed="flags")),
        _call("cudaEventRecord", "event stream", Records("event", "stream")),
        _call("cudaEventRecordWithFlags", "event stream flags", Records("event", "stream")),
        _call("cudaEventSynchronize", "event", HostWaitsEvent("event")),
        _call("cudaEventQuery", "event", Queries("event", status=True)),
        _call("cudaEventElapsedTime", "start end", ReadsTimes("start", "end")),
        _call("cudaEventDestroy", "event", Destroys("event")),
        _call("cudaDeviceSynchronize", "", HostWaitsDevice()),
        _call("cudaSetDevice", "device", SelectsDevice()),
        _call("cudaMalloc", "size", Allocates(Space.DEVICE)),
        _call("cudaMallocPitch", "width height", Allocates(Space.DEVICE)),
        _call("cudaMallocAsync", "size stream", Allocates(Space.DEVICE, "stream")),
        _call("cudaMallocFromPoolAsync", "size pool stream", Allocates(Space.DEVICE, "stream")),
        _call("cudaMallocHost", "size", Allocates(Space.PINNED)),
        _call("cudaHostAlloc", "size flags", Allocates(Space.PINNED)),
        _call("cudaMallocManaged", "size flags", Allocates(Space.MANAGED)),
        _call("cudaHostRegister", "ptr size flags", Pins("ptr")),
        _call("cudaHostGetDevicePointer", "ptr flags", Returns("ptr")),
        _call("cudaFree", "ptr", Frees("ptr", device_wide=True)),
        _call("cudaFreeHost", "ptr", Frees("ptr", device_wide=True)),
        _call("cudaFreeAsync", "ptr stream", Frees("ptr", "stream")),
        _call("cudaMemcpy", "dst src count kind", Copies("dst", "src", _LEGACY, "count", blocking=True)),
        _call("cudaMemcpyAsync", "dst src count kind stream", Copies("dst", "src", "stream", "count")),
        _call(
            "cudaMemcpy2D",
            "dst dpitch src spitch width height kind",
            Copies("dst", "src", _LEGACY, blocking=True),
        ),
        _call(
            "cudaMemcpy2DAsync",
            "dst dpitch src spitch width height kind stream",
            Copies("dst", "src", "stream"),
        ),
        _call(
            "cudaMemcpyPeer",
            "dst dst_device src src_device count",
            Copies("dst", "src", _LEGACY, "count", blocking=True),
        ),
        _call(
            "cudaMemcpyPeerAsync",
            "dst dst_device src src_device count stream",
            Copies("dst", "src", "stream", "count"),
        ),
        _call("cudaMemset", "ptr value count", Uses(writes=("ptr",), stream=_LEGACY)),
        _call("cudaMemsetAsync", "ptr value count stream", Uses(writes=("ptr",), stream="stream")),
        _call("cudaMemset2D", "ptr pitch value width height", Uses(writes=("ptr",), stream=_LEGACY)),
        _call(
            "cudaMemset2DAsync", "ptr pitch value width height stream", Uses(writes=("ptr",), stream="stream")
        ),
        _call("cudaMemPrefetchAsync", "ptr count location flags stream", Uses(stream="stream")),
    ),
)

SUCCESS = "cuda.bindings.runtime.cudaError_t.cudaSuccess"
SUCCESS_NAMES = ("cudaSuccess", "CUDA_SUCCESS")
"""How the error that means success ends, in the runtime and in the driver."""
NON_BLOCKING_FLAG = 1
"""``cudaStreamNonBlocking``."""
DISABLE_TIMING_FLAG = 2
"""``cudaEventDisableTiming``."""

LEGACY_HANDLES = frozenset({0, 1})
PER_THREAD_HANDLE = 2

CONSTANTS = {
    "cudaStreamNonBlocking": 1,
    "cudaStreamDefault": 0,
    "cudaStreamLegacy": 1,
    "cudaStreamPerThread": 2,
    "cudaEventDefault": 0,
    "cudaEventBlockingSync": 1,
    "cudaEventDisableTiming": 2,
    "CU_STREAM_NON_BLOCKING": 1,
    "CU_STREAM_DEFAULT": 0,
    "CU_EVENT_DEFAULT": 0,
    "CU_EVENT_BLOCKING_SYNC": 1,
    "CU_EVENT_DISABLE_TIMING": 2,
}
