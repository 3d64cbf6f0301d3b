"""What CUDA refuses: calls in host callbacks, and calls during a stream capture."""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING, Final

from streamlint.confirm.doctor.axiom import ORDERED, UNORDERED, Axiom, Basis, Group
from streamlint.confirm.doctor.lab import SMALL, Lab

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlint.confirm.doctor.axiom import Measure

_G, _M = Basis.GUARANTEED, Basis.MEASURED

_HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)


def answer(code: int) -> str:
    return f"error {code}" if code else "success"


# ----------------------------------------------------------------------------- host callbacks


def queue(lab: Lab, stream: int, body: Callable[[], object]) -> None:
    """``cudaLaunchHostFunc``."""
    function = _HOST_FUNCTION(lambda _: _ignored(body()))
    lab.kept.append(function)
    lab.call("cuLaunchHostFunc", stream, ctypes.cast(function, ctypes.c_void_p), None)


def _queue_old(lab: Lab, stream: int, body: Callable[[], object]) -> None:
    """``cudaStreamAddCallback``."""
    function = _CALLBACK(lambda _s, _code, _d: _ignored(body()))
    lab.kept.append(function)
    lab.call("cuStreamAddCallback", stream, ctypes.cast(function, ctypes.c_void_p), None, 0)


def _ignored(value: object) -> None:
    """A host function returns nothing."""
    del value


def body_comes_after(lab: Lab) -> str:
    stream, ran = lab.non_blocking(), list[int]()
    lab.hold(stream)
    queue(lab, stream, lambda: ran.append(1))
    lab.done_soon(lab.record(stream))
    early = bool(ran)
    lab.let_go()
    return UNORDERED if early else ORDERED


def work_comes_after(lab: Lab) -> str:
    """Later work of the stream, while the body has not returned."""
    stream, data, go = lab.non_blocking(), lab.device(), threading.Event()
    queue(lab, stream, lambda: go.wait(5))
    lab.fill(data, 0, stream)
    seen = lab.overtakes(stream)
    go.set()
    lab.let_go()
    return seen


def in_callback(call: Callable[[Lab, Things], int], *, old: bool = False) -> Measure:
    """The code that a call returns inside a callback."""

    def measure(lab: Lab) -> str:
        stream, codes = lab.non_blocking(), list[int]()
        things = Things(lab)
        put = _queue_old if old else queue
        put(lab, stream, lambda: codes.append(call(lab, things)))
        lab.call("cuStreamSynchronize", stream)
        return answer(codes[0])

    return measure


class Things:
    """What calls in callbacks work on; made before, where calls are allowed."""

    def __init__(self, lab: Lab) -> None:
        self.stream, self.event = lab.non_blocking(), lab.event()
        self.data, self.pinned, self.block = lab.device(), lab.pinned(), lab.made("cuMemAlloc_v2", SMALL)
        self.out = ctypes.c_uint64()
        lab.call("cuEventRecord", self.event, self.stream)
        lab.synchronize()
        # Not freed by the callback if it must not free.
        lab.after(lambda: lab.code("cuMemFree_v2", self.block))


_FORBIDDEN: Final[dict[str, Callable[[Lab, Things], int]]] = {
    "cuMemcpyAsync": lambda lab, t: lab.code("cuMemcpyAsync", t.pinned, t.data, SMALL, t.stream),
    "cuMemAlloc": lambda lab, t: lab.code("cuMemAlloc_v2", ctypes.byref(t.out), SMALL),
    "cuMemHostAlloc": lambda lab, t: lab.code("cuMemHostAlloc", ctypes.byref(t.out), SMALL, 0),
    "cuMemFree": lambda lab, t: lab.code("cuMemFree_v2", t.block),
    "cuCtxSynchronize": lambda lab, _: lab.code("cuCtxSynchronize"),
    "cuStreamCreate": lambda lab, t: lab.code("cuStreamCreate", ctypes.byref(t.out), 1),
}
_PASSES: Final[dict[str, Callable[[Lab, Things], int]]] = {
    "cuEventQuery": lambda lab, t: lab.code("cuEventQuery", t.event),
    "cuEventSynchronize": lambda lab, t: lab.code("cuEventSynchronize", t.event),
    "cuStreamQuery": lambda lab, t: lab.code("cuStreamQuery", t.stream),
    "cuStreamSynchronize": lambda lab, t: lab.code("cuStreamSynchronize", t.stream),
    "cuEventRecord": lambda lab, t: lab.code("cuEventRecord", t.event, t.stream),
    "cuStreamWaitEvent": lambda lab, t: lab.code("cuStreamWaitEvent", t.stream, t.event, 0),
}
_REFUSED_BY_DRIVER = "a copy, allocation, free, stream creation or device synchronize of the driver API there"
_ACCEPTED = "a query, record, wait or synchronize of the driver API there, on a finished event or stream"

CALLBACKS: Final = Group(
    "Host callbacks",
    (
        Axiom(
            "a host callback and work of its stream",
            ORDERED,
            _G,
            body_comes_after,
            "earlier work, then the body",
        ),
        Axiom(
            "a host callback and work of its stream",
            ORDERED,
            _G,
            work_comes_after,
            "the body, then later work",
        ),
        *(
            Axiom(_REFUSED_BY_DRIVER, "error 800", _M, in_callback(call), name)
            for name, call in _FORBIDDEN.items()
        ),
        Axiom(
            _REFUSED_BY_DRIVER,
            "error 800",
            _M,
            in_callback(_FORBIDDEN["cuMemcpyAsync"], old=True),
            "cuMemcpyAsync, by cuStreamAddCallback",
        ),
        *(Axiom(_ACCEPTED, "success", _M, in_callback(call), name) for name, call in _PASSES.items()),
    ),
)

# ----------------------------------------------------------------------------- capture

_GLOBAL, RELAXED = 0, 2


def captured(call: Callable[[Lab, int], int], mode: int = _GLOBAL) -> Measure:
    """What a call returns during a capture on its argument, and what the end of the capture says."""

    def measure(lab: Lab) -> str:
        stream, graph = lab.non_blocking(), ctypes.c_void_p()
        lab.call("cuStreamBeginCapture_v2", stream, mode)
        try:
            during = call(lab, stream)
        finally:
            end = lab.code("cuStreamEndCapture", stream, ctypes.byref(graph))
            if graph.value:
                lab.call("cuGraphDestroy", graph)
        return f"{answer(during)}, {answer(end)} at the end"

    return measure


def _allocate(lab: Lab, stream: int) -> int:
    del stream
    out = ctypes.c_uint64()
    code = lab.code("cuMemAlloc_v2", ctypes.byref(out), SMALL)
    if out.value:
        lab.after(lambda: lab.call("cuMemFree_v2", out.value))
    return code


def forked(*, joined: bool) -> Measure:
    """Work of a second stream becomes part of the capture; its end must be waited for."""

    def measure(lab: Lab) -> str:
        data, side = lab.device(), lab.non_blocking()

        def call(lab: Lab, stream: int) -> int:
            lab.order(stream, side)
            lab.fill(data, 0, side)
            return lab.code("cuStreamWaitEvent", stream, lab.record(side), 0) if joined else 0

        return captured(call)(lab)

    return measure


def wait_outside(lab: Lab) -> str:
    event = lab.record(lab.non_blocking())
    return captured(lambda lab, stream: lab.code("cuStreamWaitEvent", stream, event, 0))(lab)


def _synchronize_event(lab: Lab, stream: int) -> int:
    return lab.code("cuEventSynchronize", lab.record(stream))


def not_run(lab: Lab) -> str:
    """Captured work does not run until the graph is launched."""
    stream, data = lab.non_blocking(), lab.device(value=1)
    lab.call("cuStreamBeginCapture_v2", stream, RELAXED)
    lab.fill(data, 7, stream)
    lab.call("cuGraphDestroy", lab.end_capture(stream))
    return "did not run" if lab.byte(data) == 1 else "ran"


def _rejected(code: int) -> str:
    return f"error {code}, error 901 at the end"


_SYNC = "synchronize or query the capturing stream, synchronize the device"
_JOINED = "a fork that is not joined"
_ALLOCATES = "cudaMalloc during a capture"

CAPTURES: Final = Group(
    "Stream capture",
    (
        Axiom("work of a captured stream", "did not run", _G, not_run),
        Axiom(
            _SYNC,
            _rejected(900),
            _G,
            captured(lambda lab, s: lab.code("cuStreamSynchronize", s)),
            "cudaStreamSynchronize",
        ),
        Axiom(
            _SYNC,
            _rejected(900),
            _G,
            captured(lambda lab, _: lab.code("cuCtxSynchronize")),
            "cudaDeviceSynchronize",
        ),
        Axiom(
            _SYNC,
            _rejected(900),
            _G,
            captured(lambda lab, s: lab.code("cuStreamQuery", s)),
            "cudaStreamQuery",
        ),
        Axiom(_ALLOCATES, _rejected(900), _G, captured(_allocate), "global mode"),
        Axiom(_ALLOCATES, "success, success at the end", _G, captured(_allocate, RELAXED), "relaxed mode"),
        Axiom(_JOINED, "success, error 904 at the end", _G, forked(joined=False), "not joined"),
        Axiom(_JOINED, "success, success at the end", _G, forked(joined=True), "joined"),
        Axiom("wait for an event recorded outside the capture", _rejected(905), _G, wait_outside),
        Axiom(
            "synchronize an event recorded in the capture", _rejected(907), _G, captured(_synchronize_event)
        ),
    ),
)
