"""Cheap tests on the bytes of a file, before anything is parsed or lowered.

``may_touch_gpu`` decides only where analysis *starts*. What a call resolves to may well stand in a module
that fails it.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_LIBRARY = re.compile(
    rb"cuda|cupy|torch|numba|rmm|accelerator|musa|npu|xpu|warp|kvikio|tensorrt|nixl|cudf|dali"
)

_WORDS = (
    *(b"Stream", b".stream", b"non_blocking", b"async_op", b"Async(", b"synchronize", b"host_func"),
    *(b"add_callback", b"AddCallback", b"CUDAGraph", b"cuda.graph", b"graph_builder", b"copy_to_host"),
    *(b"asnumpy", b"elapsed_time", b".isend", b".irecv", b"_c10d_functional", b"cudaMalloc", b"cuMemAlloc"),
    *(b"managed_array", b"mapped_array", b"blocking=False", b"_pinned(", b"DEFAULT_STREAM", b"execute_async"),
    *(b"kvikio", b"mpi4py", b"Pinned", b"pagelocked", b"malloc_managed", b"ScopedCapture"),
    *(b"graphed_callables", b"import ucp", b"ucxx", b"with_iobinding", b"initialize_xfer", b"prepped_xfer"),
    *(b"copy_to_external", b"release_outputs", b"HostFunc"),
)
"""Each is looked for by itself: one expression of all of them costs five times as much."""
_FAMILIES = (
    (b"_stream", b"wait current record default set get create", b"%s_stream"),
    (b"_event", b"wait record", b"%s_event"),
    (b"_async(", b"htod dtoh dtod gpu raw_read raw_write memcpy_peer get set copy_from", b"%s_async("),
    (b"pinned", b"_ =", b"pinned%s"),
    (b"pinned", b"=", b"pinned %s"),
    (b"allocManaged", b"m M", b"%sallocManaged"),
    (b"managed_", b"empty zeros", b"managed_%s"),
    (b"capture_", b"begin end launch", b"capture_%s"),
    (b"_capture", b"begin end", b"%s_capture"),
    (b"copy_from_", b"device host", b"copy_from_%s"),
    (b"sync_p", b"read write", b"sync_p%s"),
    (b"transfer_", b"sync_read async_read submit_read sync_write async_write submit_write", b"transfer_%s"),
)
"""Words that have a part in common: of a file without that none is looked for."""
_KIN = tuple((part, tuple(form % word for word in words.split())) for part, words, form in _FAMILIES)
_BY_PLACE = re.compile(rb"\.(?:copy_|to|cuda)\([^#\n]{1,80}, True\)")


def may_touch_gpu(data: bytes) -> bool:
    """Whether a file can hold asynchronous GPU work: it names a GPU library and some stream word."""
    return _LIBRARY.search(data) is not None and _has_stream_word(data)


def _has_stream_word(data: bytes) -> bool:
    return (
        any(word in data for word in _WORDS)
        or any(part in data and any(word in data for word in words) for part, words in _KIN)
        or (b", True)" in data and _BY_PLACE.search(data) is not None)
    )


_IMPORTS = re.compile(
    rb"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+([(][^()]*[)]|[^\n]*)|import[ \t]+([^\n]*))",
    re.MULTILINE,
)


def imports(data: bytes) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The modules that a file imports, as it names them (``..track``), with what it takes of each.

    What stands in a text is taken for an import, too.
    """
    for found in _IMPORTS.finditer(data.removeprefix(BOM_UTF8)):
        module, taken, plain = (part.decode("utf-8", "replace") if part else "" for part in found.groups())
        for name in _names(plain):
            yield name, ()
        if module:
            yield module, tuple(_names(taken))


def _names(text: str) -> list[str]:
    """``a.b as c, d  # why``"""
    code = re.sub(r"#[^\n]*|\bas\s+\w+", "", text)
    return re.findall(r"[\w.]+", code)


def may_hold_comments(data: bytes) -> bool:
    """Whether a file can hold a comment that is meant for streamlint."""
    return b"streamlint:" in data
