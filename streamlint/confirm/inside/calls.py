"""Which driver calls queue work, on which stream, and on what memory.

The arguments of a call lie one after the other, as in a C struct. A name may end in ``_ptsz`` or
``_ptds``: there the default stream is the one of the calling thread.
"""

from __future__ import annotations

import ctypes
import re
from typing import TYPE_CHECKING, Final, TypeAlias

from streamlint.frozen import frozen

if TYPE_CHECKING:
    from streamlint.confirm.inside.cupti import Call

_PER_THREAD: Final = 2
_VERSION: Final = re.compile(r"(_v\d+)?(_ptsz|_ptds)?$")

WORK: Final = re.compile(r"cu(Launch(Kernel|Cooperative)|Memcpy|Memset|GraphLaunch|LaunchHostFunc)")
"""What a statement queues. Gates go in front of it."""

WAITS: Final = re.compile(
    r"cu(\w*Synchronize|EventQuery|StreamQuery|MemFree|MemHostUnregister|MemAlloc|Module(Load|Unload)"
    r"|Library(Load|Unload)|KernelGetFunction|FuncLoad|StreamDestroy|CtxDestroy|MemPool|GraphInstantiate|GraphUpload)"
)
"""What may last until the device has done something."""

RECORDS: Final = re.compile(r"cuEventRecord")
LOADS: Final = re.compile(r"cu(Module|Library)LoadData(Ex)?(_v\d+)?$")

SEEN: Final = re.compile("|".join(one.pattern for one in (WORK, WAITS, RECORDS)))

_P, _Z, _U, _D, _B, _H = (
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_uint,
    ctypes.c_uint64,
    ctypes.c_ubyte,
    ctypes.c_ushort,
)


class LaunchConfig(ctypes.Structure):
    """``CUlaunchConfig``."""

    _fields_ = (
        *((name, _U) for name in ("gx", "gy", "gz", "bx", "by", "bz", "shared")),
        ("stream", _P),
        ("attributes", _P),
        ("count", _U),
    )


class Launch(ctypes.Structure):
    """Arguments of ``cuLaunchKernel``; a cooperative launch has no ``extra``."""

    _fields_ = (
        ("function", _P),
        *((name, _U) for name in ("gx", "gy", "gz", "bx", "by", "bz", "shared")),
        ("stream", _P),
        ("parameters", _P),
        ("extra", _P),
    )


class LaunchEx(ctypes.Structure):
    """Arguments of ``cuLaunchKernelEx``."""

    _fields_ = (
        ("config", ctypes.POINTER(LaunchConfig)),
        ("function", _P),
        ("parameters", _P),
        ("extra", _P),
    )


class Copy(ctypes.Structure):
    """Arguments of ``cuMemcpyAsync`` and its kin, and of their synchronous forms up to the size."""

    _fields_ = (("destination", _D), ("source", _D), ("size", _Z), ("stream", _P))


class Set8(ctypes.Structure):
    """Arguments of ``cuMemsetD8Async``."""

    _fields_ = (("destination", _D), ("value", _B), ("count", _Z), ("stream", _P))


class Set16(ctypes.Structure):
    """Arguments of ``cuMemsetD16Async``."""

    _fields_ = (("destination", _D), ("value", _H), ("count", _Z), ("stream", _P))


class Set32(ctypes.Structure):
    """Arguments of ``cuMemsetD32Async``."""

    _fields_ = (("destination", _D), ("value", _U), ("count", _Z), ("stream", _P))


class Two(ctypes.Structure):
    """Arguments of a call whose second one is its stream: ``cuGraphLaunch``, ``cuEventRecord``."""

    _fields_ = (("first", _P), ("stream", _P))


class _One(ctypes.Structure):
    _fields_ = (("stream", _P),)


class _Peer(ctypes.Structure):
    _fields_ = (("d", _D), ("dc", _P), ("s", _D), ("sc", _P), ("size", _Z), ("stream", _P))


class _Set2D(ctypes.Structure):
    _fields_ = (("d", _D), ("pitch", _Z), ("value", _U), ("width", _Z), ("height", _Z), ("stream", _P))


Arguments: TypeAlias = type[ctypes.Structure]

_LAYOUTS: Final[dict[str, Arguments]] = {
    "cuLaunchKernel": Launch,
    "cuLaunchCooperativeKernel": Launch,
    "cuLaunchKernelEx": LaunchEx,
    "cuMemcpyAsync": Copy,
    "cuMemcpyHtoDAsync": Copy,
    "cuMemcpyDtoHAsync": Copy,
    "cuMemcpyDtoDAsync": Copy,
    "cuMemsetD8Async": Set8,
    "cuMemsetD16Async": Set16,
    "cuMemsetD32Async": Set32,
    "cuMemcpyPeerAsync": _Peer,
    "cuMemcpy2DAsync": Two,
    "cuMemcpy3DAsync": Two,
    "cuMemcpy3DPeerAsync": Two,
    "cuMemsetD2D8Async": _Set2D,
    "cuMemsetD2D16Async": _Set2D,
    "cuMemsetD2D32Async": _Set2D,
    "cuGraphLaunch": Two,
    "cuLaunchHostFunc": _One,
    "cuEventRecord": Two,
    "cuEventRecordWithFlags": Two,
}


@frozen()
class Queued:
    """Work that a call is about to queue. ``stream`` is ``None`` where its arguments are not known."""

    name: str
    layout: Arguments | None
    stream: int | None


def plain_name(name: str) -> str:
    """``cuMemcpyHtoDAsync`` for ``cuMemcpyHtoDAsync_v2_ptsz``."""
    return _VERSION.sub("", name)


def queued(call: Call) -> Queued:
    """What a call of ``WORK`` or ``RECORDS`` queues."""
    name = plain_name(call.name)
    layout = _LAYOUTS.get(name)
    default = _PER_THREAD if call.name.endswith(("_ptsz", "_ptds")) else 0
    if layout is None:
        # `cuMemcpyDtoH` and other synchronous copies run on the default stream.
        return Queued(name, None, default if "Async" not in name and "Mem" in name else None)
    arguments = call.arguments(layout)
    holder = arguments.config.contents if layout is LaunchEx else arguments
    return Queued(name, layout, int(holder.stream or default))
