"""Where analysis starts: cheap tests on bytes and on names, before anything is parsed or lowered.

The tests decide only where to *start*. What a call resolves to may well stand in a module that
fails them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_LIBRARY = re.compile(rb"cuda|cupy|torch|numba|rmm|accelerator|musa|npu|xpu|warp|kvikio|tensorrt")

# One alternation costs several times what a few plain substring searches cost, so that the
# substrings, each a part of some alternative, go first: over half of the files have none of them.
_STREAM_PARTS = (
    *(b"Stream", b".stream", b"_stream", b"_event", b"non_blocking", b"Async(", b"async_op", b"synchronize"),
    *(b"host_func", b"HostFunc", b"add_callback", b"AddCallback", b"CUDAGraph", b"cuda.graph"),
    *(b"graph_builder", b"copy_to_host", b"asnumpy", b"elapsed_time", b".isend", b".irecv"),
    *(b"cudaMalloc", b"cuMemAlloc", b"managed_array", b"mapped_array", b"blocking=False", b"_pinned("),
    *(b"STREAM", b"_async(", b"execute_async", b"kvikio"),
)
_STREAM_TEXT = re.compile(
    rb"Stream|\.stream|(?:wait|current|record|default|set|get|create)_stream|(?:wait|record)_event"
    rb"|non_blocking|async_op|Async\(|synchronize|host_func|HostFunc|add_callback|AddCallback"
    rb"|CUDAGraph|cuda\.graph|graph_builder|copy_to_host|asnumpy|elapsed_time|\.(?:isend|irecv)"
    rb"|cudaMalloc|cuMemAlloc|managed_array|mapped_array|blocking=False|_pinned\(|DEFAULT_STREAM"
    rb"|(?:htod|dtoh|dtod|gpu|raw_read|raw_write)_async\(|execute_async|kvikio"
)

STREAM_WORDS = frozenset(
    {
        # streams: making, entering, selecting
        *("Stream", "stream", "ExternalStream", "stream_from_ptr", "get_stream", "current_stream"),
        *("default_stream", "set_stream", "use_stream", "create_stream", "external_stream"),
        # order
        *("wait_stream", "wait_event", "record_event", "record", "Event", "synchronize"),
        *("sync", "wait", "elapsed_time", "CUDAGraph", "begin_capture", "end_capture"),
        # lifetime
        *("record_stream",),
        # asynchronous copies and collectives
        *("non_blocking", "copy_to_host", "copy_to_device", "asnumpy", "async_op", "isend", "irecv"),
        # host callbacks
        *("add_callback", "launch_host_func", "async_done"),
    }
)
"""Names that a function which touches a stream, an event or an asynchronous copy has among its
``FunctionDecl.names``. Compound names (``copy_stream``, ``cudaMemcpyAsync``) are found by their
parts: see ``names_touch_streams``."""

_COMPOUND = re.compile(
    r"[sS]tream|Async\b|_async\b|execute_async|pread|HostFunc|AddCallback|Event(?:Record|Synchronize|Create)"
)
_NO_STREAM = frozenset({"downstream", "upstream", "streaming", "StreamHandler", "mainstream"})


def may_touch_gpu(data: bytes) -> bool:
    """Whether a file can hold asynchronous GPU work: it names a GPU library and some stream word."""
    return (
        _LIBRARY.search(data) is not None
        and any(part in data for part in _STREAM_PARTS)
        and _STREAM_TEXT.search(data) is not None
    )


def names_touch_streams(names: frozenset[str]) -> bool:
    """Whether the names of a function (``FunctionDecl.names``) tell of streams, events or async copies."""
    return not names.isdisjoint(STREAM_WORDS) or _has_compound(names - _NO_STREAM)


def _has_compound(names: Iterable[str]) -> bool:
    return _COMPOUND.search(" ".join(names)) is not None
