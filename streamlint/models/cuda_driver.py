"""The CUDA driver through cuda-python: ``cuda.bindings.driver`` and the older ``cuda.cuda``.

Every call returns a tuple that starts with the error. The names of copies say where their ends are.
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
    StreamWaitsEvent,
    Uses,
)
from streamlint.trace import Space, StreamKind

_URL = "https://docs.nvidia.com/cuda/cuda-driver-api/stream-sync-behavior.html"
_LEGACY = None
"""As a stream parameter of an effect: the call has none and runs on the legacy default stream."""


def _call(name: str, params: str, *effects: Effect) -> Api:
    return Api(name, params, effects, status=True)


def _copy(name: str) -> tuple[Api, Api]:
    """A copy and its asynchronous form."""
    return (
        _call(name, "dst src count", Copies("dst", "src", _LEGACY, "count", blocking=True)),
        _call(f"{name}Async", "dst src count stream", Copies("dst", "src", "stream", "count")),
    )


def _set(name: str) -> tuple[Api, Api]:
    return (
        _call(name, "ptr value number", Uses(writes=("ptr",), stream=_LEGACY)),
        _call(f"{name}Async", "ptr value number stream", Uses(writes=("ptr",), stream="stream")),
    )


CUDA_DRIVER = Framework(
    lib=Lib.DRIVER,
    url=_URL,
    modules=("cuda.bindings.driver", "cuda.cuda"),
    functions=(
        _call("cuStreamCreate", "flags", NewStream(StreamKind.BLOCKING, "flags")),
        _call("cuStreamCreateWithPriority", "flags priority", NewStream(StreamKind.BLOCKING, "flags")),
        _call("cuStreamDestroy", "stream", Destroys("stream")),
        _call("cuStreamSynchronize", "stream", HostWaitsStream("stream")),
        _call("cuStreamQuery", "stream", Queries("stream", status=True)),
        _call("cuStreamWaitEvent", "stream event flags", StreamWaitsEvent("event", "stream")),
        _call(
            "cuStreamAddCallback",
            "stream function data flags",
            HostCallback("stream", "function", "data", deprecated=True),
        ),
        _call("cuLaunchHostFunc", "stream function data", HostCallback("stream", "function", "data")),
        _call("cuStreamBeginCapture", "stream mode", CaptureStarts("stream")),
        _call("cuStreamEndCapture", "stream", CaptureEnds("stream")),
        _call("cuGraphInstantiate", "graph flags", InstantiatesGraph("graph")),
        _call("cuGraphInstantiateWithParams", "graph params", InstantiatesGraph("graph")),
        _call("cuGraphLaunch", "graph stream", LaunchesGraph("graph")),
        _call("cuGraphUpload", "graph stream", OrdersNothing()),
        _call("cuEventCreate", "flags", NewEvent(untimed="flags")),
        _call("cuEventRecord", "event stream", Records("event", "stream")),
        _call("cuEventRecordWithFlags", "event stream flags", Records("event", "stream")),
        _call("cuEventSynchronize", "event", HostWaitsEvent("event")),
        _call("cuEventQuery", "event", Queries("event", status=True)),
        _call("cuEventElapsedTime", "start end", ReadsTimes("start", "end")),
        _call("cuEventDestroy", "event", Destroys("event")),
        _call("cuCtxSynchronize", "", HostWaitsDevice()),
        _call("cuMemAlloc", "size", Allocates(Space.DEVICE)),
        _call("cuMemAllocPitch", "width height element", Allocates(Space.DEVICE)),
        _call("cuMemAllocAsync", "size stream", Allocates(Space.DEVICE, "stream")),
        _call("cuMemAllocFromPoolAsync", "size pool stream", Allocates(Space.DEVICE, "stream")),
        _call("cuMemAllocHost", "size", Allocates(Space.PINNED)),
        _call("cuMemHostAlloc", "size flags", Allocates(Space.PINNED)),
        _call("cuMemAllocManaged", "size flags", Allocates(Space.MANAGED)),
        _call("cuMemHostRegister", "ptr size flags", Pins("ptr")),
        _call("cuMemHostGetDevicePointer", "ptr flags", Returns("ptr")),
        _call("cuMemFree", "ptr", Frees("ptr", device_wide=True)),
        _call("cuMemFreeHost", "ptr", Frees("ptr", device_wide=True)),
        _call("cuMemFreeAsync", "ptr stream", Frees("ptr", "stream")),
        *_copy("cuMemcpy"),
        *_copy("cuMemcpyHtoD"),
        *_copy("cuMemcpyDtoH"),
        *_copy("cuMemcpyDtoD"),
        _call(
            "cuMemcpyPeer",
            "dst dst_context src src_context count",
            Copies("dst", "src", _LEGACY, "count", blocking=True),
        ),
        _call(
            "cuMemcpyPeerAsync",
            "dst dst_context src src_context count stream",
            Copies("dst", "src", "stream", "count"),
        ),
        *_set("cuMemsetD8"),
        *_set("cuMemsetD16"),
        *_set("cuMemsetD32"),
        _call(
            "cuLaunchKernel",
            "function grid_x grid_y grid_z block_x block_y block_z shared stream args extra",
            Uses(stream="stream", packed=("args",)),
        ),
    ),
)

SUCCESS = "cuda.bindings.driver.CUresult.CUDA_SUCCESS"
