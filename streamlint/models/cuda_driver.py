"""The CUDA driver through cuda-python: ``cuda.bindings.driver`` and the older ``cuda.cuda``.

Every call returns a tuple that starts with the error. The names of copies say where their ends are.
A context stands for its device. The rows are those of cuda-bindings 13; where the parameters of a
call were others in 12, the row has both.
"""

from __future__ import annotations

from dataclasses import replace

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
    GlobalMemory,
    HostCallback,
    HostWaitsDevice,
    HostWaitsEvent,
    HostWaitsStream,
    InstantiatesGraph,
    LaunchesGraph,
    Lib,
    Makes,
    NewDevice,
    NewEvent,
    NewStream,
    OrdersAll,
    OrdersNothing,
    Pins,
    Queries,
    ReadsTimes,
    Records,
    RestoresDevice,
    Returns,
    SelectsDevice,
    StreamWaitsEvent,
    Struct,
    Unpins,
    Uses,
)
from streamlint.trace import Doubt, Space, StreamKind

_URL = "https://docs.nvidia.com/cuda/cuda-driver-api/stream-sync-behavior.html"
_LEGACY = None
"""As a stream parameter of an effect: the call has none and runs on the legacy default stream."""


def _call(name: str, params: str, *effects: Effect, further: int = 0, older: tuple[str, ...] = ()) -> Api:
    return Api(name, params, effects, status=True, further=further, older=older)


def _copy(name: str, dst: str, src: str) -> list[Api]:
    """A copy and its asynchronous form."""
    params = f"{dst} {src} ByteCount"
    return [
        _call(name, params, Copies(dst, src, _LEGACY, "ByteCount", blocking=True)),
        _call(f"{name}Async", f"{params} hStream", Copies(dst, src, "hStream", "ByteCount")),
    ]


def _shaped(name: str) -> list[Api]:
    """A copy whose ends stand in a record."""
    ends = ("pCopy.dstDevice/dstHost/dstArray", "pCopy.srcDevice/srcHost/srcArray")
    return [
        _call(name, "pCopy", Copies(*ends, _LEGACY, blocking=True)),
        _call(f"{name}Async", "pCopy hStream", Copies(*ends, "hStream")),
    ]


def _set(name: str, params: str) -> list[Api]:
    queued = Uses(writes=("dstDevice",), stream="hStream", count="N" if name == "cuMemsetD8" else "")
    return [
        _call(name, params, replace(queued, stream=_LEGACY, host_waits=True)),
        _call(f"{name}Async", f"{params} hStream", queued),
    ]


def _launched(stream: str) -> Uses:
    return Uses(stream=stream, packed=("kernelParams",), kernel="f")


_SIGNAL = OrdersAll(Doubt.SIGNAL)
_CALLBACK = HostCallback("hStream", "callback", "userData", deprecated=True)
_GRID = "f gridDimX gridDimY gridDimZ blockDimX blockDimY blockDimZ sharedMemBytes hStream kernelParams"
_PITCHED = "WidthInBytes Height ElementSizeBytes"
_SEMAPHORES = "extSemArray paramsArray numExtSems stream"
_KERNEL = Makes("cuda.bindings.driver.CUfunction()", ("name",))
_NEW_CONTEXT = (SelectsDevice("dev", push=True), NewDevice("dev"))
_DISCARDED = Uses(writes=("dptrs",), stream="hStream")
_DISCARD = "dptrs sizes count prefetchLocs prefetchLocIdxs numPrefetchLocs flags hStream"

CUDA_DRIVER = Framework(
    lib=Lib.DRIVER,
    url=_URL,
    modules=("cuda.bindings.driver", "cuda.cuda"),
    functions=(
        # Devices and contexts.
        _call("cuDeviceGet", "ordinal", NewDevice("ordinal")),
        _call("cuDevicePrimaryCtxRetain", "dev", NewDevice("dev")),
        _call("cuCtxCreate", "ctxCreateParams flags dev", *_NEW_CONTEXT, older=("flags dev",)),
        _call("cuCtxSetCurrent", "ctx", SelectsDevice("ctx")),
        _call("cuCtxPushCurrent", "ctx", SelectsDevice("ctx", push=True)),
        _call("cuCtxPopCurrent", "", RestoresDevice()),
        _call("cuCtxSynchronize", "", HostWaitsDevice()),
        # Streams and events.
        _call("cuStreamCreate", "Flags", NewStream(StreamKind.BLOCKING, "Flags")),
        _call("cuStreamCreateWithPriority", "flags priority", NewStream(StreamKind.BLOCKING, "flags")),
        _call("cuGreenCtxStreamCreate", "greenCtx flags priority", NewStream(StreamKind.NON_BLOCKING)),
        _call("cuStreamDestroy", "hStream", Destroys("hStream")),
        _call("cuStreamSynchronize", "hStream", HostWaitsStream("hStream")),
        _call("cuStreamQuery", "hStream", Queries("hStream", status=True)),
        _call("cuStreamWaitEvent", "hStream hEvent Flags", StreamWaitsEvent("hEvent", "hStream", "Flags")),
        _call("cuStreamAddCallback", "hStream callback userData flags", _CALLBACK),
        _call("cuLaunchHostFunc", "hStream fn userData", HostCallback("hStream", "fn", "userData")),
        _call("cuStreamBeginCapture", "hStream mode", CaptureStarts("hStream")),
        _call("cuStreamEndCapture", "hStream", CaptureEnds("hStream")),
        _call("cuGraphInstantiate", "hGraph flags", InstantiatesGraph("hGraph")),
        _call("cuGraphInstantiateWithParams", "hGraph instantiateParams", InstantiatesGraph("hGraph")),
        _call("cuGraphLaunch", "hGraphExec hStream", LaunchesGraph("hGraphExec", "hStream")),
        _call("cuGraphUpload", "hGraphExec hStream", OrdersNothing()),
        _call("cuEventCreate", "Flags", NewEvent(untimed="Flags")),
        _call("cuEventRecord", "hEvent hStream", Records("hEvent", "hStream")),
        _call("cuEventRecordWithFlags", "hEvent hStream flags", Records("hEvent", "hStream")),
        _call("cuEventSynchronize", "hEvent", HostWaitsEvent("hEvent")),
        _call("cuEventQuery", "hEvent", Queries("hEvent", status=True)),
        _call("cuEventElapsedTime", "hStart hEnd", ReadsTimes("hStart", "hEnd")),
        _call("cuEventDestroy", "hEvent", Destroys("hEvent")),
        # Orders that are not visible as events: values in memory, semaphores, whole contexts.
        _call("cuStreamWriteValue32", "stream addr value flags", _SIGNAL),
        _call("cuStreamWriteValue64", "stream addr value flags", _SIGNAL),
        _call("cuStreamWaitValue32", "stream addr value flags", _SIGNAL),
        _call("cuStreamWaitValue64", "stream addr value flags", _SIGNAL),
        _call("cuStreamBatchMemOp", "stream count paramArray flags", _SIGNAL),
        _call("cuSignalExternalSemaphoresAsync", _SEMAPHORES, _SIGNAL),
        _call("cuWaitExternalSemaphoresAsync", _SEMAPHORES, _SIGNAL),
        _call("cuCtxWaitEvent", "hCtx hEvent", OrdersAll()),
        _call("cuCtxRecordEvent", "hCtx hEvent", OrdersAll()),
        # Records.
        Api("CUDA_MEMCPY2D", "", (Struct(),)),
        Api("CUDA_MEMCPY3D", "", (Struct(),)),
        Api("CUDA_MEMCPY3D_PEER", "", (Struct(),)),
        Api("CUlaunchConfig", "", (Struct(),)),
        # Memory.
        _call("cuMemAlloc", "bytesize", Allocates(Space.DEVICE, size="bytesize")),
        _call("cuMemAllocPitch", _PITCHED, Allocates(Space.DEVICE), further=1),
        _call("cuMemAllocAsync", "bytesize hStream", Allocates(Space.DEVICE, "hStream", size="bytesize")),
        _call(
            "cuMemAllocFromPoolAsync",
            "bytesize pool hStream",
            Allocates(Space.DEVICE, "hStream", size="bytesize"),
        ),
        _call("cuMemAllocHost", "bytesize", Allocates(Space.PINNED, size="bytesize")),
        _call("cuMemHostAlloc", "bytesize Flags", Allocates(Space.PINNED, size="bytesize")),
        _call("cuMemAllocManaged", "bytesize flags", Allocates(Space.MANAGED, size="bytesize")),
        _call("cuMemHostRegister", "p bytesize Flags", Pins("p")),
        _call("cuMemHostUnregister", "p", Unpins("p")),
        _call("cuMemHostGetDevicePointer", "p Flags", Returns("p")),
        _call("cuModuleGetGlobal", "hmod name", GlobalMemory(("hmod",), "name"), further=1),
        _call("cuLibraryGetGlobal", "library name", GlobalMemory(("library",), "name"), further=1),
        _call("cuMemFree", "dptr", Frees("dptr", device_wide=True)),
        _call("cuMemFreeHost", "p", Frees("p", device_wide=True)),
        _call("cuMemFreeAsync", "dptr hStream", Frees("dptr", "hStream")),
        # Copies.
        *_copy("cuMemcpy", "dst", "src"),
        *_copy("cuMemcpyHtoD", "dstDevice", "srcHost"),
        *_copy("cuMemcpyDtoH", "dstHost", "srcDevice"),
        *_copy("cuMemcpyDtoD", "dstDevice", "srcDevice"),
        *_shaped("cuMemcpy2D"),
        *_shaped("cuMemcpy3D"),
        *_shaped("cuMemcpy3DPeer"),
        _call(
            "cuMemcpyPeer",
            "dstDevice dstContext srcDevice srcContext ByteCount",
            Copies("dstDevice", "srcDevice", _LEGACY, "ByteCount", blocking=True),
        ),
        _call(
            "cuMemcpyPeerAsync",
            "dstDevice dstContext srcDevice srcContext ByteCount hStream",
            Copies("dstDevice", "srcDevice", "hStream", "ByteCount"),
        ),
        _call(
            "cuMemcpyBatchAsync",
            "dsts srcs sizes count attrs attrsIdxs numAttrs hStream",
            Uses(reads=("srcs",), writes=("dsts",), stream="hStream"),
            older=("dsts srcs sizes count attrs attrsIdxs numAttrs failIdx hStream",),
        ),
        *_set("cuMemsetD8", "dstDevice uc N"),
        *_set("cuMemsetD16", "dstDevice us N"),
        *_set("cuMemsetD32", "dstDevice ui N"),
        *_set("cuMemsetD2D8", "dstDevice dstPitch uc Width Height"),
        *_set("cuMemsetD2D16", "dstDevice dstPitch us Width Height"),
        *_set("cuMemsetD2D32", "dstDevice dstPitch ui Width Height"),
        # Managed memory: in order of the stream, without effect on the content, unless it is discarded.
        _call(
            "cuMemPrefetchAsync",
            "devPtr count location flags hStream",
            Uses(stream="hStream"),
            older=("devPtr count dstDevice hStream",),
        ),
        _call("cuMemPrefetchBatchAsync", _DISCARD, Uses(stream="hStream")),
        _call("cuMemDiscardBatchAsync", "dptrs sizes count flags hStream", _DISCARDED),
        _call("cuMemDiscardAndPrefetchBatchAsync", _DISCARD, _DISCARDED),
        _call("cuStreamAttachMemAsync", "hStream dptr length flags", Uses(stream="hStream")),
        # Kernels.
        _call("cuModuleGetFunction", "hmod name", _KERNEL),
        _call("cuLibraryGetKernel", "library name", _KERNEL),
        _call("cuLaunchKernel", f"{_GRID} extra", _launched("hStream")),
        _call("cuLaunchCooperativeKernel", _GRID, _launched("hStream")),
        _call("cuLaunchKernelEx", "config f kernelParams extra", _launched("config.hStream")),
    ),
)

SUCCESS = "cuda.bindings.driver.CUresult.CUDA_SUCCESS"
