"""What the probe calls of an instrumented program do."""

from __future__ import annotations

import sys
import threading
import time
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeVar

from streamlint.confirm.driver import NOT_READY
from streamlint.confirm.verdict import CudaError

if TYPE_CHECKING:
    from streamlint.confirm.driver import Driver
    from streamlint.confirm.gate import Gate

T = TypeVar("T")

MAX_HOLDS: Final = 16
"""A statement in a long loop is held back this often; each time costs the whole delay at worst."""

_OVERTAKE_S: Final = 0.03
"""How long the later operation is watched while the earlier one is held back."""

_ERROR_TYPES: Final = ("cudaError_t", "CUresult")


class Mode(Enum):
    REFERENCE = "reference"
    """Serialized: the device is idle before and after every statement."""
    CONTROL = "control"
    """Serialized, with the delay: differs from the reference only if the program is noisy."""
    GATED = "gated"
    """The delay alone."""

    @property
    def serialized(self) -> bool:
        return self is not Mode.GATED

    @property
    def delays(self) -> bool:
        return self is not Mode.REFERENCE


class Probe:
    """The object that instrumented programs know as ``__streamlint__``."""

    def __init__(self, mode: Mode, driver: Driver, gate: Gate, turn: int | None = None) -> None:
        """``turn`` selects one execution of the earlier statement, counted from 0; ``None`` is each."""
        self._mode = mode
        self._turn = turn
        self._driver = driver
        self._gate = gate
        self._later_streams: list[int] = []
        self._watching = False
        self.reached = 0
        self.overtaken = False
        self.callback_errors: list[CudaError] = []

    def step(self) -> None:
        """Between two statements: the device becomes idle, where the run is serialized."""
        if self._mode.serialized and not on_callback_thread() and not _capturing():
            self._driver.synchronize()

    def hold_current(self) -> None:
        """Before an earlier statement that names no stream: it runs on the current one."""
        self._hold(current_streams())

    def hold(self, stream: T) -> T:
        """Around the stream argument of the earlier operation."""
        self._hold(handles(stream))
        return stream

    def _hold(self, streams: list[int]) -> None:
        turn = self.reached
        self.reached += 1
        if not self._mode.delays or turn >= MAX_HOLDS or self._turn not in (None, turn):
            return
        if not on_callback_thread() and not _capturing():
            for stream in streams:
                self._gate.hold(stream)

    def begin_later(self) -> None:
        """Before the later statement."""
        self._later_streams = []
        self._watching = self._mode is Mode.GATED and not on_callback_thread() and self._gate.closed

    def later(self, stream: T) -> T:
        """Around a stream argument of the later operation."""
        self._later_streams.extend(handles(stream))
        return stream

    def end_later(self, value: T | None = None) -> T | None:
        """After the later statement: note whether its work finishes while the gate is closed."""
        if self._watching and not _capturing():
            streams = self._later_streams or current_streams()
            limit = time.monotonic() + _OVERTAKE_S
            while time.monotonic() < limit and self._gate.closed and not self.overtaken:
                done = all(self._driver.idle(stream) for stream in streams)
                self.overtaken = done and self._gate.closed
        return value

    def call(self, line: int, value: T) -> T:
        """Around the result of every call.

        Serializes inside a statement too, as in ``float(x.to("cpu", non_blocking=True)[0])``, and
        sees the errors that CUDA calls in host callbacks return.
        """
        self.step()
        if isinstance(value, tuple) and value and on_callback_thread():
            code = _error_code(value[0])
            if code:
                self.callback_errors.append(CudaError(_error_name(value[0]), code, line))
        return value

    def raised(self, error: BaseException | None, line: int) -> None:
        """An exception left a host callback."""
        # CuPy: CUDARuntimeError.status; torch: AcceleratorError.error_code, or the text alone
        code = getattr(error, "status", getattr(error, "error_code", None))
        if isinstance(code, int) or "CUDA error" in str(error):
            name = str(error).splitlines()[0] if str(error) else type(error).__name__
            self.callback_errors.append(CudaError(name, code if isinstance(code, int) else 0, line))


def on_callback_thread() -> bool:
    """Host callbacks run on a thread of the driver, which Python knows only as a dummy."""
    return isinstance(threading.current_thread(), threading._DummyThread)


def _error_code(status: Any) -> int:  # noqa: ANN401
    if type(status).__name__ not in _ERROR_TYPES:
        return 0
    code = int(status)
    return 0 if code == NOT_READY else code


def _error_name(status: Any) -> str:  # noqa: ANN401
    return str(getattr(status, "name", status))


def handles(stream: Any) -> list[int]:  # noqa: ANN401
    """The driver's handle of a stream object of any library; ``None`` is the current stream."""
    if stream is None:
        return current_streams()
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        return [int(protocol()[1] if callable(protocol) else protocol[1])]
    # torch: cuda_stream; CuPy: ptr; Numba and cuda.core: handle
    for name in ("cuda_stream", "ptr", "handle"):
        found = getattr(stream, name, None)
        if found is not None:
            value = getattr(found, "value", found)
            return [int(value or 0)]
    try:
        return [int(stream)]
    except (TypeError, ValueError):
        return current_streams()


def current_streams() -> list[int]:
    """The current stream of each loaded library; the legacy default stream where none has one."""
    found: list[int] = []
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        found.append(int(torch.cuda.current_stream().cuda_stream))
    cupy = sys.modules.get("cupy")
    if cupy is not None:
        found.append(int(cupy.cuda.get_current_stream().ptr))
    return sorted(set(found)) or [0]


def _capturing() -> bool:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return False
    return bool(torch.cuda.is_current_stream_capturing())
