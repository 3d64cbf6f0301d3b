"""cuda.core: streams, events and buffers as objects, every operation on an explicit stream.

``Device.create_stream()`` is non-blocking unless its options say otherwise; ``Device.default_stream``
is the legacy default stream (measured).
"""

from __future__ import annotations

from streamlint.models.schema import (
    Adopts,
    Allocates,
    Api,
    CaptureEnds,
    CaptureStarts,
    Copies,
    DefaultStream,
    Destroys,
    ForeignStream,
    Framework,
    Frees,
    HostWaitsDevice,
    HostWaitsEvent,
    HostWaitsStream,
    InstantiatesGraph,
    JoinsCaptures,
    LaunchesGraph,
    Lib,
    Makes,
    NewDevice,
    NewEvent,
    NewStream,
    OrdersNothing,
    Queries,
    Records,
    Returns,
    SelectsDevice,
    SplitsCapture,
    StreamWaits,
    Uses,
    Views,
)
from streamlint.trace import Space, StreamKind

_URL = "https://nvidia.github.io/cuda-python/cuda-core/latest/api.html"

_NEW_STREAM = NewStream(
    StreamKind.BLOCKING, "options.nonblocking", unset=StreamKind.NON_BLOCKING, wraps="obj"
)
_VIEW = Adopts("obj", "stream_ptr")
_BUILDER = NewStream(StreamKind.NON_BLOCKING)
"""A graph builder takes work like a stream; the work runs when the graph is launched."""
_OPTIONS = "cuda.core.StreamOptions()"
_RESOURCES = {
    "DeviceMemoryResource": (Space.DEVICE, "device_id options"),
    "PinnedMemoryResource": (Space.PINNED, "options"),
    "LegacyPinnedMemoryResource": (Space.PINNED, ""),
    "ManagedMemoryResource": (Space.MANAGED, "options"),
    "GraphMemoryResource": (Space.DEVICE, "device_id"),
    "VirtualMemoryResource": (Space.DEVICE, "device_id config"),
}


def _resource(name: str, space: Space, params: str) -> tuple[Api, Api]:
    """A memory resource, and its ``allocate``; pinned memory is not ordered by a stream."""
    ordered = space is Space.DEVICE and name != "VirtualMemoryResource"
    return (
        Api(name, params, (Makes(f"cuda.core.{name}()"),)),
        Api(f"{name}().allocate", "size stream", (Allocates(space, "stream" if ordered else None),)),
    )


CUDA_CORE = Framework(
    lib=Lib.CORE,
    url=_URL,
    modules=("cuda.core", "cuda.core.graph", "cuda.core.experimental"),
    homes=("cuda.core", "cuda.core.experimental"),
    functions=(
        Api("Device", "device_id", (NewDevice("device_id"),)),
        Api("StreamOptions", "nonblocking priority", (Makes(_OPTIONS, ("nonblocking",)),)),
        Api("Program", "code code_type options", (Makes("cuda.core.Program()", ("code",)),)),
        Api(
            "Program().compile", "target_type name_expressions", (Makes("cuda.core.ObjectCode()", ("code",)),)
        ),
        Api("ObjectCode().get_kernel", "name", (Makes("cuda.core.Kernel()", ("code", "name")),)),
        Api("GraphBuilder.join", "*graph_builders", (JoinsCaptures("graph_builders"),)),
        Api("Stream.from_handle", "handle", (ForeignStream("handle"),)),
        Api("Buffer.from_handle", "ptr size mr owner stream", (Adopts("ptr"),)),
        Api("utils.StridedMemoryView", "obj stream_ptr", (_VIEW,)),
        Api("utils.StridedMemoryView.from_dlpack", "obj stream_ptr", (_VIEW,)),
        Api("utils.StridedMemoryView.from_cuda_array_interface", "obj stream_ptr", (_VIEW,)),
        Api("utils.StridedMemoryView.from_any_interface", "obj stream_ptr", (_VIEW,)),
        Api("utils.StridedMemoryView.from_buffer", "buffer shape strides", (Views("buffer"),)),
        Api("launch", "stream config kernel *args", (Uses(stream="stream", packed=("args",)),)),
        Api(
            "utils.copy_batch",
            "stream srcs dsts",
            (Uses(reads=("srcs",), writes=("dsts",), stream="stream"),),
        ),
        Api("utils.discard_batch", "stream buffers", (Uses(writes=("buffers",), stream="stream"),)),
        Api("utils.prefetch_batch", "stream buffers locations", (Uses(stream="stream"),)),
        *(api for name, made in _RESOURCES.items() for api in _resource(name, *made)),
    ),
    stream_methods=(
        Api("sync", "", (HostWaitsStream(),)),
        Api("wait", "event_or_stream", (StreamWaits("event_or_stream"),)),
        Api("record", "event options", (Records("event", "self"),)),
        Api("close", "", (Destroys("self"),)),
        Api("create_graph_builder", "", (_BUILDER,)),
        Api("begin_building", "mode", (CaptureStarts(), Returns("self"))),
        Api("split", "count", (SplitsCapture(),)),
        Api("end_building", "", (CaptureEnds(), Returns("self"))),
        Api("stream", "", (Returns("self"),), attribute=True),
        Api("complete", "options", (InstantiatesGraph("self"),)),
    ),
    event_methods=(
        Api("sync", "", (HostWaitsEvent(),)),
        Api("is_done", "", (Queries(),), attribute=True),
        Api("close", "", (Destroys("self"),)),
    ),
    graph_methods=(
        Api("launch", "stream", (LaunchesGraph(),)),
        Api("upload", "stream", (OrdersNothing(),)),
    ),
    buffer_methods=(
        Api(
            "copy_to",
            "dst stream",
            (Copies("dst", "self", "stream", makes=Space.DEVICE),),
            telling=("stream",),
        ),
        Api("copy_from", "src stream", (Copies("self", "src", "stream"),), telling=("stream",)),
        Api("fill", "value stream", (Uses(writes=("self",), stream="stream"),), telling=("stream",)),
        Api("close", "stream", (Frees("self", "stream"),), telling=("stream",)),
        Api("set_deallocation_stream", "stream", (Frees("self", "stream", later=True),), telling=("stream",)),
    ),
    device_methods=(
        Api("create_stream", "obj options", (_NEW_STREAM,), telling=()),
        Api("default_stream", "", (DefaultStream(),), attribute=True),
        Api("create_event", "options", (NewEvent(),)),
        Api("set_current", "ctx", (SelectsDevice("self"),)),
        Api("create_graph_builder", "", (_BUILDER,)),
        Api("sync", "", (HostWaitsDevice("self"),)),
        Api("allocate", "size stream", (Allocates(Space.DEVICE, "stream"),), telling=("stream",)),
        Api("memory_resource", "", (Makes("cuda.core.DeviceMemoryResource()"),), attribute=True),
    ),
    streams=(
        ("LEGACY_DEFAULT_STREAM", StreamKind.LEGACY),
        ("PER_THREAD_DEFAULT_STREAM", StreamKind.PER_THREAD),
    ),
    raw_handles=("handle",),
)

META = frozenset(
    "size is_device_accessible is_host_accessible device_id memory_resource __dlpack_device__".split()
)
