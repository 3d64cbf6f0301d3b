"""Stream handles of every library at run time: of a stream object, and of what is current."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Any, Final

from streamlint.confirm.gpu import captures

if TYPE_CHECKING:
    from collections.abc import Sequence

_PER_THREAD: Final = 2
"""``CU_STREAM_PER_THREAD``."""

_LOWEST_ADDRESS: Final = 1 << 16

_LAUNCH_STREAM: Final = 2
"""Numba: ``kernel[griddim, blockdim, stream, sharedmem]``."""


def handles(stream: Any) -> list[int]:  # noqa: ANN401
    """The driver's handle of a stream object of any library; ``None`` is the current stream."""
    if stream is None:
        return current_streams()
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        return [int(protocol()[1] if callable(protocol) else protocol[1])]
    # torch and Warp: cuda_stream; CuPy: ptr; Numba and cuda.core: handle
    for name in ("cuda_stream", "ptr", "handle"):
        found = getattr(stream, name, None)
        if found is not None:
            value = getattr(found, "value", found)
            return [int(value or 0)]
    try:
        handle = int(stream)
    except (TypeError, ValueError):
        return current_streams()
    # Handles are addresses, but for the default streams. `launch(5)` is not about stream 5.
    return [handle] if handle <= _PER_THREAD or handle >= _LOWEST_ADDRESS else current_streams()


def named_among(values: Sequence[object]) -> list[int]:
    """The streams among the arguments of a call: ``side`` of ``fill(x, 7, side)``."""
    return [handle for value in values if _is_stream(value) for handle in handles(value)]


def _is_stream(value: object) -> bool:
    # cudaStream_t and CUstream of the bindings; Stream and ExternalStream of all others
    return type(value).__name__ in ("cudaStream_t", "CUstream") or type(value).__name__.endswith("Stream")


def of_launch(configuration: object) -> list[int]:
    """The stream in the brackets of a Numba launch: ``kernel[config](x)`` with ``config`` made elsewhere."""
    if isinstance(configuration, tuple) and len(configuration) > _LAUNCH_STREAM:
        return handles(configuration[_LAUNCH_STREAM])
    return current_streams()


def current_streams(device: int | None = None) -> list[int]:
    """The current stream of each loaded library; the legacy default stream where none has one.

    ``device``: the stream current there, instead of on the current device.
    """
    return sorted(set(streams_by_library(device).values())) or [0]


def streams_by_library(device: int | None = None) -> dict[str, int]:
    """The same, by the names of the libraries that are in use."""
    found: dict[str, int] = {}
    torch = _loaded("torch", "cuda")
    if torch is not None and torch.cuda.is_initialized():
        found["torch"] = int(torch.cuda.current_stream(device).cuda_stream)
    cupy = _loaded("cupy", "cuda")
    if cupy is not None:
        found["cupy"] = int(cupy.cuda.get_current_stream(-1 if device is None else device).ptr)
    if "numba.cuda" in sys.modules:
        # Numba has no current stream: what names none runs on the default stream.
        per_thread = os.environ.get("NUMBA_CUDA_PER_THREAD_DEFAULT_STREAM", "0")
        found["numba"] = _PER_THREAD if per_thread not in ("", "0") else 0
    warp = _warp_device(device)
    if warp is not None:
        found["warp"] = int(warp.stream.cuda_stream or 0)  # `null_stream` has no handle
    return found


def library_is_capturing() -> bool:
    """Whether the current stream of a library is being captured into a graph, or PyTorch captures one."""
    torch = _loaded("torch", "cuda")
    initialized = torch is not None and torch.cuda.is_initialized()
    if initialized and (captures.under_way(torch) or torch.cuda.is_current_stream_capturing()):
        return True
    cupy = _loaded("cupy", "cuda")
    if cupy is not None and cupy.cuda.get_current_stream().is_capturing():
        return True
    warp = _warp_device(None)
    return warp is not None and bool(warp.is_capturing)


def on_callback_thread() -> bool:
    """Host callbacks run on a thread of the driver, which Python knows only as a dummy."""
    if not isinstance(threading.current_thread(), threading._DummyThread):
        return False
    # So does Python know the threads on which PyTorch runs backward with its hooks; CUDA may be called there.
    torch = _loaded("torch", "_C")
    backward = getattr(torch._C, "_current_graph_task_id", None) if torch is not None else None
    return backward is None or backward() < 0


def _warp_device(number: int | None) -> Any:  # noqa: ANN401
    """Warp's object of a device, by default of the current one; None where Warp has done nothing yet.

    It initializes itself, and makes a stream on each device, at its first use: not at that of a probe.
    """
    warp = _loaded("warp", "get_cuda_device")
    if warp is None or getattr(sys.modules[warp.get_cuda_device.__module__], "runtime", None) is None:
        return None
    return warp.get_cuda_device(number) if warp.is_cuda_available() else None


def _loaded(name: str, part: str) -> Any:  # noqa: ANN401
    """The library if its import is complete: probes may run while it is still being imported."""
    module = sys.modules.get(name)
    return module if module is not None and hasattr(module, part) else None
