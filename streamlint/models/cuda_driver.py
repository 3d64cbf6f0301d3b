"""The CUDA driver through cuda-python: ``cuda.bindings.driver`` and the older ``cuda.cuda``.

Every call returns a tuple that starts with the error. The names of copies say where their ends are.
A context stands for its device. The rows are those of cuda-bindings 13; where the parameters of a
call were others in 12, the row has both.
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
    Makes,
    NewDevice,
    NewEvent,
    NewStream,
    OpensShared,
    OrdersAll,
    OrdersNothing,
    Pins,
    Queries,
    ReadsTimes,
    Records,
    RestoresDevice,
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

_URL = "https://docs.nvidia.com/cuda/cuda-driver-api/stream-sync-behavior.html"
_LEGACY = None
"""As a stream parameter of an effect: the call has none and runs on the legacy default stream."""


def _copy(name: str, dst: str, src: str, ends: str = "") -> list[Api]:
    """A copy and its asynchronous form; ``ends`` are its parameters, where offsets stand among them."""
    params = f"{ends or f'{dst} {src}'} ByteCount"
    return [
        status_call(name, params, Copies(dst, src, _LEGACY, "ByteCount", blocking=True)),
        status_call(f"{name}Async", f"{params} hStream", Copies(dst, src, "hStream", "ByteCount")),
    ]


def _shaped(name: str) -> list[Api]:
    """A copy whose ends stand in a record."""
    ends = ("pCopy.dstDevice/dstHost/dstArray", "pCopy.srcDevice/srcHost/srcArray")
    return [
        status_call(name, "pCopy", Copies(*ends, _LEGACY, blocking=True)),
        status_call(f"{name}Async", "pCopy hStream", Copies(*ends, "hStream")),
    ]


def _set(name: str, params: str) -> list[Api]:
    queued = Uses(writes=("dstDevice",), stream="hStream", count="N" if name == "cuMemsetD8" else "")
    return [
        status_call(name, params, replace(queued, stream=_LEGACY, host_waits=True)),
        status_call(f"{name}Async", f"{params} hStream", queued),
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
    homes=("cuda.bindings.driver", "cuda.cuda"),
    functions=(
        # Devices and contexts.
        status_call("cuDeviceGet", "ordinal", NewDevice("ordinal")),
        status_call("cuDevicePrimaryCtxRetain", "dev", NewDevice("dev")),
        status_call("cuCtxCreate", "ctxCreateParams flags dev", *_NEW_CONTEXT, older=("flags dev",)),
        status_call("cuCtxSetCurrent", "ctx", SelectsDevice("ctx")),
        status_call("cuCtxPushCurrent", "ctx", SelectsDevice("ctx", push=True)),
        status_call("cuCtxPopCurrent", "", RestoresDevice()),
        status_call("cuCtxSynchronize", "", HostWaitsDevice()),
        # Streams and events.
        status_call("cuStreamCreate", "Flags", NewStream(StreamKind.BLOCKING, "Flags")),
        status_call("cuStreamCreateWithPriority", "flags priority", NewStream(StreamKind.BLOCKING, "flags")),
        status_call("cuGreenCtxStreamCreate", "greenCtx flags priority", NewStream(StreamKind.NON_BLOCKING)),
        status_call("cuStreamDestroy", "hStream", Destroys("hStream")),
        status_call("cuStreamSynchronize", "hStream", HostWaitsStream("hStream")),
        status_call("cuStreamQuery", "hStream", Queries("hStream", status=True)),
        status_call(
            "cuStreamWaitEvent", "hStream hEvent Flags", StreamWaitsEvent("hEvent", "hStream", "Flags")
        ),
        status_call("cuStreamAddCallback", "hStream callback userData flags", _CALLBACK),
        status_call("cuLaunchHostFunc", "hStream fn userData", HostCallback("hStream", "fn", "userData")),
        status_call("cuStreamBeginCapture", "hStream mode", CaptureStarts("hStream")),
        status_call(
            "cuStreamBeginCaptureToGraph",
            "hStream hGraph dependencies dependencyData numDependencies mode",
            CaptureStarts("hStream", graph="hGraph"),
        ),
        status_call("cuStreamEndCapture", "hStream", CaptureEnds("hStream")),
        status_call("cuGraphInstantiate", "hGraph flags", InstantiatesGraph("hGraph")),
        status_call("cuGraphInstantiateWithParams", "hGraph instantiateParams", InstantiatesGraph("hGraph")),
        status_call("cuGraphLaunch", "hGraphExec hStream", LaunchesGraph("hGraphExec", "hStream")),
        status_call("cuGraphUpload", "hGraphExec hStream", OrdersNothing()),
        status_call("cuEventCreate", "Flags", NewEvent(untimed="Flags")),
        status_call("cuEventRecord", "hEvent hStream", Records("hEvent", "hStream")),
        status_call("cuEventRecordWithFlags", "hEvent hStream flags", Records("hEvent", "hStream")),
        status_call("cuEventSynchronize", "hEvent", HostWaitsEvent("hEvent")),
        status_call("cuEventQuery", "hEvent", Queries("hEvent", status=True)),
        status_call("cuEventElapsedTime", "hStart hEnd", ReadsTimes("hStart", "hEnd")),
        status_call("cuEventDestroy", "hEvent", Destroys("hEvent")),
        # Orders that are not visible as events: values in memory, semaphores, whole contexts.
        status_call("cuStreamWriteValue32", "stream addr value flags", _SIGNAL),
        status_call("cuStreamWriteValue64", "stream addr value flags", _SIGNAL),
        status_call("cuStreamWaitValue32", "stream addr value flags", _SIGNAL),
        status_call("cuStreamWaitValue64", "stream addr value flags", _SIGNAL),
        status_call("cuStreamBatchMemOp", "stream count paramArray flags", _SIGNAL),
        status_call("cuSignalExternalSemaphoresAsync", _SEMAPHORES, _SIGNAL),
        status_call("cuWaitExternalSemaphoresAsync", _SEMAPHORES, _SIGNAL),
        status_call("cuCtxWaitEvent", "hCtx hEvent", OrdersAll()),
        status_call("cuCtxRecordEvent", "hCtx hEvent", OrdersAll()),
        # Records.
        Api("CUDA_MEMCPY2D", "", (Struct(),)),
        Api("CUDA_MEMCPY3D", "", (Struct(),)),
        Api("CUDA_MEMCPY3D_PEER", "", (Struct(),)),
        Api("CUlaunchConfig", "", (Struct(),)),
        # Memory.
        status_call("cuIpcGetMemHandle", "dptr", Shares("dptr")),
        status_call("cuIpcGetEventHandle", "event", Shares("event")),
        status_call("cuIpcOpenMemHandle", "handle Flags", OpensShared()),
        status_call("cuMemAlloc", "bytesize", Allocates(Space.DEVICE, size="bytesize")),
        status_call("cuMemAllocPitch", _PITCHED, Allocates(Space.DEVICE), further=1),
        status_call(
            "cuMemAllocAsync",
            "bytesize hStream",
            Allocates(Space.DEVICE, "hStream", size="bytesize", queued=True),
        ),
        status_call(
            "cuMemAllocFromPoolAsync",
            "bytesize pool hStream",
            Allocates(Space.DEVICE, "hStream", size="bytesize", queued=True),
        ),
        status_call("cuMemAllocHost", "bytesize", Allocates(Space.PINNED, size="bytesize")),
        status_call("cuMemHostAlloc", "bytesize Flags", Allocates(Space.PINNED, size="bytesize")),
        status_call("cuMemAllocManaged", "bytesize flags", Allocates(Space.MANAGED, size="bytesize")),
        status_call("cuMemHostRegister", "p bytesize Flags", Pins("p")),
        status_call("cuMemHostUnregister", "p", Unpins("p")),
        status_call("cuMemHostGetDevicePointer", "p Flags", Returns("p")),
        status_call("cuModuleGetGlobal", "hmod name", GlobalMemory(("hmod",), "name"), further=1),
        status_call("cuLibraryGetGlobal", "library name", GlobalMemory(("library",), "name"), further=1),
        status_call("cuMemFree", "dptr", Frees("dptr", device_wide=True)),
        status_call("cuMemFreeHost", "p", Frees("p", device_wide=True)),
        status_call("cuMemFreeAsync", "dptr hStream", Frees("dptr", "hStream")),
        # Virtual memory: no call of it is in the order of a stream, nor does taking a mapping away wait for
        # the device (PyTorch's allocator: cuMemUnmap does "not appear to synchronize in all cases").
        status_call("cuMemAddressReserve", "size alignment addr flags", Allocates(Space.DEVICE)),
        status_call("cuMemMap", "ptr size offset handle flags", OrdersNothing()),
        status_call("cuMemSetAccess", "ptr size desc count", OrdersNothing()),
        status_call("cuMemUnmap", "ptr size", Frees("ptr")),
        status_call("cuMemAddressFree", "ptr size", OrdersNothing()),
        status_call("cuMemRelease", "handle", OrdersNothing()),
        # Copies.
        *_copy("cuMemcpy", "dst", "src"),
        *_copy("cuMemcpyHtoD", "dstDevice", "srcHost"),
        *_copy("cuMemcpyDtoH", "dstHost", "srcDevice"),
        *_copy("cuMemcpyDtoD", "dstDevice", "srcDevice"),
        # Arrays have no asynchronous copies but those to and from the host.
        status_call("cuArrayCreate", "pAllocateArray", Allocates(Space.DEVICE)),
        status_call("cuArray3DCreate", "pAllocateArray", Allocates(Space.DEVICE)),
        *_copy("cuMemcpyAtoH", "dstHost", "srcArray", "dstHost srcArray srcOffset"),
        *_copy("cuMemcpyHtoA", "dstArray", "srcHost", "dstArray dstOffset srcHost"),
        *_copy("cuMemcpyAtoD", "dstDevice", "srcArray", "dstDevice srcArray srcOffset")[:1],
        *_copy("cuMemcpyDtoA", "dstArray", "srcDevice", "dstArray dstOffset srcDevice")[:1],
        *_shaped("cuMemcpy2D"),
        *_shaped("cuMemcpy3D"),
        *_shaped("cuMemcpy3DPeer"),
        status_call(
            "cuMemcpyPeer",
            "dstDevice dstContext srcDevice srcContext ByteCount",
            Copies("dstDevice", "srcDevice", _LEGACY, "ByteCount", blocking=True),
        ),
        status_call(
            "cuMemcpyPeerAsync",
            "dstDevice dstContext srcDevice srcContext ByteCount hStream",
            Copies("dstDevice", "srcDevice", "hStream", "ByteCount"),
        ),
        status_call(
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
        status_call(
            "cuMemPrefetchAsync",
            "devPtr count location flags hStream",
            Uses(stream="hStream"),
            older=("devPtr count dstDevice hStream",),
        ),
        status_call("cuMemPrefetchBatchAsync", _DISCARD, Uses(stream="hStream")),
        status_call("cuMemDiscardBatchAsync", "dptrs sizes count flags hStream", _DISCARDED),
        status_call("cuMemDiscardAndPrefetchBatchAsync", _DISCARD, _DISCARDED),
        status_call("cuStreamAttachMemAsync", "hStream dptr length flags", Uses(stream="hStream")),
        # Kernels.
        status_call("cuModuleGetFunction", "hmod name", _KERNEL),
        status_call("cuLibraryGetKernel", "library name", _KERNEL),
        status_call("cuLaunchKernel", f"{_GRID} extra", _launched("hStream")),
        status_call("cuLaunchCooperativeKernel", _GRID, _launched("hStream")),
        status_call("cuLaunchKernelEx", "config f kernelParams extra", _launched("config.hStream")),
    ),
)

SUCCESS = "cuda.bindings.driver.CUresult.CUDA_SUCCESS"

HANDLE_TYPES = frozenset(
    "cudaHostFn_t cudaStreamCallback_t CUhostFn CUstreamCallback cudaStream_t cudaEvent_t CUstream CUevent "
    "CUdeviceptr".split()
)
"""Classes of cuda-python that stand for what they wrap: ``cudart.cudaStream_t(handle)``."""
