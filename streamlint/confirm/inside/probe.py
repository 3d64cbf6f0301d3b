"""What the probe calls of an instrumented program do."""

from __future__ import annotations

import sys
import threading
import time
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeVar

from streamlint.confirm.gpu.handles import (
    current_streams,
    handles,
    library_is_capturing,
    named_among,
    of_launch,
    on_callback_thread,
)
from streamlint.confirm.inside import cuda_errors
from streamlint.confirm.inside.hold import Hold, hold_back
from streamlint.confirm.inside.reuse import Block, block_of, hand_out

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlint.confirm.gpu.driver import Driver
    from streamlint.confirm.gpu.gate import Gate
    from streamlint.confirm.inside.reuse import Past
    from streamlint.confirm.terms import CudaError

T = TypeVar("T")

MAX_HOLDS: Final = 16
"""A statement in a long loop is held back this often; each time costs the whole delay at worst."""

MAX_ERRORS: Final = 64
"""Errors kept; polling an event returns "not ready" without end."""

_NAP_S: Final = 0.02
_MOST_NAPS: Final = 100
"""How long, and how often, a slow thread waits between two statements."""

_OVERTAKE_S: Final = 0.03
"""How long the later operation is watched while the earlier one is held back."""


class Mode(Enum):
    REFERENCE = "reference"
    """Serialized: the device is idle before and after every statement."""
    CONTROL = "control"
    """Serialized, with the delay: differs from the reference only if the program is noisy."""
    GATED = "gated"
    """The delay alone."""
    UNBLOCKED = "unblocked"
    """The delay, and the later statement left out: nothing waits there."""
    PLAIN = "plain"
    """The program as it is."""
    SLOW_MAIN = "slow main"
    """Serialized, and the program's main thread takes its time between statements."""
    SLOW_OTHERS = "slow others"
    """Serialized, and the other threads take theirs."""
    ORDER = "order"
    """The delay, and then both orders of the two operations on the memory that they found."""

    @property
    def serialized(self) -> bool:
        return self in (Mode.REFERENCE, Mode.CONTROL, *SLOW)

    @property
    def delays(self) -> bool:
        return self in (Mode.CONTROL, Mode.GATED, Mode.UNBLOCKED, Mode.ORDER)

    @property
    def races(self) -> bool:
        """Whether a later operation may come before an earlier one that is held back."""
        return self in (Mode.GATED, Mode.ORDER)


SLOW: Final = (Mode.SLOW_MAIN, Mode.SLOW_OTHERS)


class Probe:
    """The object that instrumented programs know as ``__streamlint__``."""

    def __init__(
        self,
        mode: Mode,
        driver: Driver,
        gate: Gate,
        turn: int | None = None,
        path: str = "",
        past: Past | None = None,
        *,
        hold: Hold = Hold.CURRENT,
    ) -> None:
        """``turn`` selects one execution of the earlier statement, counted from 0; ``None`` is each.

        ``path`` is the user's file, for the lines of errors. ``past`` is for an earlier statement
        that gives back memory which is used afterwards. ``hold``: see ``Plan``.
        """
        self.on_made: Callable[[object], None] | None = None
        """Is told what calls return in a serialized run."""
        self._past = past
        self._path = path
        self._how = hold
        self.mode = mode
        self._turn = turn
        self._driver = driver
        self._gate = gate
        self._later_streams: list[int] = []
        self._watching = False
        self._began = 0.0
        self._blocks: list[Block] = []
        self._kept: list[object] = []
        self._captures = 0
        self._others: dict[Hold, None] = {}
        self.reached = 0
        self.watched = 0
        self.waited_s = 0.0
        self.overtaken = False
        self.outlasted = False
        self.expired = False
        self.threads = False
        self._naps = 0
        self.errors: list[CudaError] = []

    def step(self) -> None:
        """Between two statements: the device becomes idle, where the run is serialized."""
        on_main = threading.current_thread() is threading.main_thread()
        self.threads = self.threads or not on_main
        if self.mode.serialized and not self._out_of_bounds():
            self._driver.synchronize()
        if self.mode in SLOW and on_main is (self.mode is Mode.SLOW_MAIN) and self._naps < _MOST_NAPS:
            self._naps += 1
            time.sleep(_NAP_S)

    def hold_current(self) -> None:
        """Before an earlier statement that names no stream: it runs on the current one."""
        self.hold_among()

    def hold(self, stream: T) -> T:
        """Around the stream argument of the earlier operation."""
        if self._is_held():
            self._hold(handles(stream))
        return stream

    def hold_launch(self, configuration: T) -> T:
        """Around the launch brackets of the earlier operation."""
        if self._is_held():
            self._hold(of_launch(configuration))
        return configuration

    def hold_arguments(self, arguments: tuple[object, ...]) -> tuple[object, ...]:
        """Around all arguments of a call that has its stream among them, if it is what its name says."""
        return self.hold_among(*arguments)

    def hold_among(self, *arguments: object) -> tuple[object, ...]:
        """Around the arguments of an earlier call that may have its stream among them."""
        if self._is_held():
            self._others |= dict.fromkeys(hold_back(self._gate, self._how, arguments))
        return arguments

    def hold_after(self, operand: T) -> T:
        """Around the operand of an earlier operation that is evaluated last."""
        self.hold_among()
        return operand

    def end_earlier(self, value: T | None = None) -> T | None:
        """After an earlier statement that names no stream: it may have waited for what was held back."""
        if self.mode is Mode.GATED and not self._out_of_bounds() and not self._gate.closed:
            self.outlasted = True
            if self._how is Hold.CURRENT:
                self._others[Hold.LATE] = None
        return value

    @property
    def others(self) -> tuple[Hold, ...]:
        """Other schedules, if nothing shows in this one."""
        return tuple(self._others)

    def _is_held(self) -> bool:
        """Count this execution of the earlier operation; whether it is one to hold back.

        To look a stream up is a CUDA call already, which a host callback must not make.
        """
        turn = self.reached
        self.reached += 1
        if not self.mode.delays or turn != (turn if self._turn is None else self._turn):
            return False
        if self._turn is None and turn >= MAX_HOLDS:
            return False
        return not self._out_of_bounds()

    def _hold(self, streams: list[int]) -> None:
        for stream in streams:
            self._gate.hold(stream)

    def proceeds(self) -> bool:
        """Whether a later statement that may never end is to run."""
        return self.mode is not Mode.UNBLOCKED

    def begin_later(self) -> None:
        """Before the later statement."""
        self.watched += 1
        self._later_streams = []
        looks = self.mode is Mode.GATED and not on_callback_thread()
        self._watching = looks and self._gate.closed
        self.expired = self.expired or (looks and self.reached > 0 and not self._watching)
        self._began = time.monotonic()

    def freed(self, value: T) -> T:
        """Around what a statement may give back."""
        if self._out_of_bounds():
            return value
        if self._past is not None:
            return self._past.free(value)
        block = block_of(value, self._driver)
        if block is not None:
            self._blocks.append(block)
        return value

    def made(self, value: T) -> T:
        """Around what an operator returns: it may be the last reference to its memory."""
        if self._past is not None and not self._out_of_bounds():
            self._past.see(value)
        if self.on_made is not None and self.mode.serialized and not self._out_of_bounds():
            self.on_made(value)
        return value

    def gave_back(self, value: T | None = None) -> T | None:
        """After an earlier statement that gives memory back: others own it from now on."""
        if self._is_held() and self._past is not None:
            self._past.hand_out()
        return value

    def later(self, stream: T) -> T:
        """Around a stream argument of the later operation."""
        if not on_callback_thread():
            self._later_streams.extend(handles(stream))
        return stream

    def later_launch(self, configuration: T) -> T:
        """Around the launch brackets of the later operation."""
        if not on_callback_thread():
            self._later_streams.extend(of_launch(configuration))
        return configuration

    def later_arguments(self, arguments: tuple[object, ...]) -> tuple[object, ...]:
        """Around all arguments of the later operation."""
        if not on_callback_thread():
            self._later_streams.extend(named_among(arguments))
        return arguments

    def end_later(self, value: T | None = None) -> T | None:
        """After the later statement: note whether its work finishes while the gate is closed."""
        self.waited_s = max(self.waited_s, time.monotonic() - self._began)
        if not self._out_of_bounds():
            # They stay until the end of the run, as another owner's would.
            self._kept += [hand_out(block, self._driver, self._later_streams) for block in self._blocks]
        self._blocks.clear()
        if self._watching and not self._out_of_bounds():
            streams = self._later_streams or current_streams()
            limit = time.monotonic() + _OVERTAKE_S
            while time.monotonic() < limit and self._gate.closed and not self.overtaken:
                done = all(self._driver.idle(stream) for stream in streams)
                self.overtaken = done and self._gate.closed
        return value

    def call(self, line: int, value: T) -> T:
        """Around the result of every call.

        Serializes inside a statement too, as in ``float(x.to("cpu", non_blocking=True)[0])``, and
        sees the errors that CUDA calls return.
        """
        self.step()
        if isinstance(value, tuple) and value:
            error = cuda_errors.of_status(value[0], line, in_callback=on_callback_thread())
            if error is not None:
                self._keep(error)
        return self.made(value)

    def capture_began(self, line: int, value: T) -> T:
        """Around the result of a call that begins a capture by hand."""
        self._captures += 1
        return self.call(line, value)

    def capture_ended(self, line: int, value: T) -> T:
        self._captures = 0
        return self.call(line, value)

    def caught(self) -> None:
        """At the start of an ``except`` block: the program may hide the error that was looked for."""
        self.raised(sys.exc_info()[1])

    def raised(self, error: BaseException | None) -> None:
        """An exception was seen."""
        in_callback = on_callback_thread()
        for found in cuda_errors.of_exception(error, self._path, self._driver, in_callback=in_callback):
            self._keep(found)

    def _keep(self, error: CudaError) -> None:
        if len(self.errors) < MAX_ERRORS and error not in self.errors:
            self.errors.append(error)

    def _out_of_bounds(self) -> bool:
        """Where CUDA calls are forbidden: in a host callback, and while work is captured."""
        return on_callback_thread() or self._captures > 0 or library_is_capturing()
