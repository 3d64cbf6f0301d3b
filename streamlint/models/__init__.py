"""What the frameworks' calls mean, as tables; one module each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.models import cupy, numba, triton, warp
from streamlint.models.cuda_core import CUDA_CORE
from streamlint.models.cuda_driver import CUDA_DRIVER
from streamlint.models.cuda_runtime import CUDA_RUNTIME
from streamlint.models.cufinufft import CUFINUFFT
from streamlint.models.cupy import CUPY
from streamlint.models.dali import DALI
from streamlint.models.deep_ep import DEEP_EP
from streamlint.models.deepnvme import DEEPNVME
from streamlint.models.distributed import DISTRIBUTED, FUNCTIONAL
from streamlint.models.jax import JAX
from streamlint.models.kvikio import KVIKIO
from streamlint.models.mooncake import MOONCAKE
from streamlint.models.mpi import MPI
from streamlint.models.nccl import NCCL
from streamlint.models.nixl import NIXL
from streamlint.models.numba import NUMBA
from streamlint.models.nvmath import NVMATH
from streamlint.models.nvshmem import NVSHMEM
from streamlint.models.onnx import ONNX
from streamlint.models.opencv import OPENCV
from streamlint.models.pycuda import PYCUDA
from streamlint.models.pylibcudf import CUDF
from streamlint.models.raft import CUVS, RAFT
from streamlint.models.rmm import RMM
from streamlint.models.schema import (
    Allocates,
    Api,
    CaptureEnds,
    CaptureStarts,
    Copies,
    Framework,
    Frees,
    HostCallback,
    HostWaitsDevice,
    HostWaitsEvent,
    HostWaitsStream,
    InstantiatesGraph,
    LaunchesGraph,
    Lib,
    NewEvent,
    NewStream,
    Pins,
    Records,
    Role,
    StreamWaitsEvent,
    Unpins,
)
from streamlint.models.tensorrt import TENSORRT
from streamlint.models.torch import TORCH
from streamlint.models.ucx import UCX
from streamlint.models.warp import WARP

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from streamlint.trace import StreamKind

FRAMEWORKS: tuple[Framework, ...] = (
    *(TORCH, CUDA_RUNTIME, CUDA_DRIVER, CUPY, NUMBA, CUDA_CORE, DISTRIBUTED, FUNCTIONAL),
    *(PYCUDA, WARP, RMM, KVIKIO, TENSORRT, MPI, UCX, MOONCAKE, DEEPNVME, ONNX),
    *(CUDF, NVMATH, NIXL, DALI, NCCL, CUFINUFFT, OPENCV, DEEP_EP, RAFT, CUVS, NVSHMEM, JAX),
)


def _functions() -> dict[str, tuple[Framework, Api]]:
    return {
        f"{module}.{api.name}": (framework, api)
        for framework in FRAMEWORKS
        for module in framework.modules
        for api in framework.functions
    }


def _methods(role: Role) -> dict[tuple[Lib, str], tuple[Framework, Api]]:
    return {
        (framework.lib, api.name): (framework, api)
        for framework in FRAMEWORKS
        for api in methods_of(framework, role)
    }


def methods_of(framework: Framework, role: Role) -> tuple[Api, ...]:
    """The rows for one kind of object."""
    match role:
        case Role.STREAM:
            return framework.stream_methods
        case Role.EVENT:
            return framework.event_methods
        case Role.GRAPH:
            return framework.graph_methods
        case Role.BUFFER:
            return framework.buffer_methods
        case Role.DEVICE:
            return framework.device_methods
        case Role.OBJECT:
            return framework.object_methods


FUNCTIONS = _functions()
METHODS = {role: _methods(role) for role in Role}
MODULES = frozenset(module for framework in FRAMEWORKS for module in framework.modules)
ROOTS = frozenset(module.partition(".")[0] for module in MODULES) | {"numpy", "ctypes"}
"""The packages that the tables are about."""
BY_LIB = {framework.lib: framework for framework in FRAMEWORKS}
STREAMS: dict[str, tuple[Lib, StreamKind]] = {
    f"{module}.{name}": (framework.lib, kind)
    for framework in FRAMEWORKS
    for module in framework.modules
    for name, kind in framework.streams
}
"""Names that are default streams, such as ``cupy.cuda.Stream.null``."""
RAW_HANDLES = {name: framework.lib for framework in reversed(FRAMEWORKS) for name in framework.raw_handles}
"""Attributes that give the handle of a stream, and whose streams have them."""
OPERATIONS = {module: framework for framework in FRAMEWORKS for module in framework.operations}
KERNEL_DECORATORS = {
    **dict.fromkeys(numba.KERNEL_DECORATORS, Lib.NUMBA),
    **dict.fromkeys(cupy.KERNEL_DECORATORS, Lib.CUPY),
    **dict.fromkeys(triton.KERNEL_DECORATORS, Lib.TORCH),
    **dict.fromkeys(warp.KERNEL_DECORATORS, Lib.WARP),
}
"""What makes a kernel of a function, and on whose current stream it is launched: Triton's on PyTorch's."""
NUMBERS = {
    f"{module}.{name}": number
    for framework in FRAMEWORKS
    for module in framework.modules
    for name, number in framework.constants
}
"""Members of enumerations of the libraries that are numbers."""
TELLING = {
    (api.name): (role, framework, api)
    for framework in FRAMEWORKS
    for role in Role
    for api in methods_of(framework, role)
    if api.telling is not None
}
"""Methods whose name shows what an unknown receiver is."""

_ALIKE = (
    *(HostWaitsDevice, HostWaitsEvent, HostWaitsStream, Records, StreamWaitsEvent),
    *(Copies, CaptureStarts, CaptureEnds, InstantiatesGraph, LaunchesGraph, Frees, HostCallback),
    *(Pins, Unpins),
)
ALIKE_IN_C = {
    api.name: f"{framework.modules[0]}.{api.name}"
    for framework in (CUDA_RUNTIME, CUDA_DRIVER)
    for api in framework.functions
    if api.effects and all(isinstance(effect, _ALIKE) for effect in api.effects)
}
"""CUDA's own functions that order, copy, free, capture or queue a host function, by name.

Whoever binds them, they take these arguments:

``cudart, _ = optional_import("cuda.cudart")``, or ``cudart = ctypes.CDLL("libcudart.so")``.
"""
MADE_IN_C = {
    api.name: (framework, api)
    for framework in (CUDA_RUNTIME, CUDA_DRIVER)
    for api in framework.functions
    if api.status and api.has(Allocates, NewEvent, NewStream)
}
"""Those that make something, which C has them put where their first argument points."""


def find_function(path: str) -> tuple[Framework, Api] | None:
    """The row of a function by its dotted path, such as ``torch.cuda.current_stream``."""
    return FUNCTIONS.get(path)


def find_operation(path: str) -> Framework | None:
    """The library of a function without a row, if its module is one of those whose functions work alike."""
    return next((OPERATIONS[module] for module in _owners(path) if module in OPERATIONS), None)


def _owners(path: str) -> Iterator[str]:
    while path := path.rpartition(".")[0]:
        yield path


def is_for_some_ranks(name: str) -> bool:
    """Whether ``torch.distributed`` has a call of this name by which some ranks send what others receive.

    All ranks receive from ``all_gather`` and its kin.
    """
    on_all = name.startswith(("all_", "reduce_scatter", "_all_gather", "_reduce_scatter"))
    return not on_all and find_function(f"torch.distributed.{name}") is not None


def find_method(role: Role, lib: Lib | None, name: str) -> tuple[Framework, Api] | None:
    """The row of a method; with ``lib`` unknown the first framework that has it."""
    table = METHODS[role]
    if lib is not None:
        return table.get((lib, name))
    return next((row for (_, known), row in table.items() if known == name), None)


def find_telling(name: str, keywords: Container[str]) -> tuple[Role, Framework, Api] | None:
    """The row that a method of an unknown object must be, by its name and the keywords given."""
    row = TELLING.get(name)
    if row is None or row[2].telling is None:
        return None
    wanted = row[2].telling
    return row if not wanted or any(word in keywords for word in wanted) else None
