"""Facts about memory that two libraries use, measured where both can be imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from streamlint.confirm.doctor.axiom import (
    ORDERED,
    UNORDERED,
    WAITS,
    Axiom,
    Basis,
    Group,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlint.confirm.doctor.axiom import Measure
    from streamlint.confirm.doctor.lab import Lab

_G, _M = Basis.GUARANTEED, Basis.MEASURED
_N = 1 << 20
_DEFAULT = 0

SECTION: Final = "Memory that two libraries use"


def hand_over(lab: Lab, giver: int, taker: int, take: Callable[[], object]) -> str:
    """Who waits for the work that is pending on ``giver``: the host, the stream ``taker``, or nobody."""
    take()  # the first time loads what it needs
    lab.synchronize()
    lab.hold_for_a_while(giver)
    lab.kept.append(take())
    if not lab.held:
        return WAITS
    overtook = lab.done_soon(lab.record(taker)) and lab.held
    lab.let_go()
    return UNORDERED if overtook else ORDERED


def cupy_to_torch(take: Callable[[Any, Any], object]) -> Measure:
    def measure(lab: Lab) -> str:
        import cupy
        import torch

        a, stream = cupy.zeros(_N, dtype="float32"), cupy.cuda.Stream(non_blocking=True)
        with stream:
            return hand_over(lab, stream.ptr, _DEFAULT, lambda: take(torch, a))

    return measure


def from_torch(take: Callable[[Any], object]) -> Measure:
    """To a library whose current stream is the default one."""

    def measure(lab: Lab) -> str:
        import torch

        x, side = torch.zeros(_N, device="cuda"), torch.cuda.Stream()
        with torch.cuda.stream(side):
            return hand_over(lab, side.cuda_stream, _DEFAULT, lambda: take(x))

    return measure


def _from_dlpack(x: object) -> object:
    import cupy

    return cupy.from_dlpack(x)


def _asarray(x: object) -> object:
    import cupy

    return cupy.asarray(x)


def _as_cuda_array(x: object) -> object:
    from numba import cuda

    return cuda.as_cuda_array(x)


def cupy_to_numba(lab: Lab) -> str:
    import cupy

    a, stream = cupy.zeros(_N, dtype="float32"), cupy.cuda.Stream(non_blocking=True)
    with stream:
        return hand_over(lab, stream.ptr, _DEFAULT, lambda: _as_cuda_array(a))


def numba_to_cupy(lab: Lab) -> str:
    import cupy
    from numba import cuda

    stream = cuda.stream()
    handle = int(getattr(stream.handle, "value", stream.handle) or 0)
    a = cuda.device_array(_N, dtype="float32", stream=stream)
    with cupy.cuda.Stream(non_blocking=True) as current:
        return hand_over(lab, handle, current.ptr, lambda: cupy.asarray(a))


def torch_to_core(take: Callable[[Any, int], object]) -> Measure:
    """``take`` gets the tensor and the handle of a stream of cuda.core."""

    def measure(lab: Lab) -> str:
        import cuda.core
        import torch

        x, side = torch.zeros(_N, device="cuda"), torch.cuda.Stream()
        device = cuda.core.Device(0)
        device.set_current()
        stream = device.create_stream()
        taker = int(stream.handle)
        with torch.cuda.stream(side):
            return hand_over(lab, side.cuda_stream, taker, lambda: take(x, taker))

    return measure


def _view(x: Any, stream: int) -> object:  # noqa: ANN401 a tensor of PyTorch
    from cuda.core.utils import StridedMemoryView

    return StridedMemoryView.from_any_interface(x, stream_ptr=stream)


def _buffer(x: Any, stream: int) -> object:  # noqa: ANN401 a tensor of PyTorch
    import cuda.core

    del stream
    return cuda.core.Buffer.from_handle(x.data_ptr(), x.nbytes)


_NO_STREAM = "cupy.asarray(x), cuda.as_cuda_array(x) of a PyTorch tensor"
_NAMED = "cuda.as_cuda_array(a) of a CuPy array, cupy.asarray(a) of a Numba array made on a stream"
_VIEW = "StridedMemoryView(x, stream_ptr)"
_ADDRESS = "a DLPack capsule, x.data_ptr(), a.data.ptr, Buffer.from_handle"

TORCH_HANDOFFS: Final = Group(
    SECTION,
    (
        Axiom(
            "torch.from_dlpack(a) of a CuPy array pending on its stream",
            ORDERED,
            _G,
            cupy_to_torch(lambda torch, a: torch.from_dlpack(a)),
        ),
        Axiom("cupy.from_dlpack(x) of a PyTorch tensor", ORDERED, _G, from_torch(_from_dlpack)),
        Axiom(
            "torch.as_tensor(a) of a CuPy array",
            UNORDERED,
            _M,
            cupy_to_torch(lambda torch, a: torch.as_tensor(a, device="cuda")),
        ),
        Axiom(_NO_STREAM, UNORDERED, _G, from_torch(_asarray), "CuPy"),
        Axiom(_NO_STREAM, UNORDERED, _G, from_torch(_as_cuda_array), "Numba"),
        Axiom(_VIEW, ORDERED, _G, torch_to_core(_view), "a stream"),
        Axiom(_VIEW, UNORDERED, _G, torch_to_core(lambda x, _: _view(x, -1)), "-1"),
        Axiom(
            _ADDRESS,
            UNORDERED,
            _G,
            cupy_to_torch(lambda torch, a: torch.utils.dlpack.from_dlpack(a.toDlpack())),
            "a capsule",
        ),
        Axiom(_ADDRESS, UNORDERED, _G, torch_to_core(_buffer), "Buffer.from_handle"),
    ),
    library="torch",
)
NUMBA_HANDOFFS: Final = Group(
    SECTION,
    (
        Axiom(_NAMED, WAITS, _G, cupy_to_numba, "to Numba"),
        Axiom(_NAMED, WAITS, _G, numba_to_cupy, "to CuPy"),
    ),
    library="numba.cuda",
)
