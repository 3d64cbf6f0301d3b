"""Which argument of a call is its stream, by the call's own name."""

from __future__ import annotations

import ast
from typing import Final, TypeAlias

Argument: TypeAlias = str | int | tuple[int]
"""A keyword, a position, or ``(position,)`` inside the launch brackets of ``kernel[grid, block, stream]``."""

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
    "cuLaunchKernel": 8,
    "cuLaunchHostFunc": 0,
    "cuStreamAddCallback": 0,
    "cuMemAllocAsync": 1,
    "cuMemFreeAsync": 1,
    "cuGraphLaunch": 1,
}

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


def stream_argument(node: ast.Call) -> Argument | None:
    """Where ``node`` names its stream, or ``None`` if it names none."""
    for keyword in node.keywords:
        if keyword.arg in _KEYWORDS:
            return keyword.arg
    position = _POSITIONS.get(call_name(node))
    if position is not None and position < len(node.args):
        if not any(isinstance(a, ast.Starred) for a in node.args[: position + 1]):
            return position
        return None
    match node.func:
        case ast.Subscript(slice=ast.Tuple(elts=elements)) if len(elements) > _LAUNCH_STREAM:
            return (_LAUNCH_STREAM,)
        case _:
            return None
