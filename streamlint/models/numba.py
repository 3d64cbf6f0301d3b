"""Numba CUDA: streams, events, device arrays and kernel launches.

``cuda.stream()`` is *blocking* (measured: flag 0). There is no current stream: calls without one
run on the default stream, or on the stream that an array was made with. A context waits as its device does
(https://nvidia.github.io/numba-cuda/reference/host.html). A reduction writes its result on the stream that it
is given (https://nvidia.github.io/numba-cuda/user/reduction.html). The driver's copies and fills, below those
of arrays, take a stream, and without one are those of CUDA that do not (``numba/cuda/cudadrv/driver.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.models.schema import (
    Allocates,
    Api,
    Copies,
    DefaultStream,
    ForeignStream,
    Framework,
    HostCallback,
    HostWaitsDevice,
    HostWaitsEvent,
    HostWaitsStream,
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
    Returns,
    SelectsDevice,
    Shares,
    StreamWaitsEvent,
    SyncOnExit,
    Uses,
)
from streamlint.trace import Space, StreamKind

if TYPE_CHECKING:
    from collections.abc import Iterator

_URL = "https://nvidia.github.io/numba-cuda/user/memory.html"

_GET_ITEM = Copies("", "self", "stream", blocking=True, makes=Space.PAGEABLE)
_SET_ITEM = Copies("self", "value", "stream", blocking=True, unless="stream")
_MAPPED = Allocates(Space.PINNED, mapped=True)
_REDUCES = Uses(reads=("arr",), writes=("res",), stream="stream")


def _driver_copies() -> Iterator[Api]:
    for name in ("host_to_device", "device_to_host", "device_to_device"):
        copied = Copies("dst", "src", "stream", "size", blocking=True, unless="stream")
        yield Api(f"cudadrv.driver.{name}", "dst src size stream", (copied,))
    filled = Uses(writes=("dst",), stream="stream", count="size")
    yield Api("cudadrv.driver.device_memset", "dst val size stream", (filled,))


NUMBA = Framework(
    lib=Lib.NUMBA,
    url=_URL,
    modules=("numba.cuda", "numba.cuda.api"),
    functions=(
        Api("stream", "", (NewStream(StreamKind.BLOCKING),)),
        Api("default_stream", "", (DefaultStream(),)),
        Api("legacy_default_stream", "", (DefaultStream(),)),
        Api("per_thread_default_stream", "", (DefaultStream(StreamKind.PER_THREAD),)),
        Api("external_stream", "ptr", (ForeignStream("ptr"),)),
        Api("event", "timing", (NewEvent("timing"),)),
        Api("event_elapsed_time", "evtstart evtend", (ReadsTimes("evtstart", "evtend"),)),
        Api("synchronize", "", (HostWaitsDevice(),)),
        Api("select_device", "device_id", (SelectsDevice("device_id"),)),
        Api("is_available", "", (Pure(),)),
        Api("get_current_device", "", (NewDevice(),)),
        Api("current_context", "devnum", (NewDevice("devnum"),)),
        Api(
            "to_device",
            "obj stream copy to",
            (
                Copies(
                    "to",
                    "obj",
                    "stream",
                    blocking=True,
                    unless="stream",
                    makes=Space.DEVICE,
                    from_host=True,
                ),
            ),
        ),
        Api("device_array", "shape dtype strides order stream", (Allocates(Space.DEVICE, "stream"),)),
        Api("device_array_like", "ary stream", (Allocates(Space.DEVICE, "stream"),)),
        Api("pinned_array", "shape dtype strides order", (Allocates(Space.PINNED),)),
        Api("pinned_array_like", "ary", (Allocates(Space.PINNED),)),
        Api("mapped_array", "shape dtype strides order stream portable wc", (_MAPPED,)),
        Api("mapped_array_like", "ary stream portable wc", (_MAPPED,)),
        Api("managed_array", "shape dtype strides order stream attach_global", (Allocates(Space.MANAGED),)),
        Api("pinned", "*arylist", (Pins("arylist", block=True),)),
        Api("defer_cleanup", "", (Pure(),)),
        *(Api(name, "functor", (Makes(f"numba.cuda.{name}()"),)) for name in ("Reduce", "reduce")),
        *(Api(f"{name}()", "arr size res init stream", (_REDUCES,)) for name in ("Reduce", "reduce")),
        *_driver_copies(),
    ),
    stream_methods=(
        Api("synchronize", "", (HostWaitsStream(),)),
        Api("auto_synchronize", "", (SyncOnExit(),), telling=()),
        Api("add_callback", "callback arg", (HostCallback("self", "callback", "arg", status=True),)),
        Api("async_done", "", (HostWaitsStream(),), telling=()),
    ),
    event_methods=(
        Api("record", "stream", (Records("self", "stream"),)),
        Api("wait", "stream", (StreamWaitsEvent("self", "stream"),)),
        Api("synchronize", "", (HostWaitsEvent(),)),
        Api("query", "", (Queries(),)),
        Api("elapsed_time", "evtend", (ReadsTimes("self", "evtend"),)),
    ),
    device_methods=(
        Api("synchronize", "", (HostWaitsDevice("self"),)),
        Api("get_primary_context", "", (Returns("self"),)),
    ),
    buffer_methods=(
        Api("getitem", "item stream", (_GET_ITEM,), telling=("stream",)),
        Api("get_ipc_handle", "", (Shares("self"),)),
        Api(
            "copy_to_host",
            "ary stream",
            (
                Copies(
                    "ary",
                    "self",
                    "stream",
                    blocking=True,
                    unless="stream",
                    makes=Space.PAGEABLE,
                ),
            ),
            telling=(),
        ),
        Api(
            "copy_to_device",
            "ary stream",
            (Copies("self", "ary", "stream", blocking=True, unless="stream"),),
            telling=(),
        ),
        Api(
            "setitem",
            "key value stream",
            (_SET_ITEM,),
        ),
    ),
    raw_handles=("handle",),
)

KERNEL_DECORATORS = frozenset({"numba.cuda.jit", "numba.cuda.decorators.jit"})
COMPILES = frozenset({"njit", "vectorize", "guvectorize"})
"""What else of Numba compiles a function, for the host or for a device."""

CONFIGURES = frozenset({"forall", "configure"})
"""Methods of a kernel that give it with a grid, and a stream."""
TAKES_ARRAYS = frozenset({"as_cuda_array", "from_cuda_array_interface"})
"""Functions that take memory by the CUDA array interface."""

VIEWS = frozenset("reshape view ravel squeeze transpose T gpu_data device_ctypes_pointer bind".split())
META = frozenset(
    "shape dtype ndim size nbytes itemsize strides flags alloc_size is_c_contiguous is_f_contiguous".split()
)

ATOMICS = frozenset("add sub and_ or_ xor inc dec exch min max nanmin nanmax cas compare_and_swap".split())
"""Last names of atomic operations of kernels in Python: ``cuda.atomic.add``, ``wp.atomic_add``."""
ADDITIONS = frozenset({"add", "sub"})
"""Those that come to the same in any order, also mixed; ``min`` and ``max`` do not."""

HARMLESS = frozenset(
    "len min max range abs float int bool round float32 float64 int32 int64 uint32 uint8 grid gridsize "
    "sqrt exp log sin cos floor ceil isnan isinf".split()
)
"""Functions that kernels call and that touch no memory."""
