"""Cheap tests on the bytes of a file, before anything is parsed or lowered.

``may_touch_gpu`` decides only where analysis *starts*. What a call resolves to may well stand in a module
that fails it.
"""

from __future__ import annotations

import re

_LIBRARY = re.compile(
    rb"cuda|cupy|torch|numba|rmm|accelerator|musa|npu|xpu|warp|kvikio|tensorrt|nixl|cudf|dali"
)

# One alternation costs several times what a few plain substring searches cost, so that the
# substrings, each a part of some alternative, go first: over half of the files have none of them.
_STREAM_PARTS = (
    *(b"Stream", b".stream", b"_stream", b"_event", b"non_blocking", b"Async(", b"async_op", b"synchronize"),
    *(b"host_func", b"HostFunc", b"add_callback", b"AddCallback", b"CUDAGraph", b"cuda.graph"),
    *(b"graph_builder", b"copy_to_host", b"asnumpy", b"elapsed_time", b".isend", b".irecv", b"_c10d_fun"),
    *(b"cudaMalloc", b"cuMemAlloc", b"managed_array", b"mapped_array", b"blocking=False", b"_pinned("),
    *(b"STREAM", b"_async(", b"execute_async", b"kvikio", b"mpi4py", b"inned", b"pagelocked", b"anaged"),
    *(
        b"apture",
        b"graphed_callables",
        b"copy_from_",
        b"import ucp",
        b"ucxx",
        b"transfer_",
        b"sync_p",
        b"iobinding",
        b"_xfer",
        b"to_external",
        b"release_outputs",
        b", True)",
    ),
)
_STREAM_TEXT = re.compile(
    rb"Stream|\.stream|(?:wait|current|record|default|set|get|create)_stream|(?:wait|record)_event"
    rb"|non_blocking|async_op|Async\(|synchronize|host_func|HostFunc|add_callback|AddCallback"
    rb"|CUDAGraph|cuda\.graph|graph_builder|copy_to_host|asnumpy|elapsed_time|\.(?:isend|irecv)|_c10d_functional"
    rb"|cudaMalloc|cuMemAlloc|managed_array|mapped_array|blocking=False|_pinned\(|DEFAULT_STREAM"
    rb"|(?:htod|dtoh|dtod|gpu|raw_read|raw_write|memcpy_peer|get|set|copy_from)_async\(|execute_async|kvikio|mpi4py"
    rb"|pinned(?:_|=| =)|Pinned|pagelocked|[mM]allocManaged|malloc_managed|managed_(?:empty|zeros)"
    rb"|capture_(?:begin|end|launch)|(?:begin|end)_capture|ScopedCapture|graphed_callables"
    rb"|copy_from_(?:device|host)|import ucp|ucxx|sync_p(?:read|write)|with_iobinding"
    rb"|transfer_(?:a?sync|submit)_(?:read|write)|initialize_xfer|prepped_xfer|copy_to_external|release_outputs"
    rb"|\.(?:copy_|to|cuda)\([^#\n]{1,80}, True\)"
)


def may_touch_gpu(data: bytes) -> bool:
    """Whether a file can hold asynchronous GPU work: it names a GPU library and some stream word."""
    return (
        _LIBRARY.search(data) is not None
        and any(part in data for part in _STREAM_PARTS)
        and _STREAM_TEXT.search(data) is not None
    )


def may_hold_comments(data: bytes) -> bool:
    """Whether a file can hold a comment that is meant for streamlint."""
    return b"streamlint:" in data
