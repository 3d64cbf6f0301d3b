"""CuPy: streams, events, copies, and what array functions do to memory.

``cupy.cuda.Stream()`` is *blocking* (measured: flags 0), so it is ordered with the null stream;
``Stream(non_blocking=True)`` is not. The current stream is CuPy's own, apart from PyTorch's.
"""

from __future__ import annotations

from streamlint.frozen import replace
from streamlint.models.schema import (
    Adopts,
    Allocates,
    Api,
    CaptureEnds,
    CaptureStarts,
    ChoosesAllocator,
    Copies,
    CurrentStream,
    Destroys,
    EnterStream,
    ForeignStream,
    Framework,
    Frees,
    GlobalMemory,
    GroupEnds,
    GroupStarts,
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
    Pure,
    Queries,
    ReadsTimes,
    Records,
    Returns,
    SelectsDevice,
    Shares,
    StreamWaitsEvent,
    Unpins,
    Uses,
    Views,
)
from streamlint.trace import Space, StreamKind

_URL = "https://docs.cupy.dev/en/stable/user_guide/basic.html#current-stream"

_GET = Copies("out", "self", "stream", blocking=True, unless_false="blocking", makes=Space.PAGEABLE)
# Without "async" in its name: always the legacy default stream, whatever stream is current.
_COPY = Copies("dst", "src", "default", "size", blocking=True)
_COPY_ASYNC = Copies("dst", "src", "stream", "size")
_ROWS = replace(_COPY, count=None, pitches=("dpitch", "spitch"))
_ROWS_ASYNC = replace(_COPY_ASYNC, count=None, pitches=("dpitch", "spitch"))
_FROM = Copies("self", "mem", "default", "size", blocking=True, from_host=True)
_MEMSET = Uses(writes=("ptr",), stream="default", count="size", host_waits=True)

_PINNED = Allocates(Space.PINNED, pool="the pool of pinned memory")
_DEVICE = Allocates(Space.DEVICE, "current", address=True)
_MANAGED = Allocates(Space.MANAGED, address=True)
_2D = "dst dpitch src spitch width height"
_GROUP = "NCCLBackend()"
_NCCL = "nccl.NcclCommunicator()"


def _collective(name: str, params: str, *, reads: str = "", writes: str = "", updates: str = "") -> Api:
    """Communication on ``stream``, or on the current stream."""
    named = [tuple(names.split()) for names in (reads, writes, updates)]
    uses = Uses(named[0], named[1], named[2], "stream", grouped=name.startswith(_NCCL))
    return Api(name, params, (uses,))


_FROM_TO = {"reads": "in_array", "writes": "out_array"}
_BUFFERS = {"reads": "sendbuf", "writes": "recvbuf"}

KERNEL_DECORATORS = frozenset({"cupyx.jit.rawkernel"})

CUPY = Framework(
    lib=Lib.CUPY,
    url=_URL,
    modules=(
        "cupy.cuda",
        "cupy.cuda.stream",
        "cupy.cuda.device",
        "cupy.cuda.memory",
        "cupy",
        "cupyx",
        "cupyx.distributed",
    ),
    functions=(
        Api(
            "Stream",
            "null non_blocking ptds priority",
            (NewStream(StreamKind.BLOCKING, "non_blocking", null="null"),),
        ),
        Api("ExternalStream", "ptr device_id", (ForeignStream("ptr"),)),
        Api("Stream.from_external", "obj", (ForeignStream("obj"),)),
        Api("get_current_stream", "device_id", (CurrentStream("device_id"),)),
        Api("Event", "block disable_timing interprocess", (NewEvent(untimed="disable_timing"),)),
        Api("get_elapsed_time", "start_event end_event", (ReadsTimes("start_event", "end_event"),)),
        Api("Device", "device", (NewDevice(),)),
        Api("asnumpy", "a stream order out blocking", (replace(_GET, src="a"),)),
        Api("get_device_id", "", (Pure(),)),
        Api("is_available", "", (Pure(),)),
        # Memory that the host can reach. The pool hands a block out again at once (measured).
        Api("empty_pinned", "shape dtype order", (_PINNED,)),
        Api("zeros_pinned", "shape dtype order", (_PINNED,)),
        Api("empty_like_pinned", "a dtype order subok shape", (_PINNED,)),
        Api("zeros_like_pinned", "a dtype order subok shape", (_PINNED,)),
        Api("alloc_pinned_memory", "size", (replace(_PINNED, address=True),)),
        Api("PinnedMemory", "size flags", (Allocates(Space.PINNED, address=True),)),
        Api("PinnedMemoryPool", "allocator", (Makes("cupy.cuda.PinnedMemoryPool()"),)),
        Api("PinnedMemoryPool().malloc", "size", (replace(_PINNED, address=True),)),
        # Device memory as addresses.
        Api("alloc", "size", (_DEVICE,)),
        Api("malloc_async", "size", (_DEVICE,)),
        Api("Memory", "size", (_DEVICE,)),
        Api("malloc_managed", "size", (_MANAGED,)),
        Api("ManagedMemory", "size", (_MANAGED,)),
        Api("MemoryPool", "allocator", (Makes("cupy.cuda.MemoryPool()", ("allocator",)),)),
        Api("MemoryPool().malloc", "size", (replace(_DEVICE, of="allocator"),)),
        Api("MemoryAsyncPool", "pool_handles", (Makes("cupy.cuda.MemoryAsyncPool()"),)),
        Api("MemoryAsyncPool().malloc", "size", (_DEVICE,)),
        Api("set_allocator", "allocator", (ChoosesAllocator(now=True),)),
        Api("using_allocator", "allocator", (ChoosesAllocator(),)),
        Api("UnownedMemory", "ptr size owner device_id", (Adopts("ptr"),)),
        Api("MemoryPointer", "mem offset", (Views("mem"),)),
        Api("PinnedMemoryPointer", "mem offset", (Views("mem"),)),
        # Kernels.
        Api("RawKernel", "code name options", (Makes("cupy.RawKernel()", ("code", "name")),)),
        Api(
            "RawKernel()",
            "grid block args shared_mem stream",
            (Uses(stream="stream", packed=("args",)),),
        ),
        Api("RawModule", "code path", (Makes("cupy.RawModule()", ("code", "path")),)),
        Api("RawModule().get_function", "name", (Makes("cupy.RawKernel()", ("code", "name")),)),
        Api(
            "RawModule().get_global",
            "name",
            (GlobalMemory(("code", "path"), "name"),),
        ),
        Api("RawModule().compile", "log_stream", (Pure(),)),
        Api("ElementwiseKernel", "in_params", (Makes("cupy.ElementwiseKernel()", ("in_params",)),)),
        Api("ReductionKernel", "in_params", (Makes("cupy.ReductionKernel()", ("in_params",)),)),
        # Communication.
        Api("init_process_group", "n_devices rank", (Makes("cupyx.distributed.NCCLBackend()"),)),
        Api("NCCLBackend", "n_devices rank", (Makes("cupyx.distributed.NCCLBackend()"),)),
        _collective(f"{_GROUP}.all_reduce", "in_array out_array op stream", **_FROM_TO),
        _collective(f"{_GROUP}.reduce", "in_array out_array root op stream", **_FROM_TO),
        _collective(f"{_GROUP}.broadcast", "in_out_array root stream", updates="in_out_array"),
        _collective(f"{_GROUP}.reduce_scatter", "in_array out_array count op stream", **_FROM_TO),
        _collective(f"{_GROUP}.all_gather", "in_array out_array count stream", **_FROM_TO),
        _collective(f"{_GROUP}.send", "array peer stream", reads="array"),
        _collective(f"{_GROUP}.recv", "out_array peer stream", writes="out_array"),
        _collective(f"{_GROUP}.send_recv", "in_array out_array peer stream", **_FROM_TO),
        _collective(f"{_GROUP}.scatter", "in_array out_array root stream", **_FROM_TO),
        _collective(f"{_GROUP}.gather", "in_array out_array root stream", **_FROM_TO),
        _collective(f"{_GROUP}.all_to_all", "in_array out_array stream", **_FROM_TO),
        Api(f"{_GROUP}.barrier", "", (OrdersAll(),)),
        Api("nccl.NcclCommunicator", "ndev commId rank", (Makes("cupy.cuda.nccl.NcclCommunicator()"),)),
        _collective(f"{_NCCL}.allReduce", "sendbuf recvbuf count datatype op stream", **_BUFFERS),
        _collective(f"{_NCCL}.reduce", "sendbuf recvbuf count datatype op root stream", **_BUFFERS),
        _collective(
            f"{_NCCL}.broadcast",
            "sendbuff recvbuff count datatype root stream",
            reads="sendbuff",
            writes="recvbuff",
        ),
        _collective(f"{_NCCL}.bcast", "buff count datatype root stream", updates="buff"),
        _collective(f"{_NCCL}.reduceScatter", "sendbuf recvbuf recvcount datatype op stream", **_BUFFERS),
        _collective(f"{_NCCL}.allGather", "sendbuf recvbuf count datatype stream", **_BUFFERS),
        _collective(f"{_NCCL}.send", "sendbuf count datatype peer stream", reads="sendbuf"),
        _collective(f"{_NCCL}.recv", "recvbuf count datatype peer stream", writes="recvbuf"),
        Api("nccl.groupStart", "", (GroupStarts(),)),
        Api("nccl.groupEnd", "", (GroupEnds(),)),
        # The runtime underneath: addresses and raw handles.
        Api("runtime.ipcGetMemHandle", "devPtr", (Shares("devPtr"),)),
        Api("runtime.ipcGetEventHandle", "event", (Shares("event"),)),
        Api("runtime.ipcOpenMemHandle", "handle flags", (OpensShared(),)),
        Api("runtime.memcpy", "dst src size kind", (_COPY,)),
        Api("runtime.memcpyAsync", "dst src size kind stream", (_COPY_ASYNC,)),
        Api("runtime.memcpyPeer", "dst dstDevice src srcDevice size", (_COPY,)),
        Api("runtime.memcpyPeerAsync", "dst dstDevice src srcDevice size stream", (_COPY_ASYNC,)),
        Api("runtime.memcpy2D", f"{_2D} kind", (_ROWS,)),
        Api("runtime.memcpy2DAsync", f"{_2D} kind stream", (_ROWS_ASYNC,)),
        Api(
            "runtime.memcpy2DToArrayAsync",
            "dst wOffset hOffset src spitch width height kind stream",
            (replace(_COPY_ASYNC, count=None),),
        ),
        Api(
            "runtime.memcpy2DFromArrayAsync",
            "dst dpitch src wOffset hOffset width height kind stream",
            (replace(_COPY_ASYNC, count=None),),
        ),
        Api("runtime.memPrefetchAsync", "devPtr count dstDevice stream", (Uses(stream="stream"),)),
        Api("runtime.hostRegister", "ptr size flags", (Pins("ptr"),)),
        Api("runtime.hostUnregister", "ptr", (Unpins("ptr"),)),
        Api("runtime.memset", "ptr value size", (_MEMSET,)),
        Api(
            "runtime.memsetAsync",
            "ptr value size stream",
            (Uses(writes=("ptr",), stream="stream", count="size"),),
        ),
        Api("runtime.malloc", "size", (Allocates(Space.DEVICE, size="size", address=True),)),
        Api("runtime.mallocManaged", "size flags", (_MANAGED,)),
        Api(
            "runtime.mallocAsync",
            "size stream",
            (Allocates(Space.DEVICE, "stream", size="size", address=True, queued=True),),
        ),
        Api("runtime.hostAlloc", "size flags", (Allocates(Space.PINNED, size="size", address=True),)),
        Api("runtime.free", "ptr", (Frees("ptr", device_wide=True),)),
        Api("runtime.freeHost", "ptr", (Frees("ptr", device_wide=True),)),
        Api("runtime.freeAsync", "ptr stream", (Frees("ptr", "stream"),)),
        Api("runtime.streamCreate", "", (NewStream(StreamKind.BLOCKING),)),
        Api("runtime.streamCreateWithFlags", "flags", (NewStream(StreamKind.BLOCKING, "flags"),)),
        Api("runtime.streamCreateWithPriority", "flags priority", (NewStream(StreamKind.BLOCKING, "flags"),)),
        Api("runtime.streamBeginCapture", "stream mode", (CaptureStarts("stream"),)),
        Api("runtime.streamEndCapture", "stream", (CaptureEnds("stream"),)),
        Api("runtime.graphInstantiate", "graph", (InstantiatesGraph("graph"),)),
        Api("runtime.graphLaunch", "graphExec stream", (LaunchesGraph("graphExec"),)),
        Api("runtime.graphUpload", "graphExec stream", (OrdersNothing(),)),
        Api("runtime.streamDestroy", "stream", (Destroys("stream"),)),
        Api("runtime.streamSynchronize", "stream", (HostWaitsStream("stream"),)),
        Api("runtime.streamQuery", "stream", (Queries("stream", status=True),)),
        Api("runtime.streamWaitEvent", "stream event flags", (StreamWaitsEvent("event", "stream"),)),
        Api(
            "runtime.streamAddCallback",
            "stream callback arg flags",
            (HostCallback("stream", "callback", "arg", deprecated=True),),
        ),
        Api(
            "runtime.launchHostFunc",
            "stream callback arg",
            (HostCallback("stream", "callback", "arg"),),
        ),
        Api("runtime.eventCreate", "", (NewEvent(),)),
        Api("runtime.eventCreateWithFlags", "flags", (NewEvent(untimed="flags"),)),
        Api("runtime.eventElapsedTime", "start end", (ReadsTimes("start", "end"),)),
        Api("runtime.eventRecord", "event stream", (Records("event", "stream"),)),
        Api("runtime.eventSynchronize", "event", (HostWaitsEvent("event"),)),
        Api("runtime.eventQuery", "event", (Queries("event", status=True),)),
        Api("runtime.eventDestroy", "event", (Destroys("event"),)),
        Api("runtime.deviceSynchronize", "", (HostWaitsDevice(),)),
        Api("runtime.setDevice", "device", (SelectsDevice(),)),
        Api("runtime.getDevice", "", (Pure(),)),
        Api("runtime.getDeviceCount", "", (Pure(),)),
    ),
    stream_methods=(
        Api("use", "", (EnterStream("self", now=True),)),
        Api("synchronize", "", (HostWaitsStream(),)),
        Api("wait_event", "event", (StreamWaitsEvent("event", "self"),)),
        Api("record", "event", (Records("event", "self"),)),
        Api("done", "", (Queries(),), attribute=True),
        Api("add_callback", "callback arg", (HostCallback("self", "callback", "arg", status=True),)),
        Api("launch_host_func", "callback arg", (HostCallback("self", "callback", "arg"),), telling=()),
        Api("begin_capture", "mode", (CaptureStarts(),)),
        Api("end_capture", "", (CaptureEnds(),)),
        Api("is_capturing", "", (Pure(),)),
    ),
    event_methods=(
        Api("record", "stream", (Records("self", "stream"),)),
        Api("synchronize", "", (HostWaitsEvent(),)),
        Api("done", "", (Queries(),), attribute=True),
    ),
    graph_methods=(
        Api("launch", "stream", (LaunchesGraph(),)),
        Api("upload", "stream", (OrdersNothing(),)),
    ),
    buffer_methods=(
        Api("get", "stream order out blocking", (_GET,), telling=("stream", "out", "blocking", "order")),
        Api("set", "arr stream", (Copies("self", "arr", "stream", from_host=True),), telling=("stream",)),
        Api("copy_from_host", "mem size", (_FROM,)),
        Api(
            "copy_from_host_async",
            "mem size stream",
            (replace(_FROM, stream="stream", blocking=False),),
            telling=(),
        ),
        Api("copy_to_host", "mem size", (Copies("mem", "self", "default", "size", blocking=True),)),
        Api("copy_to_host_async", "mem size stream", (Copies("mem", "self", "stream", "size"),), telling=()),
        Api("copy_from_device", "src size", (Copies("self", "src", "default", "size"),)),
        Api(
            "copy_from_device_async",
            "src size stream",
            (Copies("self", "src", "stream", "size"),),
            telling=(),
        ),
        Api("copy_from", "mem size", (_FROM,)),
        Api("copy_from_async", "mem size stream", (Copies("self", "mem", "stream", "size"),), telling=()),
        Api("memset", "value size", (replace(_MEMSET, writes=("self",)),)),
        Api(
            "memset_async",
            "value size stream",
            (Uses(writes=("self",), stream="stream", count="size"),),
            telling=(),
        ),
    ),
    device_methods=(
        Api("use", "", (SelectsDevice("self"), Returns("self"))),
        Api("synchronize", "", (HostWaitsDevice("self"),)),
    ),
    streams=(("Stream.null", StreamKind.LEGACY), ("Stream.ptds", StreamKind.PER_THREAD)),
    raw_handles=("ptr",),
    constants=(
        ("runtime.streamDefault", 0),
        ("runtime.streamNonBlocking", 1),
        ("runtime.eventDefault", 0),
        ("runtime.eventBlockingSync", 1),
        ("runtime.eventDisableTiming", 2),
    ),
)

FACTORIES = frozenset(
    "empty zeros ones full eye identity arange linspace logspace tri rand randn random randint random_sample "
    "standard_normal normal uniform ndarray indices hanning hamming blackman bartlett kaiser fftfreq "
    "rfftfreq get_window".split()
)
"""Make an array on the current stream without reading another one."""

LIKE_FACTORIES = frozenset("empty_like zeros_like ones_like full_like".split())
UNFILLED = frozenset("empty empty_like ndarray".split())

FROM_HOST = frozenset("array asarray asanyarray ascontiguousarray asfortranarray".split())
"""Copy a host array to the device; a device array stays, or is copied on the device."""

FIRST = ("a", "x", "obj", "array")
"""How its functions call the array that they take first."""
TAKES_CAPSULES = frozenset({"from_dlpack", "fromDlpack"})
"""Functions that take memory by DLPack, the second one of older releases."""

VIEWS = frozenset(
    "reshape view ravel squeeze transpose swapaxes T real imag diagonal base data mT flat broadcast_to "
    "expand_dims moveaxis rollaxis atleast_1d atleast_2d atleast_3d reduced_view mem".split()
)
"""Methods, attributes and functions that share the memory of their array (``ravel`` may copy)."""

TRANSPOSES = frozenset("T mT transpose swapaxes moveaxis rollaxis".split())
"""Views whose elements stand in another order than in memory, mostly."""

SPLITS = frozenset("split array_split hsplit vsplit dsplit".split())

META = frozenset(
    "shape dtype ndim size nbytes itemsize strides flags device cstruct result_type can_cast iinfo finfo "
    "isscalar get_array_module is_available show_config issubdtype".split()
)

HOST_READS = frozenset("item tolist tobytes __float__ __int__ __bool__ __index__ tofile dump dumps".split())
"""Methods that bring values to Python: they wait for the current stream."""

DRAINING = frozenset(
    "nonzero unique argwhere flatnonzero allclose array_equal array_equiv save savez savetxt".split()
)
"""Functions whose result size or Python result depends on the data."""

IN_PLACE = frozenset(
    "fill sort partition put scatter_add scatter_max scatter_min shuffle putmask place "
    "fill_diagonal at".split()
)
"""Methods and functions that write their array and return nothing; ``at`` is one of ufuncs: ``cp.add.at``."""

OUTPUTS = ("out", "output")
"""How functions call what they write, the second one in ``cupyx.scipy.ndimage``, where it may be a type.

https://docs.cupy.dev/en/stable/reference/scipy_ndimage.html
"""

BINARY_UFUNCS = frozenset(
    "add subtract multiply divide true_divide floor_divide power maximum minimum fmax fmin logaddexp mod "
    "remainder fmod hypot arctan2 bitwise_and bitwise_or bitwise_xor left_shift right_shift".split()
)
UNARY_UFUNCS = frozenset(
    "sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh negative absolute abs square sign "
    "reciprocal rint floor ceil trunc invert conj".split()
)
"""Their argument after the operands is ``out``."""

ELEMENTWISE = frozenset({"ElementwiseKernel", "ReductionKernel"})
"""What makes kernels from expressions in CUDA."""
QUIET_PARTS = frozenset(
    "cuda random_state fuse testing _core core profiler prof util _util cudnn cublas jit seed vectorize "
    "errstate memoize clear_memo get_default_memory_pool get_default_pinned_memory_pool set_allocator".split()
)
"""Parts of the library whose calls queue no work on arrays."""

ALLOCATORS = frozenset({"set_allocator", "using_allocator"})
"""What chooses where arrays get their memory: a pool of a graph's own, or a part of the graph
(``cupy.cuda.MemoryAsyncPool``)."""

BARE_ADDRESSES = frozenset({"ptr", "handle"})
ADDRESSES = frozenset({"device_ctypes_pointer", "device_pointer", "gpu_data", "gpudata"})
"""Attributes that give the address of a device array, of CuPy and of libraries like it: as a number, or as an
object that keeps the array."""
VIEW_ATTRIBUTES = frozenset("T real imag base data mT flat mem".split())
SCALAR_TYPES = frozenset("float int uint complex bool_ bool dtype".split())
"""Names of types of elements, without their widths: ``cupy.float32``."""
