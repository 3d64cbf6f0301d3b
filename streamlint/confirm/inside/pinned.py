"""Page-locked host memory, which the driver hands out again with its contents.

A program may be called once before its run, and its runs may share a process. What one of them copied
into a pinned buffer would be found again in the next one: the right value, which nothing waited for. Of
``cuMemHostAlloc`` buffers get fresh pages from 1 MB on, which are zero, and smaller ones do not; seen on
an H200 (driver 580). The libraries keep larger ones.
"""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from streamlint.confirm.gpu.driver import Driver

_MORE: Final = 2
"""Blocks beside those that the program had: it may have had some at a time that were not seen."""

_MOST: Final = 64
"""Blocks of one size."""

_LARGEST: Final = 1 << 22
"""Bytes."""


class Pinned:
    """The sizes of the pinned buffers that a program had."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._sizes: Counter[int] = Counter()

    def see(self, value: object) -> None:
        """Look at what a call returned."""
        address = _host_address(value)
        size = self._driver.pinned_size(address) if address else 0
        if 0 < size < _LARGEST and self._sizes[size] < _MOST:
            self._sizes[size] += 1

    def overwrite(self, value: int) -> None:
        """Fill what the driver would hand out next; nothing of the program's may be in use."""
        for size, count in self._sizes.items():
            self._driver.overwrite_pinned(size, count + _MORE, value)


def _host_address(value: Any) -> int:  # noqa: ANN401
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        with suppress(RuntimeError):  # a sparse tensor, for one, has no address
            return int(value.data_ptr()) if value.device.type == "cpu" else 0
        return 0
    if type(value).__name__ == "PinnedMemoryPointer":  # of CuPy
        return int(value.ptr)
    interface = getattr(value, "__array_interface__", None) if type(value).__module__ == "numpy" else None
    return int(interface["data"][0]) if interface else 0
