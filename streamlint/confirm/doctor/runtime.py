"""Facts about the runtime API that the driver API does not share, measured through cuda-python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from streamlint.confirm.doctor.axiom import RETURNS, Axiom, Basis, Group, SkippedError
from streamlint.confirm.doctor.copies import INCOMPLETE
from streamlint.confirm.doctor.lab import NEW, OLD, SMALL, Lab
from streamlint.confirm.doctor.refused import Things, in_callback

if TYPE_CHECKING:
    from streamlint.confirm.doctor.axiom import Measure

_G, _M = Basis.GUARANTEED, Basis.MEASURED
_TRIES = 200


def runtime() -> Any:  # noqa: ANN401 a module without types
    from cuda.bindings import runtime as cudart

    return cudart


def last_error(name: str) -> Measure:
    def measure(lab: Lab) -> str:
        call = getattr(runtime(), name)
        call()
        return lab.waits(call, busy=lab.non_blocking())

    return measure


def stale_after_blocking_copy(lab: Lab) -> str:
    """``cudaMemcpy`` from pageable memory, and at once a read by a non-blocking stream; no delay."""
    cudart = runtime()
    stream, data, out = lab.non_blocking(), lab.device(), lab.device()
    host = lab.pageable(value=NEW)
    to_device = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
    inside = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice
    for _ in range(_TRIES):
        lab.fill(data, OLD, stream)
        lab.synchronize()
        cudart.cudaMemcpy(data, host, SMALL, to_device)
        cudart.cudaMemcpyAsync(out, data, SMALL, inside, stream)
        if lab.byte(out) == OLD:
            return INCOMPLETE
    raise SkippedError(f"complete in each of {_TRIES} tries, which is no promise")


def runtime_in_callback(name: str, *arguments: str) -> Measure:
    """A call of the runtime API in a callback, with attributes of ``Things`` as arguments."""

    def call(lab: Lab, things: Things) -> int:
        del lab
        values = (getattr(things, a) if a.isidentifier() else int(a) for a in arguments)
        (code, *_) = getattr(runtime(), name)(*values)
        return int(code)

    def measure(lab: Lab) -> str:
        runtime().cudaFree(0)  # the runtime starts here, not in the callback
        return in_callback(call)(lab)

    return measure


def error_query_in_callback(lab: Lab) -> str:
    """The second one: the first answers with the error of an earlier callback, and forgets it."""

    def call(lab: Lab, things: Things) -> int:
        del lab, things
        runtime().cudaGetLastError()
        (code,) = runtime().cudaGetLastError()
        return int(code)

    return in_callback(call)(lab)


_RUNTIME_CALLS: Final = (
    ("cudaMemsetAsync", "data", "0", "16", "stream"),
    ("cudaStreamQuery", "stream"),
    ("cudaStreamSynchronize", "stream"),
    ("cudaEventRecord", "event", "stream"),
    ("cudaStreamWaitEvent", "stream", "event", "0"),
    ("cudaMalloc", "16"),
    ("cudaMallocHost", "16"),
    ("cudaFree", "block"),
    ("cudaDeviceSynchronize",),
    ("cudaStreamCreate",),
    ("cudaGetDevice",),
    ("cudaSetDevice", "0"),
)
_REFUSED = "a call of the runtime API in a host callback"
_NEVER = "cudaGetLastError, cudaPeekAtLastError, cudaStreamQuery, cudaMemGetInfo, cudaStreamCreate"
_LIBRARY = "cuda.bindings.runtime"

RUNTIME_COPIES: Final = Group(
    "Copies and the host",
    (
        Axiom(
            "cudaMemcpy from pageable memory",
            INCOMPLETE,
            _G,
            stale_after_blocking_copy,
            "64 KB, read by another stream",
        ),
    ),
    _LIBRARY,
)
RUNTIME_CALLS: Final = Group(
    "Calls that seem to synchronize",
    tuple(
        Axiom(_NEVER, RETURNS, _G, last_error(name), name)
        for name in ("cudaGetLastError", "cudaPeekAtLastError")
    ),
    _LIBRARY,
)
RUNTIME_CALLBACKS: Final = Group(
    "Host callbacks",
    (
        *(
            Axiom(_REFUSED, "error 800", _M, runtime_in_callback(name, *arguments), name)
            for name, *arguments in _RUNTIME_CALLS
        ),
        Axiom("cudaGetLastError in a host callback", "success", _M, error_query_in_callback),
    ),
    _LIBRARY,
)
