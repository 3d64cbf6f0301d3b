"""PyCUDA: the driver's calls as functions, and arrays of its own.

``Stream(flags=0)`` is *blocking*: the flags go to ``cuStreamCreate`` as they are (``src/cpp/cuda.hpp``).
There is no current stream: calls without one run on the legacy default stream. Functions of arrays, and
kernels that PyCUDA writes, take a stream by keyword (https://documen.tician.de/pycuda/array.html).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.models.schema import (
    Allocates,
    Api,
    CaptureEnds,
    CaptureStarts,
    Computes,
    Copies,
    Effect,
    Framework,
    Frees,
    GlobalMemory,
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
    Pins,
    Pure,
    Queries,
    ReadsTimes,
    Records,
    RestoresDevice,
    Returns,
    SelectsDevice,
    StreamWaitsEvent,
    Uses,
    Views,
)
from streamlint.trace import Space, StreamKind

if TYPE_CHECKING:
    from collections.abc import Iterator

_TOOLS = "pycuda.tools"
_KERNEL = Uses(stream="stream", packed=("args",), code="source")
_DEFAULT = replace(_KERNEL, stream=None)
_GET = Copies("ary", "self", "stream", blocking=True, unless="async_", makes=Space.PAGEABLE)
_SET = Copies("self", "ary", "stream", blocking=True, unless="async_", from_host=True)
_TO_GPU = Copies("", "ary", None, blocking=True, makes=Space.DEVICE, from_host=True)
_FETCHED = Copies("", "devptr", None, blocking=True, makes=Space.PAGEABLE)
_FILLED = Allocates(Space.DEVICE, filled=True)
_SCANNED = Computes(("input_ary",), "output_ary", "stream")
_DRAWN = Computes((), "", "stream")


def _both(name: str, params: str, effect: Copies | Uses, done: Effect) -> list[Api]:
    """A call and its asynchronous form, which has a stream after the same parameters."""
    return [Api(name, params, (done,)), Api(f"{name}_async", f"{params} stream", (effect,))]


def _copy(name: str, params: str, count: str | None = None, *, from_host: bool = False) -> list[Api]:
    queued = Copies("dest", "src", "stream", count, from_host=from_host)
    return _both(name, params, queued, replace(queued, stream=None, blocking=True))


def _set(name: str, params: str) -> list[Api]:
    queued = Uses(writes=("dest",), stream="stream", count="size" if name == "memset_d8" else "")
    return _both(name, params, queued, replace(queued, stream=None, host_waits=True))


_KERNELS: dict[str, tuple[str, str, Effect]] = {
    "elementwise.ElementwiseKernel": ("arguments", "*args stream", Uses(stream="stream", packed=("args",))),
    "reduction.ReductionKernel": (
        "dtype_out neutral reduce_expr map_expr arguments",
        "*args stream out",
        Computes(("args",), "out", "stream"),
    ),
    "scan.InclusiveScanKernel": ("dtype scan_expr", "input_ary output_ary allocator n stream", _SCANNED),
    "scan.ExclusiveScanKernel": ("dtype scan_expr", "input_ary output_ary allocator n stream", _SCANNED),
}
"""Kernels that PyCUDA writes: how they are made, and called (https://documen.tician.de/pycuda/array.html)."""
_GENERATORS = ("XORWOW", "MRG32k3a", "Sobol32", "ScrambledSobol32", "Sobol64", "ScrambledSobol64")


def _kernels() -> Iterator[Api]:
    for name, (params, given, work) in _KERNELS.items():
        yield Api(name, params, (Makes(f"pycuda.{name}()"),))
        yield Api(f"{name}()", given, (work,))


def _generators() -> Iterator[Api]:
    for kind in _GENERATORS:
        made = f"curandom.{kind}RandomNumberGenerator"
        yield Api(made, "seed_getter offset", (Makes(f"pycuda.{made}()"),))
        for name in ("uniform", "normal"):
            yield Api(f"{made}().fill_{name}", "data stream", (Uses(writes=("data",), stream="stream"),))
            yield Api(f"{made}().gen_{name}", "shape dtype stream", (_DRAWN,))


PYCUDA = Framework(
    lib=Lib.PYCUDA,
    url="https://documen.tician.de/pycuda/driver.html",
    modules=(
        *("pycuda.driver", "pycuda.compiler", "pycuda.gpuarray", "pycuda.tools", "pycuda.autoinit"),
        "pycuda",
    ),
    functions=(
        Api("init", "flags", (Pure(),)),
        Api("Stream", "flags", (NewStream(StreamKind.BLOCKING, "flags"),)),
        Api("Event", "flags", (NewEvent(untimed="flags"),)),
        Api("Device", "number", (NewDevice("number"),)),
        Api("Context.synchronize", "", (HostWaitsDevice(),)),
        Api("Context.pop", "", (RestoresDevice(),)),
        Api("context.synchronize", "", (HostWaitsDevice(),)),
        # Memory.
        Api("mem_alloc", "bytes", (Allocates(Space.DEVICE, address=True, size="bytes"),)),
        Api("mem_alloc_like", "ary", (Allocates(Space.DEVICE, address=True),)),
        Api("managed_empty", "shape dtype order mem_flags", (Allocates(Space.MANAGED),)),
        Api("managed_zeros", "shape dtype order mem_flags", (Allocates(Space.MANAGED),)),
        Api("aligned_empty", "shape dtype order alignment", (Allocates(Space.PAGEABLE),)),
        Api("aligned_zeros", "shape dtype order alignment", (Allocates(Space.PAGEABLE),)),
        Api("pagelocked_empty", "shape dtype order mem_flags", (Allocates(Space.PINNED),)),
        Api("pagelocked_zeros", "shape dtype order mem_flags", (Allocates(Space.PINNED),)),
        Api("pagelocked_empty_like", "array mem_flags", (Allocates(Space.PINNED),)),
        Api("pagelocked_zeros_like", "array mem_flags", (Allocates(Space.PINNED),)),
        # Pools: https://documen.tician.de/pycuda/util.html#memory-pools
        Api(
            "DeviceMemoryPool",
            "allocator leading_bits_in_bin_id",
            (Makes(f"{_TOOLS}.DeviceMemoryPool()", told_apart=True),),
        ),
        Api(
            "DeviceMemoryPool().allocate",
            "size",
            (Allocates(Space.DEVICE, address=True, pool="the pool of device memory"),),
        ),
        Api(
            "PageLockedMemoryPool",
            "allocator leading_bits_in_bin_id",
            (Makes(f"{_TOOLS}.PageLockedMemoryPool()", told_apart=True),),
        ),
        Api(
            "PageLockedMemoryPool().allocate",
            "shape dtype order",
            (Allocates(Space.PINNED, pool="the pool of pinned memory"),),
        ),
        Api("register_host_memory", "ary flags", (Pins("ary"), Returns("ary"))),
        *_copy("memcpy_htod", "dest src", from_host=True),
        *_copy("memcpy_dtoh", "dest src"),
        *_copy("memcpy_dtod", "dest src size", "size"),
        *_copy("memcpy_peer", "dest src size dest_context src_context", "size"),
        Api("to_device", "bo", (Copies("", "bo", None, blocking=True, makes=Space.DEVICE, from_host=True),)),
        Api("from_device", "devptr shape dtype order", (_FETCHED,)),
        Api("from_device_like", "devptr other_ary", (_FETCHED,)),
        *_set("memset_d8", "dest data size"),
        *_set("memset_d16", "dest data size"),
        *_set("memset_d32", "dest data size"),
        *(row for bits in (8, 16, 32) for row in _set(f"memset_d2d{bits}", "dest pitch data width height")),
        # Kernels. `In`, `Out` and `InOut` are copied, and waited for, by the call.
        Api("In", "array", (Pure(),)),
        Api("Out", "array", (Pure(),)),
        Api("InOut", "array", (Pure(),)),
        Api("SourceModule", "source", (Makes("pycuda.driver.Module()", ("source",)),)),
        Api("module_from_file", "filename", (Makes("pycuda.driver.Module()"),)),
        Api("module_from_buffer", "buffer", (Makes("pycuda.driver.Module()"),)),
        Api("Module().get_function", "name", (Makes("pycuda.driver.Function()", ("source", "name")),)),
        Api("Module().get_global", "name", (GlobalMemory(("source",), "name"),)),
        Api("Function()", "*args block grid stream shared", (_KERNEL,)),
        Api("Function().prepare", "arg_types", (Makes("pycuda.driver.Function()", ("source", "name")),)),
        Api("Function().prepared_call", "grid block *args", (_DEFAULT,)),
        Api("Function().prepared_timed_call", "grid block *args", (_DEFAULT,)),
        Api("Function().prepared_async_call", "grid block stream *args", (_KERNEL,)),
        # Arrays.
        Api("to_gpu", "ary allocator", (_TO_GPU,)),
        Api("to_gpu_async", "ary allocator stream", (replace(_TO_GPU, stream="stream", blocking=False),)),
        Api("GPUArray", "shape dtype allocator order", (Allocates(Space.DEVICE),)),
        Api("empty", "shape dtype allocator order", (Allocates(Space.DEVICE),)),
        Api("zeros", "shape dtype allocator order", (_FILLED,)),
        Api("arange", "*bounds", (_FILLED,)),
        Api("empty_like", "other_ary dtype order", (Allocates(Space.DEVICE),)),
        Api("zeros_like", "other_ary dtype order", (_FILLED,)),
        *_kernels(),
        *_generators(),
        Api("curandom.rand", "shape dtype stream", (_DRAWN,)),
    ),
    stream_methods=(
        Api("synchronize", "", (HostWaitsStream(),)),
        Api("wait_for_event", "event", (StreamWaitsEvent("event", "self"),), telling=()),
        Api("is_done", "", (Queries(),)),
        # examples/demo_cuda_graphs.py of PyCUDA's repository
        Api("begin_capture", "capture_mode", (CaptureStarts(),)),
        Api("end_capture", "", (CaptureEnds(),)),
    ),
    event_methods=(
        Api("record", "stream", (Records("self", "stream"),)),
        Api("synchronize", "", (HostWaitsEvent(),)),
        Api("query", "", (Queries(),)),
        Api("time_since", "event", (ReadsTimes("event", "self"),), telling=()),
        Api("time_till", "event", (ReadsTimes("self", "event"),), telling=()),
    ),
    graph_methods=(
        Api("instance", "", (InstantiatesGraph("self"),), telling=()),
        Api("launch", "stream", (LaunchesGraph(),)),
        Api("debug_dot_print", "path", (Pure(),), telling=()),
    ),
    buffer_methods=(
        Api("free", "", (Frees("self", device_wide=True),)),
        Api("get", "ary pagelocked async_ stream", (_GET,)),
        Api("get_async", "stream ary", (replace(_GET, blocking=False, unless=None),), telling=("stream",)),
        Api("set", "ary async_ stream", (_SET,)),
        Api("set_async", "ary stream", (replace(_SET, blocking=False, unless=None),), telling=("stream",)),
        Api("fill", "value stream", (Uses(writes=("self",), stream="stream"),)),
        # pagelocked_empty(n, mem_flags=DEVICEMAP).base.get_device_pointer(): the memory as kernels see it.
        Api("get_device_pointer", "", (Views("self", address=True),), telling=()),
    ),
    device_methods=(
        Api("make_context", "flags", (SelectsDevice("self", push=True), NewDevice("self"))),
        Api("retain_primary_context", "", (NewDevice("self"),)),
        Api("push", "", (SelectsDevice("self", push=True),)),
        Api("pop", "", (RestoresDevice(),)),
    ),
    raw_handles=("handle",),
    operations=("pycuda.gpuarray", "pycuda.cumath"),
)
