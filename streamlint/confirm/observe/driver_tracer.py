"""Every driver call of the process that no other tracer tells of: CuPy, Numba, cuda.core, Triton, C++.

The calls are seen through CUPTI, on any thread, and mean what the rows of the tables say, as those of
cuda-python do. Of PyTorch's operators and of cuda-python, which have tracers of their own, only what
orders is taken.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from typing import TYPE_CHECKING, Any

from streamlint.confirm.gpu.handles import on_callback_thread
from streamlint.confirm.inside.calls import Two, plain_name, queued
from streamlint.confirm.inside.cupti import Cupti
from streamlint.confirm.observe.cuda_tracer import Call, Calls
from streamlint.confirm.observe.driver_calls import LAUNCHES, ORDERS, WANTED, Decoded, decoded
from streamlint.confirm.observe.events import Touch
from streamlint.confirm.observe.kernels import Kernels, Watched
from streamlint.models.schema import Queries
from streamlint.trace import Space

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from streamlint.confirm.inside import cupti
    from streamlint.confirm.observe.aside import Aside
    from streamlint.confirm.observe.device import Device
    from streamlint.confirm.observe.events import Block, Touched
    from streamlint.confirm.observe.host_functions import HostFunctions
    from streamlint.confirm.observe.recorder import Recorder
    from streamlint.models.schema import Effect, HostCallback
    from streamlint.trace import EventId, Mode, StreamId

_OWN = __name__.partition(".")[0]
_NO_NAME = 1 << 16
"""Not the place of an argument in the source."""

_ASK_FOR_THEMSELVES = frozenset({"cupy"})
"""Libraries whose own Python code asks whether work is done, and tells nobody what the answer was.

``cp.asarray(host)`` copies by way of a pinned page, and asks whether the page can be used again. The answer
depends on how fast the copy was, and the program never gets it. What the program asks itself,
``event.done``, is asked by a frame of its own.
"""


class DriverTracer(Calls):
    """Tells the recorder what the driver is asked for."""

    def __init__(self, recorder: Recorder, device: Device, functions: HostFunctions, aside: Aside) -> None:
        super().__init__(recorder, device, functions)
        self._aside = aside
        self._kernels = Kernels(self._block_at, recorder.handles, recorder.orders_unseen)
        self._open: dict[int, tuple[Decoded | None, Watched | None]] = {}
        """By thread: the call that it is in."""
        self._captured: list[Touched] | None = None
        self._graphs: dict[int, list[Touched]] = {}
        """What graphs, and what can be launched of them, touch: by their handles."""
        self._launched: dict[int, EventId] = {}
        """Recorded behind the last launch of each."""

    def subscribe(self) -> Cupti:
        """See the calls from now on.

        :raises CuptiUnavailableError: driver calls cannot be seen.
        """
        return Cupti(WANTED, self.on_call, self._aside.depth, lambda name: plain_name(name) in ORDERS)

    def on_call(self, call: cupti.Call) -> None:
        thread = threading.get_ident()
        if not call.entering:
            self._left(call, *self._open.pop(thread, (None, None)))
            return
        name = plain_name(call.name)
        told = thread in self._aside.depth
        if told and name not in ORDERS:
            return
        if not told and on_callback_thread() and self.in_callback(name):
            return
        if name in LAUNCHES:
            self._open[thread] = None, self._launch(call)
        elif name == "cuGraphLaunch":
            self._launch_graph(call)
        elif name.endswith("Unload"):
            self._kernels.forget()  # the handles of its kernels may come again
        else:
            made = decoded(call)
            if made is not None:
                given = Call(made.api, made.given)
                for effect in made.api.effects:
                    self.before(given, effect)
            self._open[thread] = made, None

    def _left(self, call: cupti.Call, made: Decoded | None, watched: Watched | None) -> None:
        if watched is not None:
            self._kernels.done(watched)
        if made is None:
            if call.name.startswith("cuGraphInstantiate"):
                arguments = call.arguments(Two)
                self._graphs[_word(arguments.first)] = self._graphs.get(int(arguments.stream or 0), [])
            return
        result = made.outcome(call)
        given = Call(made.api, made.given)
        for effect in made.api.effects:
            if result[0] in (0, 600):
                self.after(given, effect, result)
            else:
                self.refused(given, effect)
        if made.api.name == "cuStreamBeginCapture" and result[0] == 0:
            self._captured = []
        elif made.api.name == "cuStreamEndCapture":
            self._graphs[result[1]] = self._captured or []
            self._captured = None

    def after(self, call: Call, effect: Effect, result: Any) -> None:
        if isinstance(effect, Queries) and _asker() in _ASK_FOR_THEMSELVES:
            return
        super().after(call, effect, result)

    def _late(self, call: Call, effect: HostCallback) -> None:
        """What is called may be no Python: to begin late it would have to wait for the interpreter."""

    # ------------------------------------------------------------------ work

    def _launch(self, call: cupti.Call) -> Watched | None:
        capturing = self._recorder.capturing
        touches, watched = self._kernels.launched(call, look=not capturing)
        self._recorder.work(self._on(call), call.symbol or "kernel", touches)
        if self._captured is not None:
            self._captured += touches
        return watched

    def _launch_graph(self, call: cupti.Call) -> None:
        graph, stream = int(call.arguments(Two).first or 0), self._on(call)
        done = self._launched.get(graph)
        if done is None:
            done = self._recorder.loose_event(self._here(), timing=None, of="graph launch").id
            self._launched[graph] = done
        else:
            # Two launches of one graph never overlap, whatever streams they are on.
            self._recorder.wait(stream, done, "graph launch")
        self._recorder.work(stream, "graph launch", list(self._graphs.get(graph, ())))
        self._recorder.record(done, stream)

    def _on(self, call: cupti.Call) -> StreamId:
        return self._recorder.stream(queued(call).stream or 0, self._here())

    def _block_at(self, address: int) -> Block | None:
        block = self._recorder.find(address)
        if block is None:
            space, start, length = self._device.memory(address)
            if space is not Space.PAGEABLE and length:
                block = self._recorder.unseen(start, length, space, self._here())
        return block

    def _touched(self, call: Call, name: str, mode: Mode) -> Iterator[Touch]:
        """Pageable memory is nobody's block: what Python frees is at the same address again."""
        for address, span, rows in call.ends(name):
            if not address or not span:
                continue
            block = self._block_at(address) or self._recorder.pageable(address, span)
            lo = address - block.start
            strides = None if rows is None else rows._replace(column=lo % rows.pitch)
            touch = Touch(block, mode, lo, lo + span, strides, operand=_NO_NAME)
            if self._captured is not None:
                self._captured.append(touch)
            yield touch


def _asker() -> str:
    """The package whose code runs, in Python or in what it has called."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package != _OWN:
            return package
        frame = frame.f_back
    return ""


def _word(address: int | None) -> int:
    """What the driver has written for a result."""
    return ctypes.c_uint64.from_address(address).value if address else 0
