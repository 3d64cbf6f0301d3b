"""Warp: kernels written in Python, and a current stream of its own for each device.

Warp's streams are *blocking*: ``wp_cuda_stream_create`` passes ``CU_STREAM_DEFAULT``
(``warp/native/warp.cu``). The one that is current at first is made by Warp, too. Arrays are freed in
order of the legacy default stream, which waits for blocking streams.
"""

from __future__ import annotations

from streamlint.frozen import replace
from streamlint.models.schema import (
    Allocates,
    Api,
    CaptureEnds,
    CaptureStarts,
    Copies,
    CurrentStream,
    DefaultStream,
    EnterCapture,
    EnterDevice,
    EnterStream,
    ForeignStream,
    Framework,
    HostWaitsDevice,
    HostWaitsEvent,
    HostWaitsStream,
    Launches,
    LaunchesGraph,
    Lib,
    Makes,
    NewDevice,
    NewEvent,
    NewStream,
    Pure,
    Queries,
    ReadsTimes,
    Records,
    SelectsDevice,
    StreamWaitsEvent,
    StreamWaitsStream,
    Uses,
    Views,
)
from streamlint.trace import Space, StreamKind

_TYPED = "dtype device requires_grad pinned"
_LIKE = "device requires_grad pinned"
_EMPTY = Allocates(Space.DEVICE, "current", pinned="pinned")
_FILLED = Allocates(Space.DEVICE, "current", pinned="pinned", filled=True)
# On the legacy default stream, which waits for all streams that Warp makes.
_FETCH = Copies("", "self", "default", blocking=True, makes=Space.PAGEABLE, view_on_host=True)
_UPLOAD = Copies("", "data", None, makes=Space.DEVICE, placed=True)
_OF_ROWS = replace(_UPLOAD, src="arr")
_CLONE = Copies("", "src", None, makes=Space.DEVICE, pinned="pinned")

_OF_LAUNCH = (
    "inputs outputs adj_inputs adj_outputs device stream adjoint record_tape record_cmd max_blocks block_dim"
)
_KEPT = Makes("warp.Launch()", ("kernel", "inputs", "outputs", "device", "stream"))
_LAUNCH = Launches("kernel", ("inputs", "outputs"), kept_with="record_cmd", makes=_KEPT)

DEVICE_OF = ("self", "dest", "src")
"""Parameters of which the first one on a device says where a call works (``copy`` in warp/context.py)."""
KERNEL_DECORATORS = frozenset({"warp.kernel"})
DEVICE_FUNCTIONS = frozenset({"func"})
"""The decorator of what kernels call."""

WARP = Framework(
    lib=Lib.WARP,
    url="https://nvidia.github.io/warp/deep_dive/concurrency.html",
    modules=("warp",),
    functions=(
        Api("init", "", (Pure(),)),
        Api("Stream", "device priority cuda_stream", (NewStream(StreamKind.BLOCKING, wraps="cuda_stream"),)),
        Api(
            "Event",
            "device cuda_event enable_timing interprocess",
            (NewEvent("enable_timing", timed=False),),
        ),
        Api("get_device", "ident", (NewDevice("ident"),)),
        Api("get_stream", "device", (CurrentStream(),)),
        Api("set_stream", "stream device sync", (EnterStream(now=True, forks="sync"),)),
        Api(
            "ScopedStream",
            "stream sync_enter sync_exit",
            (EnterStream(forks="sync_enter", forks_unset=True, joins="sync_exit"),),
        ),
        Api("ScopedDevice", "device", (EnterDevice(),)),
        Api("set_device", "ident", (SelectsDevice("ident"),)),
        Api("synchronize", "", (HostWaitsDevice(every=True),)),
        Api("synchronize_device", "device", (HostWaitsDevice(),)),
        Api("synchronize_stream", "stream_or_device", (HostWaitsStream("stream_or_device", or_device=True),)),
        Api("synchronize_event", "event", (HostWaitsEvent("event"),)),
        Api("wait_stream", "other_stream event", (StreamWaitsStream("self", "other_stream"),)),
        Api("wait_event", "event external", (StreamWaitsEvent("event", None, "external"),)),
        Api("record_event", "event external", (Records("event", "stream", "external"),)),
        Api(
            "get_event_elapsed_time",
            "start_event end_event synchronize",
            (HostWaitsEvent("end_event", unless_false="synchronize"), ReadsTimes("start_event", "end_event")),
        ),
        Api("capture_begin", "device stream", (CaptureStarts("stream"),)),
        Api("capture_end", "device stream", (CaptureEnds("stream"),)),
        Api("ScopedCapture", "device stream", (EnterCapture(graph=None, from_pool=None),)),
        Api("capture_launch", "graph stream", (LaunchesGraph("graph"),)),
        # Memory.
        Api("empty", f"shape {_TYPED}", (_EMPTY,)),
        Api("zeros", f"shape {_TYPED}", (_FILLED,)),
        Api("ones", f"shape {_TYPED}", (_FILLED,)),
        Api("full", f"shape value {_TYPED}", (_FILLED,)),
        Api("empty_like", f"src {_LIKE}", (_EMPTY,)),
        Api("zeros_like", f"src {_LIKE}", (_FILLED,)),
        Api("full_like", f"src value {_LIKE}", (_FILLED,)),
        Api(
            "array",
            "data dtype shape strides ptr capacity device pinned",
            (replace(_UPLOAD, aliases="ptr"),),
        ),
        Api("from_numpy", "arr dtype shape device", (_OF_ROWS,)),
        Api("clone", "src device requires_grad pinned", (_CLONE,)),
        Api("copy", "dest src dest_offset src_offset count stream", (Copies("dest", "src", "stream"),)),
        # Kernels.
        *(Api(name, f"kernel dim {_OF_LAUNCH}", (_LAUNCH,)) for name in ("launch", "launch_tiled")),
        Api("Launch().launch", "stream", (replace(_LAUNCH, kept_with=""),)),
        Api("Launch().set_params", "params", (Pure(),)),
        Api("Launch().set_dim", "dim", (Pure(),)),
        # PyTorch: streams are handed over, arrays are views, and nothing is ordered.
        Api("stream_from_torch", "stream_or_device", (ForeignStream("stream_or_device", Lib.TORCH),)),
        Api("from_torch", "t dtype requires_grad grad", (Views("t", lib=Lib.WARP),)),
        Api(
            "stream_to_torch",
            "stream_or_device",
            (ForeignStream("stream_or_device", Lib.WARP, lib=Lib.TORCH),),
        ),
        Api("to_dlpack", "wp_array", (Views("wp_array"),)),
        Api("to_torch", "a requires_grad", (Views("a", lib=Lib.TORCH),)),
    ),
    stream_methods=(
        Api("wait_stream", "other_stream event", (StreamWaitsStream("self", "other_stream"),)),
        Api("wait_event", "event external", (StreamWaitsEvent("event", "self", "external"),)),
        Api("record_event", "event external", (Records("event", "self", "external"),)),
        Api("is_complete", "", (Queries(),), attribute=True),
        Api("is_capturing", "", (Pure(),), attribute=True),
    ),
    event_methods=(Api("is_complete", "", (Queries(),), attribute=True),),
    device_methods=(
        Api("stream", "", (CurrentStream("self"),), attribute=True),
        Api("null_stream", "", (DefaultStream(),), attribute=True),
        Api("set_stream", "stream sync", (EnterStream(now=True, forks="sync", forks_unset=True),)),
    ),
    buffer_methods=(
        Api("numpy", "", (_FETCH,)),
        Api("list", "", (replace(_FETCH, values=True),)),
        Api("flatten", "", (Views("self"),)),
        Api("fill_", "value", (Uses(writes=("self",)),)),
        Api("zero_", "", (Uses(writes=("self",)),)),
        Api("assign", "src", (Copies("self", "src", None),)),
    ),
    raw_handles=("cuda_stream", "cuda_event"),
)
