"""``cuda.bindings`` on the simulated driver, as far as synthesized programs use it."""

from __future__ import annotations

import ctypes
import types
from typing import TYPE_CHECKING, Any

from tests.simulated_cuda import SUCCESS, Library

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulated_cuda import Machine


def bindings(machine: Machine) -> dict[str, types.ModuleType]:
    """``cuda.bindings.runtime`` and ``driver``, as far as synthesized programs use them."""
    library = Library(machine)
    runtime, driver = types.ModuleType("cuda.bindings.runtime"), types.ModuleType("cuda.bindings.driver")

    def out(name: str) -> Callable[..., tuple[int, ...]]:
        def call(*arguments: Any) -> tuple[int, ...]:
            value = ctypes.c_uint64()
            code = getattr(library, name)(ctypes.byref(value), *arguments)
            return code, value.value

        return call

    def bare(name: str) -> Callable[..., tuple[int, ...]]:
        return lambda *arguments: (getattr(library, name)(*arguments),)

    for name, driver_name in {
        "cudaStreamSynchronize": "cuStreamSynchronize",
        "cudaStreamQuery": "cuStreamQuery",
        "cudaEventRecord": "cuEventRecord",
        "cudaStreamWaitEvent": "cuStreamWaitEvent",
        "cudaEventSynchronize": "cuEventSynchronize",
        "cudaEventQuery": "cuEventQuery",
        "cudaEventDestroy": "cuEventDestroy_v2",
        "cudaDeviceSynchronize": "cuCtxSynchronize",
        "cudaMemset": "cuMemsetD8_v2",
        "cudaMemsetAsync": "cuMemsetD8Async",
        "cudaFreeAsync": "cuMemFreeAsync",
    }.items():
        setattr(runtime, name, bare(driver_name))
    for name, driver_name in {
        "cudaStreamCreateWithFlags": "cuStreamCreate",
        "cudaMalloc": "cuMemAlloc_v2",
        "cudaMallocAsync": "cuMemAllocAsync",
        "cudaHostAlloc": "cuMemHostAlloc",
    }.items():
        setattr(runtime, name, out(driver_name))
    runtime.__dict__.update(
        cudaStreamCreate=lambda: out("cuStreamCreate")(0),
        cudaEventCreate=lambda: out("cuEventCreate")(0),
        cudaMallocHost=lambda size: out("cuMemHostAlloc")(size, 0),
        cudaMallocManaged=lambda size, flags: out("cuMemAlloc_v2")(size),
        cudaFree=lambda address: bare("cuMemFree_v2")(address) if address else (SUCCESS,),
        cudaMemcpyAsync=lambda t, s, n, kind, stream: bare("cuMemcpyAsync")(t, s, n, stream),
        cudaMemcpy=lambda t, s, n, kind: bare("cuMemcpy")(t, s, n),
        cudaStream_t=int,
        cudaMemcpyKind=types.SimpleNamespace(cudaMemcpyDefault=4),
        cudaStreamNonBlocking=1,
        cudaHostAllocMapped=2,
        cudaMemAttachGlobal=1,
    )

    def launch(*arguments: Any) -> tuple[int]:
        stream, ((flag, limit), _) = arguments[8], arguments[9]
        library.hold(stream, flag, limit)
        return (SUCCESS,)

    driver.__dict__.update(
        cuModuleLoadData=lambda text: (SUCCESS, 1),
        cuModuleGetFunction=lambda module, name: (SUCCESS, 1),
        cuLaunchKernel=launch,
    )
    package, parent = types.ModuleType("cuda.bindings"), types.ModuleType("cuda")
    package.__dict__.update(runtime=runtime, driver=driver)
    return {
        "cuda": parent,
        "cuda.bindings": package,
        "cuda.bindings.runtime": runtime,
        "cuda.bindings.driver": driver,
    }
