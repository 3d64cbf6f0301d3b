"""What the driver knows about handles and addresses that were not seen when they were made."""

from __future__ import annotations

import ctypes
from typing import Any

from streamlint.trace import Space, StreamKind

_NON_BLOCKING = 1
_DEVICE_MEMORY = 2
_MEMORY_TYPE, _IS_MANAGED = 2, 8


class Device:
    """Questions to the CUDA driver; without a driver nothing is known."""

    def __init__(self) -> None:
        try:
            self._cuda: Any = ctypes.CDLL("libcuda.so.1")
        except OSError:
            self._cuda = None

    def stream_kind(self, handle: int) -> StreamKind:
        flags = ctypes.c_uint()
        if self._cuda is None or self._cuda.cuStreamGetFlags(ctypes.c_void_p(handle), ctypes.byref(flags)):
            return StreamKind.UNKNOWN
        return StreamKind.NON_BLOCKING if flags.value & _NON_BLOCKING else StreamKind.BLOCKING

    def current(self) -> str:
        """The number of the current device; 0 as long as there is no context."""
        number = ctypes.c_int()
        if self._cuda is None or self._cuda.cuCtxGetDevice(ctypes.byref(number)):
            return "0"
        return str(number.value)

    def memory(self, address: int) -> tuple[Space, int, int]:
        """Where an address lies, and the first address and the size of its allocation (0: not known)."""
        kind, managed = ctypes.c_uint(), ctypes.c_uint()
        if self._cuda is None or self._attribute(_MEMORY_TYPE, kind, address):
            # The driver does not know ordinary memory of the process.
            return Space.PAGEABLE, address, 0
        self._attribute(_IS_MANAGED, managed, address)
        start, size = ctypes.c_uint64(), ctypes.c_size_t()
        found = self._cuda.cuMemGetAddressRange_v2(
            ctypes.byref(start), ctypes.byref(size), ctypes.c_uint64(address)
        )
        where = (start.value, size.value) if found == 0 else (address, 0)
        if managed.value:
            return Space.MANAGED, *where
        return (Space.DEVICE if kind.value == _DEVICE_MEMORY else Space.PINNED), *where

    def _attribute(self, attribute: int, value: ctypes.c_uint, address: int) -> int:
        return int(self._cuda.cuPointerGetAttribute(ctypes.byref(value), attribute, ctypes.c_uint64(address)))
