"""The CUDA runtime through cuda-python: ``cuda.bindings.runtime`` and the older ``cuda.cudart``.

Every call returns a tuple that starts with the error. Streams are explicit; 0 and 1 are the legacy
default stream, 2 the per-thread default stream. The rows are those of cuda-bindings 13; where the
parameters of a call were others in 12, the row has both.
"""

from __future__ import annotations

from streamlint.frozen import replace
from streamlint.models.schema import (
    Allocates,
    Api,
    CaptureEnds,
    CaptureStarts,
    Copies,
    Destroys,
    Framework,
    Frees,
    GlobalMemory,
    HostCallback,
    HostWaitsDevice,
    HostWaitsEvent,
    HostWaitsStream,
    InstantiatesGraph,
    LaunchesGraph,
    Lib,
    NewEvent,
    NewStream,
    OpensShared,
    OrdersAll,
    OrdersNothing,
    Pins,
    Queries,
    ReadsTimes,
    Records,
    Returns,
    SelectsDevice,
    Shares,
    StreamWaitsEvent,
    Struct,
    Unpins,
    Uses,
)
from streamlint.models.table import status_call
from streamlint.trace import Doubt, Space, StreamKind

_URL = "https://docs.nvidia.com/cuda/cuda-runtime-api/stream-sync-behavior.html"
_LEGACY = None
"""As a stream parameter of an effect: the call has none and runs on the legacy default stream."""


def _copy(name: str, params: str, count: str | None = None, dst: str = "dst", src: str = "src") -> list[Api]:
    """A copy and its asynchronous form, which has a stream after the same parameters."""
    return _both(name, params, Copies(dst, src, "stream", count))


def _both(name: str, params: str, effect: Copies) -> list[Api]:
    return [
        status_call(name, params, replace(effect, stream=_LEGACY, blocking=True)),
        status_call(f"{name}Async", f"{params} stream", effect),
    ]


def _set(name: str, params: str) -> list[Api]:
    written = (params.split(maxsplit=1)[0],)
    return [
        status_call(name, params, Uses(writes=written, stream=_LEGACY, host_waits=True)),
        status_call(f"{name}Async", f"{params} stream", Uses(writes=written, stream="stream")),
    ]


_SIGNAL = OrdersAll(Doubt.SIGNAL)
_CALLBACK = HostCallback("stream", "callback", "userData", deprecated=True)
_PREFETCH = "devPtr count location flags stream"
_DISCARDED = Uses(writes=("dptrs",), stream="stream")
_DISCARD = "dptrs sizes count prefetchLocs prefetchLocIdxs numPrefetchLocs flags stream"
_QUEUED = Allocates(Space.DEVICE, "hStream", size="size", queued=True)
_ROWS = Copies("dst", "src", pitches=("dpitch", "spitch"))
_3D = ("p.dstPtr/dstArray", "p.srcPtr/srcArray")

CUDA_RUNTIME = Framework(
    lib=Lib.RUNTIME,
    url=_URL,
    modules=("cuda.bindings.runtime", "cuda.cudart", "cuda.bindings.cyruntime"),
    homes=("cuda.bindings.runtime", "cuda.cudart"),
    functions=(
        # Streams and events.
        status_call("cudaStreamCreate", "", NewStream(StreamKind.BLOCKING)),
        status_call("cudaStreamCreateWithFlags", "flags", NewStream(StreamKind.BLOCKING, "flags")),
        status_call(
            "cudaStreamCreateWithPriority", "flags priority", NewStream(StreamKind.BLOCKING, "flags")
        ),
        status_call("cudaStreamDestroy", "stream", Destroys("stream")),
        status_call("cudaStreamSynchronize", "stream", HostWaitsStream("stream")),
        status_call("cudaStreamQuery", "stream", Queries("stream", status=True)),
        status_call("cudaStreamWaitEvent", "stream event flags", StreamWaitsEvent("event", "stream")),
        status_call("cudaStreamAddCallback", "stream callback userData flags", _CALLBACK),
        status_call("cudaLaunchHostFunc", "stream fn userData", HostCallback("stream", "fn", "userData")),
        status_call("cudaStreamBeginCapture", "stream mode", CaptureStarts("stream")),
        status_call(
            "cudaStreamBeginCaptureToGraph",
            "stream graph dependencies dependencyData numDependencies mode",
            CaptureStarts("stream", graph="graph"),
        ),
        status_call("cudaStreamEndCapture", "stream", CaptureEnds("stream")),
        status_call("cudaGraphInstantiate", "graph flags", InstantiatesGraph("graph")),
        status_call("cudaGraphInstantiateWithFlags", "graph flags", InstantiatesGraph("graph")),
        status_call("cudaGraphInstantiateWithParams", "graph instantiateParams", InstantiatesGraph("graph")),
        status_call("cudaGraphLaunch", "graphExec stream", LaunchesGraph("graphExec")),
        status_call("cudaGraphUpload", "graphExec stream", OrdersNothing()),
        status_call("cudaEventCreate", "", NewEvent()),
        status_call("cudaEventCreateWithFlags", "flags", NewEvent(untimed="flags")),
        status_call("cudaEventRecord", "event stream", Records("event", "stream")),
        status_call("cudaEventRecordWithFlags", "event stream flags", Records("event", "stream")),
        status_call("cudaEventSynchronize", "event", HostWaitsEvent("event")),
        status_call("cudaEventQuery", "event", Queries("event", status=True)),
        status_call("cudaEventElapsedTime", "start end", ReadsTimes("start", "end")),
        status_call("cudaEventDestroy", "event", Destroys("event")),
        status_call("cudaDeviceSynchronize", "", HostWaitsDevice()),
        status_call("cudaSetDevice", "device", SelectsDevice()),
        # Semaphores that other programs and devices signal.
        status_call(
            "cudaSignalExternalSemaphoresAsync", "extSemArray paramsArray numExtSems stream", _SIGNAL
        ),
        status_call("cudaWaitExternalSemaphoresAsync", "extSemArray paramsArray numExtSems stream", _SIGNAL),
        # Records.
        Api("make_cudaPitchedPtr", "d p xsz ysz", (Returns("d"),)),
        Api("cudaMemcpy3DParms", "", (Struct(),)),
        Api("cudaMemcpy3DPeerParms", "", (Struct(),)),
        # Memory.
        status_call("cudaIpcGetMemHandle", "devPtr", Shares("devPtr")),
        status_call("cudaIpcGetEventHandle", "event", Shares("event")),
        status_call("cudaIpcOpenMemHandle", "handle flags", OpensShared()),
        status_call("cudaMalloc", "size", Allocates(Space.DEVICE, size="size")),
        status_call("cudaMallocPitch", "width height", Allocates(Space.DEVICE), further=1),
        status_call("cudaMalloc3D", "extent", Allocates(Space.DEVICE)),
        status_call("cudaMallocArray", "desc width height flags", Allocates(Space.DEVICE)),
        status_call("cudaMalloc3DArray", "desc extent flags", Allocates(Space.DEVICE)),
        status_call("cudaMallocAsync", "size hStream", _QUEUED),
        status_call("cudaMallocFromPoolAsync", "size memPool stream", replace(_QUEUED, stream="stream")),
        status_call("cudaMallocHost", "size", Allocates(Space.PINNED, size="size")),
        status_call("cudaHostAlloc", "size flags", Allocates(Space.PINNED, size="size")),
        status_call("cudaMallocManaged", "size flags", Allocates(Space.MANAGED, size="size")),
        status_call("cudaHostRegister", "ptr size flags", Pins("ptr")),
        status_call("cudaHostUnregister", "ptr", Unpins("ptr")),
        status_call("cudaHostGetDevicePointer", "pHost flags", Returns("pHost")),
        status_call("cudaLibraryGetGlobal", "library name", GlobalMemory(("library",), "name"), further=1),
        status_call("cudaFree", "devPtr", Frees("devPtr", device_wide=True)),
        status_call("cudaFreeArray", "array", Frees("array", device_wide=True)),
        status_call("cudaFreeHost", "ptr", Frees("ptr", device_wide=True)),
        status_call("cudaFreeAsync", "devPtr hStream", Frees("devPtr", "hStream")),
        # Copies.
        *_copy("cudaMemcpy", "dst src count kind", "count"),
        *_both("cudaMemcpy2D", "dst dpitch src spitch width height kind", _ROWS),
        *_copy("cudaMemcpy2DToArray", "dst wOffset hOffset src spitch width height kind"),
        *_copy("cudaMemcpy2DFromArray", "dst dpitch src wOffset hOffset width height kind"),
        *_copy("cudaMemcpy3D", "p", None, *_3D),
        *_copy("cudaMemcpy3DPeer", "p", None, *_3D),
        *_copy("cudaMemcpyPeer", "dst dstDevice src srcDevice count", "count"),
        status_call(
            "cudaMemcpyBatchAsync",
            "dsts srcs sizes count attrs attrsIdxs numAttrs stream",
            Uses(reads=("srcs",), writes=("dsts",), stream="stream"),
            older=("dsts srcs sizes count attrs attrsIdxs numAttrs failIdx stream",),
        ),
        *_set("cudaMemset", "devPtr value count"),
        *_set("cudaMemset2D", "devPtr pitch value width height"),
        *_set("cudaMemset3D", "pitchedDevPtr value extent"),
        # Managed memory: in order of the stream, without effect on the content, unless it is discarded.
        status_call(
            "cudaMemPrefetchAsync",
            _PREFETCH,
            Uses(stream="stream"),
            older=("devPtr count dstDevice stream",),
        ),
        status_call("cudaMemPrefetchBatchAsync", _DISCARD, Uses(stream="stream")),
        status_call("cudaMemDiscardBatchAsync", "dptrs sizes count flags stream", _DISCARDED),
        status_call("cudaMemDiscardAndPrefetchBatchAsync", _DISCARD, _DISCARDED),
        status_call("cudaStreamAttachMemAsync", "stream devPtr length flags", Uses(stream="stream")),
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
