"""When the device began and ended what was queued: CUPTI's activity records.

They are asked for in a run of their own, whose verdict nobody looks at: what CUPTI does to measure
kernels may change when they run.
"""

from __future__ import annotations

import ctypes
import re
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from streamlint.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Iterator

_BUFFER: Final = 1 << 20
_FLUSH_ALL: Final = 1
_COPY, _FILL, _KERNEL = 1, 2, 10

_Request: Final = ctypes.CFUNCTYPE(
    None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t)
)
_Complete: Final = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t
)


class _Kernel(ctypes.Structure):
    """The beginning of ``CUpti_ActivityKernel4`` and of all that came after it."""

    _fields_ = (
        ("kind", ctypes.c_uint32),
        ("configuration", ctypes.c_uint32 * 3),
        ("start", ctypes.c_uint64),
        ("end", ctypes.c_uint64),
        ("completed", ctypes.c_uint64),
        ("device", ctypes.c_uint32),
        ("context", ctypes.c_uint32),
        ("stream", ctypes.c_uint32),
        ("shape", ctypes.c_uint32 * 10),
        ("correlation", ctypes.c_uint32),
        ("grid", ctypes.c_int64),
        ("name", ctypes.c_char_p),
    )


class _Copy(ctypes.Structure):
    """The beginning of ``CUpti_ActivityMemcpy`` and ``CUpti_ActivityMemset``, which is the same."""

    _fields_ = (
        ("kind", ctypes.c_uint32),
        ("what", ctypes.c_uint32),
        ("bytes", ctypes.c_uint64),
        ("start", ctypes.c_uint64),
        ("end", ctypes.c_uint64),
        ("device", ctypes.c_uint32),
        ("context", ctypes.c_uint32),
        ("stream", ctypes.c_uint32),
        ("correlation", ctypes.c_uint32),
    )


@cache
def _readable(symbol: bytes) -> str:
    """``at::native::vectorized_elementwise_kernel`` of the mangled name of one of its instances."""
    text = symbol
    with suppress(OSError, AttributeError):
        status = ctypes.c_int()
        demangle = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
        demangle.restype = ctypes.c_void_p
        address = demangle(symbol, None, None, ctypes.byref(status))
        text = ctypes.string_at(address) if address else symbol
    # Not a bracket at the beginning: `void (anonymous namespace)::fill<float>(...)`.
    name = text.decode(errors="replace").removeprefix("void ")
    return re.sub(r"(?<=.)[<(].*", "", name)


@frozen()
class Record:
    """Work of the device, in nanoseconds of CUPTI's clock; ``stream`` is CUPTI's number of it."""

    name: str
    stream: int
    correlation: int
    start: int
    end: int


class Activity:
    """Records kernels, copies and memsets of the process from now on."""

    def __init__(self, cupti: Any) -> None:  # noqa: ANN401
        self._cupti = cupti
        self._buffers: dict[int, ctypes.Array[ctypes.c_char]] = {}
        self._records: list[Record] = []
        self._request, self._complete = _Request(self._asked), _Complete(self._filled)
        cupti.cuptiActivityRegisterCallbacks(self._request, self._complete)
        for kind in (_COPY, _FILL, _KERNEL):
            cupti.cuptiActivityEnable(kind)

    def now(self) -> int:
        """Of the clock of the records."""
        time = ctypes.c_uint64()
        self._cupti.cuptiGetTimestamp(ctypes.byref(time))
        return time.value

    def records(self) -> list[Record]:
        """All that is complete; the device must be idle."""
        self._cupti.cuptiActivityFlushAll(_FLUSH_ALL)
        return list(self._records)

    def _asked(self, buffer: Any, size: Any, most: Any) -> None:  # noqa: ANN401
        memory = ctypes.create_string_buffer(_BUFFER)
        address = ctypes.addressof(memory)
        self._buffers[address] = memory
        buffer[0], size[0], most[0] = address, _BUFFER, 0

    def _filled(self, _context: object, _stream: int, buffer: int, _size: int, valid: int) -> None:
        self._records += self._read(buffer, valid)
        self._buffers.pop(buffer, None)

    def _read(self, buffer: int, valid: int) -> Iterator[Record]:
        at = ctypes.c_void_p()
        where = ctypes.c_void_p(buffer), ctypes.c_size_t(valid), ctypes.byref(at)
        while self._cupti.cuptiActivityGetNextRecord(*where) == 0 and at.value:
            kind = ctypes.c_uint32.from_address(at.value).value
            if kind == _KERNEL:
                kernel = _Kernel.from_address(at.value)
                name = _readable(kernel.name or b"")
                yield Record(name, kernel.stream, kernel.correlation, kernel.start, kernel.end)
            elif kind in (_COPY, _FILL):
                copy = _Copy.from_address(at.value)
                name = "copy" if kind == _COPY else "memset"
                yield Record(name, copy.stream, copy.correlation, copy.start, copy.end)
