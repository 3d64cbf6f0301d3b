"""Facts about CuPy, Numba and cuda.core, measured if the library can be imported."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final

from streamlint.confirm.doctor.axiom import RETURNS, WAITS, Axiom, Basis, Group
from streamlint.confirm.doctor.copies import COMPLETE, INCOMPLETE, NOT_RELEASED, RELEASED
from streamlint.confirm.doctor.lab import LATER, NEW, OLD, Lab, Race

if TYPE_CHECKING:
    from collections.abc import Callable

_G, _M, _O = Basis.GUARANTEED, Basis.MEASURED, Basis.OBSERVED

KEPT: Final = "kept"
CORRUPTED: Final = "corrupted"
_N = 1 << 20
_ROUNDS = 3

SECTION: Final = "Libraries"


def stream_flags(lab: Lab, stream: int) -> str:
    flags = ctypes.c_uint()
    lab.call("cuStreamGetFlags", stream, ctypes.byref(flags))
    return "non-blocking" if flags.value & 1 else "blocking"


def corrupts(lab: Lab, one_round: Callable[[], bool]) -> str:
    """Whether the value was wrong in any of a few rounds."""
    wrong = 0
    for _ in range(_ROUNDS):
        wrong += one_round()
        lab.let_go()
    return CORRUPTED if wrong else KEPT


# ----------------------------------------------------------------------------- CuPy


def _cupy(lab: Lab) -> tuple[Any, Any, Any]:
    """CuPy, a filled array, and a stream; the kernels that experiments use are loaded."""
    import cupy

    x = cupy.full(_N, OLD, dtype=cupy.uint8)
    x.fill(OLD)
    x.get()
    cupy.zeros_like(x)[...] = x
    lab.synchronize()
    return cupy, x, cupy.cuda.Stream(non_blocking=True)


def cupy_streams(lab: Lab) -> str:
    cupy, _, _ = _cupy(lab)
    streams = [cupy.cuda.Stream(non_blocking=flag) for flag in (False, True)]
    return ", ".join(stream_flags(lab, stream.ptr) for stream in streams)


def cupy_get(lab: Lab) -> str:
    _, x, stream = _cupy(lab)
    return lab.waits(lambda: x.get(stream=stream), busy=stream.ptr)


def cupy_asnumpy(lab: Lab) -> str:
    cupy, x, stream = _cupy(lab)
    return lab.waits(lambda: cupy.asnumpy(x, stream=stream), busy=stream.ptr)


def cupy_get_pinned(lab: Lab) -> str:
    _, x, stream = _cupy(lab)
    host = _pinned_of_cupy(NEW)
    return lab.waits(lambda: x.get(stream=stream, out=host, blocking=False), busy=stream.ptr)


def _pinned_of_cupy(value: int) -> Any:  # noqa: ANN401 an array of CuPy
    import cupyx

    host = cupyx.zeros_pinned((_N,), dtype="uint8")
    host[:] = value
    return host


def cupy_set(lab: Lab) -> str:
    _, x, stream = _cupy(lab)
    host = _pinned_of_cupy(NEW)
    lab.hold(stream.ptr)
    x.set(host, stream=stream)
    host[:] = LATER
    lab.let_go()
    return RELEASED if int(x[-1]) == NEW else NOT_RELEASED


def cupy_dropped_pinned(lab: Lab) -> str:
    _, x, stream = _cupy(lab)
    _pinned_of_cupy(OLD)  # its block is handed out below

    def one_round() -> bool:
        host = _pinned_of_cupy(NEW)
        lab.hold(stream.ptr)
        x.set(host, stream=stream)
        del host
        following = _pinned_of_cupy(LATER)
        lab.let_go()
        return int(x[-1]) != NEW and following is not None

    return corrupts(lab, one_round)


def cupy_pool(next_on_owner: bool) -> Callable[[Lab], str]:
    """An array made on ``s``, read by the null stream, freed; then the next allocation."""

    def measure(lab: Lab) -> str:
        cupy, out, owner = _cupy(lab)
        null = cupy.cuda.Stream.null

        def one_round() -> bool:
            with owner:
                x = cupy.full(_N, NEW, dtype=cupy.uint8)
            lab.synchronize()
            lab.hold(null.ptr)
            with null:
                out[...] = x
            del x
            with owner if next_on_owner else null:
                following = cupy.full(_N, LATER, dtype=cupy.uint8)
            lab.done_soon(lab.record(owner.ptr))
            lab.let_go()
            return int(out[-1]) != NEW and following is not None

        return corrupts(lab, one_round)

    return measure


_GET = "get() and asnumpy(stream=) block, except get(out=pinned, blocking=False)"
_SET = "a.set(pinned, stream=) and asarray(pinned) return early"
_POOL = "the pool recycles by allocating stream, and there is no record_stream"

CUPY: Final = Group(
    SECTION,
    (
        Axiom(
            "cupy.cuda.Stream() is blocking, Stream(non_blocking=True) is not",
            "blocking, non-blocking",
            _M,
            cupy_streams,
        ),
        Axiom(_GET, WAITS, _G, cupy_get, "get"),
        Axiom(_GET, WAITS, _G, cupy_asnumpy, "asnumpy"),
        Axiom(_GET, RETURNS, _G, cupy_get_pinned, "get into pinned memory, not blocking"),
        Axiom(_SET, NOT_RELEASED, _M, cupy_set),
        Axiom("dropping a pinned temporary corrupts it too", CORRUPTED, _M, cupy_dropped_pinned),
        Axiom(_POOL, CORRUPTED, _M, cupy_pool(next_on_owner=True), "next allocation on s"),
        Axiom(_POOL, KEPT, _M, cupy_pool(next_on_owner=False), "next allocation on the null stream"),
    ),
    library="cupy",
)

# ----------------------------------------------------------------------------- Numba


def _numba(lab: Lab) -> tuple[Any, Any, Any, int]:
    """numba.cuda, a device array, a stream and its handle."""
    from numba import cuda

    x = cuda.device_array(_N, dtype="uint8")
    stream = cuda.stream()
    x.copy_to_host()
    lab.synchronize()
    return cuda, x, stream, int(getattr(stream.handle, "value", stream.handle) or 0)


def numba_stream(lab: Lab) -> str:
    _, _, stream, handle = _numba(lab)
    lab.kept.append(stream)  # its handle goes with it
    return stream_flags(lab, handle)


def numba_to_host(lab: Lab) -> str:
    _, x, stream, handle = _numba(lab)
    return lab.waits(lambda: x.copy_to_host(stream=stream), busy=handle)


def numba_to_pinned(lab: Lab) -> str:
    cuda, x, stream, handle = _numba(lab)
    host = cuda.pinned_array(_N, dtype="uint8")
    return lab.waits(lambda: x.copy_to_host(host, stream=stream), busy=handle)


def numba_from_pinned(lab: Lab) -> str:
    cuda, _, stream, handle = _numba(lab)
    host = cuda.pinned_array(_N, dtype="uint8")
    host[:] = NEW
    lab.hold(handle)
    x = cuda.to_device(host, stream=stream)
    host[:] = LATER
    lab.let_go()
    return RELEASED if int(x.copy_to_host()[-1]) == NEW else NOT_RELEASED


def numba_auto_synchronize(lab: Lab) -> str:
    _, _, stream, handle = _numba(lab)

    def call() -> None:
        with stream.auto_synchronize():
            pass

    return lab.waits(call, busy=handle)


_TO_PAGEABLE = "copy_to_host(stream=s) into pageable memory was seen to block"
_TO_PINNED = "into a pinned array it returns early; to_device(pinned, stream=s) too"

NUMBA: Final = Group(
    SECTION,
    (
        Axiom("cuda.stream() is blocking", "blocking", _M, numba_stream),
        Axiom(_TO_PAGEABLE, WAITS, _O, numba_to_host),
        Axiom(_TO_PINNED, RETURNS, _G, numba_to_pinned, "copy_to_host"),
        Axiom(_TO_PINNED, NOT_RELEASED, _G, numba_from_pinned, "to_device"),
        Axiom("auto_synchronize() synchronizes when the block is left", WAITS, _G, numba_auto_synchronize),
    ),
    library="numba.cuda",
)

# ----------------------------------------------------------------------------- cuda.core


def _core(lab: Lab) -> tuple[Any, Any, int]:
    """The device, a stream and its handle."""
    import cuda.core

    device = cuda.core.Device(0)
    device.set_current()
    stream = device.create_stream()
    lab.synchronize()
    return device, stream, int(stream.handle)


def core_streams(lab: Lab) -> str:
    device, stream, handle = _core(lab)
    lab.kept.append(stream)  # its handle goes with it
    default = int(device.default_stream.handle)
    return f"{stream_flags(lab, handle)}, default {default}"


def core_copy_to(lab: Lab) -> str:
    import cuda.core

    device, stream, handle = _core(lab)
    x = device.allocate(_N, stream=stream)
    host = cuda.core.LegacyPinnedMemoryResource().allocate(_N)
    address = int(host.handle)
    ctypes.memset(address, OLD, _N)
    lab.fill(int(x.handle), NEW, handle, _N)
    lab.synchronize()
    lab.hold(handle)
    x.copy_to(host, stream=stream)
    seen = ctypes.c_ubyte.from_address(address + _N - 1).value
    lab.let_go()
    return COMPLETE if seen == NEW else INCOMPLETE


def core_wait(lab: Lab) -> str:
    device, stream, handle = _core(lab)
    second = device.create_stream()
    race = Race.of(lab)
    race.write(handle)
    second.wait(stream)
    return race.read(int(second.handle))


def core_close(lab: Lab) -> str:
    device, stream, handle = _core(lab)
    x = device.allocate(_N, stream=stream)
    lab.synchronize()
    return lab.waits(lambda: x.close(stream), busy=handle)


_CLOSE = "s2.wait(s1) orders; buffer.close(stream) is ordered by that stream"

CORE: Final = Group(
    SECTION,
    (
        Axiom(
            "Device.create_stream() is non-blocking; default_stream is the legacy one",
            "non-blocking, default 1",
            _M,
            core_streams,
        ),
        Axiom("Buffer.copy_to(pinned, stream=) returns early", INCOMPLETE, _G, core_copy_to),
        Axiom(_CLOSE, "ordered", _G, core_wait, "wait"),
        Axiom(_CLOSE, RETURNS, _G, core_close, "close"),
    ),
    library="cuda.core",
)
