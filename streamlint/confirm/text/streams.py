"""Which argument of a call is its stream, by the call's own name."""

from __future__ import annotations

import ast
from typing import Final, TypeAlias

from streamlint.frozen import frozen


@frozen()
class Keyword:
    """``stream=s``."""

    name: str


@frozen()
class Position:
    """``cudaMemsetAsync(p, 0, n, s)``."""

    index: int


@frozen()
class Element:
    """The stream in the launch brackets of Numba: ``kernel[grid, block, s](x)``."""

    index: int


@frozen()
class Brackets:
    """Brackets that may hold a whole launch configuration: ``kernel[config](x)``."""


@frozen()
class Receiver:
    """``s.launch_host_func(f, x)``."""


@frozen()
class Among:
    """``launch(s, config, kernel, x)`` of cuda.core, or the user's own ``self.launch(x, n, s)``."""


Argument: TypeAlias = Keyword | Position | Element | Brackets | Receiver | Among

_KEYWORDS: Final = ("stream", "hStream")

_POSITIONS: Final[dict[str, int]] = {
    # CUDA runtime API, parameter lists of the CUDA 13 headers
    "cudaMemcpyAsync": 4,
    "cudaMemcpy2DAsync": 7,
    "cudaMemcpy3DAsync": 1,
    "cudaMemcpyPeerAsync": 5,
    "cudaMemsetAsync": 3,
    "cudaMemset2DAsync": 5,
    "cudaLaunchHostFunc": 0,
    "cudaStreamAddCallback": 0,
    "cudaMallocAsync": 1,
    "cudaFreeAsync": 1,
    "cudaGraphLaunch": 1,
    # CUDA driver API
    "cuMemcpyAsync": 3,
    "cuMemcpyHtoDAsync": 3,
    "cuMemcpyDtoHAsync": 3,
    "cuMemcpyDtoDAsync": 3,
    "cuMemsetD8Async": 3,
    "cuMemsetD16Async": 3,
    "cuMemsetD32Async": 3,
    "cuMemsetD2D8Async": 5,
    "cuMemsetD2D16Async": 5,
    "cuMemsetD2D32Async": 5,
    "cuMemcpy2DAsync": 1,
    "cuMemcpy3DAsync": 1,
    "cuLaunchKernel": 8,
    "cuLaunchHostFunc": 0,
    "cuStreamAddCallback": 0,
    "cuMemAllocAsync": 1,
    "cuMemFreeAsync": 1,
    "cuGraphLaunch": 1,
    # cupy.cuda.runtime
    "memcpyAsync": 4,
    "memcpy2DAsync": 7,
    "memcpyPeerAsync": 5,
    "memsetAsync": 3,
    "mallocAsync": 1,
    "freeAsync": 1,
    "launchHostFunc": 0,
    "streamAddCallback": 0,
    # cupy.cuda.MemoryPointer
    "memset_async": 2,
}

_METHODS: Final = frozenset(("launch_host_func", "add_callback"))
"""Methods of a stream that queue work on it: CuPy, Numba."""

_LAUNCH: Final = "launch"
"""The function of cuda.core, whose stream comes first. Many a program has a function of that name."""

_BEGINS_CAPTURE: Final = frozenset(
    (
        "cudaStreamBeginCapture",
        "cuStreamBeginCapture",
        "streamBeginCapture",
        "begin_capture",
        "capture_begin",
        "begin_building",
    )
)

_ENDS_CAPTURE: Final = frozenset(
    (
        "cudaStreamEndCapture",
        "cuStreamEndCapture",
        "streamEndCapture",
        "end_capture",
        "capture_end",
        "end_building",
    )
)

_LAUNCH_STREAM: Final = 2
"""Numba: ``kernel[griddim, blockdim, stream, sharedmem]``."""


def call_name(node: ast.Call) -> str:
    """The last name of the callee: ``cudart.cudaMemcpyAsync(...)`` is ``cudaMemcpyAsync``."""
    match node.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def takes_stream(name: str) -> bool:
    """Whether the CUDA call of this name takes a stream to queue work on."""
    return name in _POSITIONS


def capture_role(node: ast.Call) -> str:
    """``"capture_began"``, ``"capture_ended"``, or ``"call"`` for every other call."""
    name = call_name(node)
    if name in _BEGINS_CAPTURE:
        return "capture_began"
    return "capture_ended" if name in _ENDS_CAPTURE else "call"


def plain_call(node: ast.stmt | ast.expr) -> ast.Call | None:
    """The call that a statement is, if a stream may be among its arguments: ``self.fill(x, n, s)``.

    Only where the arguments compute nothing by themselves, so that no work is queued before the call is.
    """
    call = getattr(node, "value", None) if isinstance(node, ast.Expr | ast.Assign | ast.Return) else node
    if not isinstance(call, ast.Call) or not call.args or not isinstance(call.func, ast.Name | ast.Attribute):
        return None
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    parts = [part for one in [call.func, *given] for part in ast.walk(one)]
    computes = (ast.Call, ast.BinOp, ast.Lambda, ast.Starred, ast.Subscript, ast.NamedExpr, ast.Await)
    return None if any(isinstance(part, computes) for part in parts) else call


def stream_argument(node: ast.Call) -> Argument | None:
    """Where ``node`` names its stream, or ``None`` if it names none."""
    for keyword in node.keywords:
        if keyword.arg in _KEYWORDS:
            return Keyword(keyword.arg)
    position = _POSITIONS.get(call_name(node))
    if position is not None and position < len(node.args):
        if not any(isinstance(a, ast.Starred) for a in node.args[: position + 1]):
            return Position(position)
        return None
    match node.func:
        case ast.Attribute(attr=name) if name in _METHODS:
            return Receiver()
        case ast.Name(id=name) | ast.Attribute(attr=name) if name == _LAUNCH and node.args:
            return Among()
        case ast.Subscript(slice=ast.Tuple(elts=elements)):
            return Element(_LAUNCH_STREAM) if len(elements) > _LAUNCH_STREAM else None
        case ast.Subscript(slice=ast.Name() | ast.Attribute()):
            return Brackets()
        case _:
            return None
