"""What experiments are made of: streams, memory, and work that is held back.

Everything goes through the driver API, which the runtime API and all libraries call. Integers
stand for handles and addresses.
"""

from __future__ import annotations

import ctypes
import time
from typing import TYPE_CHECKING, Final

from streamlint.confirm.doctor.axiom import ORDERED, RETURNS, UNORDERED, WAITS
from streamlint.confirm.gpu.driver import NOT_READY, DriverError
from streamlint.confirm.gpu.gate import Gate
from streamlint.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlint.confirm.gpu.driver import Driver

LEGACY: Final = 1
LEGACY_TOO: Final = 0
PER_THREAD: Final = 2
OLD: Final = 1
NEW: Final = 7
LATER: Final = 9
SMALL: Final = 64 << 10
LARGE: Final = 8 << 20

_WINDOW_S = 0.04
"""Work that has not run by then, although nothing else holds it back, waits for the gate."""
_HOLD_MS = 3000.0
"""A gate that is released by hand; the limit is for accidents."""
_TIMED_MS = 100.0
"""A gate that ends by itself, behind which a call that blocks returns."""


class Lab:
    """One process on one machine. ``clean`` after each experiment."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        driver.activate()
        self._gate = Gate(driver, _HOLD_MS)
        self._timed = Gate(driver, _TIMED_MS)
        self._undo: list[Callable[[], object]] = []
        self.kept: list[object] = []
        self._warm()

    def _warm(self) -> None:
        """First uses load kernels, which can wait for the device and hide a missing order."""
        stream = self.non_blocking()
        for size in (SMALL, LARGE):
            a, b = self.device(size), self.device(size)
            self.fill(a, NEW, stream, size)
            self.copy(b, a, stream, size)
            self.copy(self.pinned(size), a, stream, size)
        for gate in (self._gate, self._timed):
            gate.release()
            gate.hold(stream)
        self.clean()

    # Calls

    def code(self, name: str, *arguments: object) -> int:
        """The result code; integers are passed as 64-bit words, which registers hold anyway."""
        words = [ctypes.c_uint64(a) if isinstance(a, int) else a for a in arguments]
        return self.driver.call(name, *words)

    def call(self, name: str, *arguments: object) -> None:
        """:raises DriverError: the call failed."""
        code = self.code(name, *arguments)
        if code:
            raise DriverError(f"{name} returned {self.driver.error_name(code)} ({code})")

    def made(self, name: str, *arguments: object) -> int:
        """What a call stores at its first argument."""
        out = ctypes.c_uint64()
        self.call(name, ctypes.byref(out), *arguments)
        return out.value

    # Things, gone after the experiment

    def blocking(self) -> int:
        return self._stream(0)

    def non_blocking(self) -> int:
        return self._stream(1)

    def _stream(self, flags: int) -> int:
        stream = self.made("cuStreamCreate", flags)
        self._undo.append(lambda: self.call("cuStreamDestroy_v2", stream))
        return stream

    def event(self) -> int:
        """One that was never recorded."""
        without_timing = 2
        event = self.made("cuEventCreate", without_timing)
        self._undo.append(lambda: self.code("cuEventDestroy_v2", event))
        return event

    def device(self, size: int = SMALL, value: int = OLD) -> int:
        """Device memory, filled."""
        address = self.made("cuMemAlloc_v2", size)
        self._undo.append(lambda: self.call("cuMemFree_v2", address))
        self.call("cuMemsetD8_v2", address, value, size)
        self.call("cuCtxSynchronize")
        return address

    def pinned(self, size: int = SMALL, value: int = OLD) -> int:
        address = self.made("cuMemHostAlloc", size, 0)
        self._undo.append(lambda: self.call("cuMemFreeHost", address))
        ctypes.memset(address, value, size)
        return address

    def pageable(self, size: int = SMALL, value: int = OLD) -> int:
        memory = ctypes.create_string_buffer(size)
        self.kept.append(memory)
        address = ctypes.addressof(memory)
        ctypes.memset(address, value, size)
        return address

    def after(self, undo: Callable[[], object]) -> None:
        """Call ``undo`` when the experiment is over and all work is done."""
        self._undo.append(undo)

    # Work

    def fill(self, address: int, value: int, stream: int, size: int = SMALL) -> None:
        self.call("cuMemsetD8Async", address, value, size, stream)

    def copy(self, target: int, source: int, stream: int, size: int = SMALL) -> None:
        """``cudaMemcpyAsync``, in the direction that the addresses tell."""
        self.call("cuMemcpyAsync", target, source, size, stream)

    def record(self, stream: int, event: int | None = None) -> int:
        event = self.event() if event is None else event
        self.call("cuEventRecord", event, stream)
        return event

    def wait(self, stream: int, event: int) -> None:
        self.call("cuStreamWaitEvent", stream, event, 0)

    def order(self, earlier: int, later: int) -> None:
        self.wait(later, self.record(earlier))

    def end_capture(self, stream: int) -> int:
        """The graph."""
        graph = ctypes.c_uint64()
        self.call("cuStreamEndCapture", stream, ctypes.byref(graph))
        return graph.value

    def done(self, event: int) -> bool:
        code = self.code("cuEventQuery", event)
        if code not in (0, NOT_READY):
            raise DriverError(f"cuEventQuery returned {code}")
        return code == 0

    def synchronize(self) -> None:
        self.call("cuCtxSynchronize")

    # What was seen

    def hold(self, stream: int) -> None:
        """Hold ``stream`` back until ``let_go``."""
        self._gate.hold(stream)

    def hold_for_a_while(self, stream: int) -> None:
        self._timed.hold(stream)

    @property
    def held(self) -> bool:
        return self._gate.closed or self._timed.closed

    def let_go(self) -> None:
        """Release what is held back, and wait for everything."""
        self._gate.release()
        self._timed.release()
        self.driver.synchronize()
        self._gate.rearm()
        self._timed.rearm()

    def done_soon(self, event: int) -> bool:
        limit = time.monotonic() + _WINDOW_S
        while not self.done(event):
            if time.monotonic() > limit:
                return False
            time.sleep(0.0005)
        return True

    def overtakes(self, stream: int) -> str:
        """Whether what is queued on ``stream`` is done while another stream is held back."""
        return UNORDERED if self.done_soon(self.record(stream)) else ORDERED

    def waits(self, call: Callable[[], object], busy: int) -> str:
        """Whether ``call`` returns only after the work that is pending on ``busy``."""
        self.hold_for_a_while(busy)
        call()
        seen = RETURNS if self.held else WAITS
        self.let_go()
        return seen

    def byte(self, address: int, size: int = SMALL) -> int:
        """The last byte of a block of memory, host or device, after all work is done."""
        self.synchronize()
        out = ctypes.c_ubyte()
        self.call("cuMemcpy", ctypes.addressof(out), address + size - 1, 1)
        return out.value

    def clean(self) -> None:
        """:raises DriverError: an experiment left an error behind; the process is of no use any more."""
        self.let_go()
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()
        self.kept.clear()


def host_byte(address: int, size: int = SMALL) -> int:
    """The last byte of host memory as the host sees it now."""
    return ctypes.c_ubyte.from_address(address + size - 1).value


@frozen()
class Race:
    """A value written behind a gate, and read on another stream."""

    lab: Lab
    data: int
    out: int

    @classmethod
    def of(cls, lab: Lab) -> Race:
        return cls(lab, lab.device(), lab.device())

    def write(self, stream: int) -> None:
        """The write is held back until ``read`` has had its time."""
        self.lab.hold(stream)
        self.lab.fill(self.data, NEW, stream)

    def write_soon(self, stream: int) -> None:
        """The write comes by itself, after a while."""
        self.lab.hold_for_a_while(stream)
        self.lab.fill(self.data, NEW, stream)

    def read(self, stream: int) -> str:
        """Whether the read saw the write: both by its value and by the time at which it was done."""
        self.lab.copy(self.out, self.data, stream)
        overtook = self.lab.done_soon(self.lab.record(stream)) and self.lab.held
        self.lab.let_go()
        value = self.lab.byte(self.out)
        if overtook and value == NEW:
            return f"read {value} before it was written"
        return ORDERED if value == NEW else UNORDERED
