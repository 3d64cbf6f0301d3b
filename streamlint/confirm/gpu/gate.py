"""Holding a stream back: a kernel that spins until it is released or its time is over.

A delay is a schedule that the hardware may choose by itself. So a correctly ordered program returns
the same value with any delays, and a value that changes is a shown race, wherever the gate stands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from streamlint.confirm.gpu.driver import DriverError
from streamlint.confirm.gpu.handles import current_streams

if TYPE_CHECKING:
    import ctypes

    from streamlint.confirm.gpu.driver import Driver

PTX_NAME: Final = "streamlint_hold"

TARGETS: Final = (("6.3", "sm_75"), ("6.0", "sm_52"))
"""PTX versions and architectures, newest first: drivers drop old architectures, old GPUs lack new ones."""

PTX: Final = """
.version {version}
.target {target}
.address_size 64
.visible .entry streamlint_hold(.param .u64 flag, .param .u64 limit)
{{
    .reg .pred %p<3>;
    .reg .b32 %r<2>;
    .reg .b64 %rd<7>;
    ld.param.u64 %rd1, [flag];
    cvta.to.global.u64 %rd2, %rd1;
    ld.param.u64 %rd3, [limit];
    mov.u64 %rd4, %globaltimer;
SPIN:
    ld.volatile.global.u32 %r1, [%rd2];
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra DONE;
    mov.u64 %rd5, %globaltimer;
    sub.u64 %rd6, %rd5, %rd4;
    setp.lt.u64 %p2, %rd6, %rd3;
    @%p2 bra SPIN;
DONE:
    ret;
}}
"""


class Gate:
    """Holds streams back for ``limit_ms`` each, or until ``release``."""

    def __init__(
        self, driver: Driver, limit_ms: float, kernels: dict[int, ctypes.c_void_p] | None = None
    ) -> None:
        """``kernels``: those of earlier gates of the process, by context."""
        self._driver = driver
        self.limit_ms = limit_ms
        self._flag, self._flag_address = driver.mapped_word()
        self._kernels = {} if kernels is None else kernels
        self._pending: list[ctypes.c_void_p] = []
        # Compiling and loading take longer than a gate holds, so they must not happen behind one.
        self._kernel(driver.context_of(0))

    def hold(self, stream: int) -> None:
        """Queue the gate on the stream with this handle (0 is the legacy default stream)."""
        context = self._driver.context_of(stream)
        with self._driver.pushed(context):
            kernel = self._kernel(context)
            self._driver.launch(kernel, stream, (self._flag_address, int(self.limit_ms * 1e6)))
            self._pending.append(self._driver.record(stream))

    def hold_elsewhere(self) -> None:
        """Queue the gate on the current streams of the other devices that are in use."""
        for device in self._driver.elsewhere():
            for stream in current_streams(device):
                self.hold(stream)

    @property
    def closed(self) -> bool:
        """Whether some stream is still held back."""
        self._pending = [event for event in self._pending if not self._driver.done(event)]
        return bool(self._pending)

    def release(self) -> None:
        """Let all streams go, and hold none any more."""
        self._flag.value = 1

    def rearm(self) -> None:
        """Hold streams again after a release; all that was held must be done."""
        self._flag.value = 0

    def _kernel(self, context: ctypes.c_void_p) -> ctypes.c_void_p:
        key = context.value or 0
        if key not in self._kernels:
            self._kernels[key] = load(self._driver)
        return self._kernels[key]


def load(driver: Driver) -> ctypes.c_void_p:
    failure: DriverError | None = None
    for version, target in TARGETS:
        try:
            return driver.load(PTX.format(version=version, target=target), PTX_NAME)
        except DriverError as error:  # noqa: PERF203 two targets at most
            failure = error
    raise DriverError(f"the gate kernel could not be loaded: {failure}")
