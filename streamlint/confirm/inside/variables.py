"""Variables of a module of kernels, which outlive a run.

CuPy loads the module of a ``RawModule`` once in a process. What the call before the run wrote into
its variables would be found again by the run itself: the right value, which it did not wait for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from streamlint.confirm.gpu.driver import Driver

_LARGEST: Final = 1 << 26


class Variables:
    """What they held when the program first asked for them."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._first: dict[int, bytes] = {}

    def see(self, value: Any) -> None:  # noqa: ANN401
        """Look at what a call returned; the device must be idle."""
        # The MemoryPointer of `get_global`: arrays own their memory, and whoever wraps that of another
        # library, which will free it, knows its size. `get_global` does not, and gives 0.
        if type(value).__name__ != "MemoryPointer" or type(value.mem).__name__ != "UnownedMemory":
            return
        if value.mem.size > 0:
            return
        address = int(value.ptr)
        size = self._driver.rest_of_range(address)
        if address not in self._first and 0 < size <= _LARGEST:
            self._first[address] = self._driver.peek(address, size)

    def restore(self) -> None:
        """Give all of them their first contents; the device must be idle."""
        for address, content in self._first.items():
            self._driver.poke(address, content)
