"""What the rows of the tables tell the tracer about a call of cuda-python."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest

from streamlint.confirm.observe import cuda_tracer
from streamlint.confirm.observe.cuda_tracer import Call, address_of
from streamlint.models.cuda_driver import CUDA_DRIVER
from streamlint.models.cuda_runtime import CUDA_RUNTIME
from streamlint.models.schema import Copies

ROWS = {api.name: api for framework in (CUDA_RUNTIME, CUDA_DRIVER) for api in framework.functions}


def ends(name: str, parameter: str, *arguments: object) -> list[tuple[int, int]]:
    """The addresses and the bytes that a call touches at a parameter."""
    api = ROWS[name]
    return [
        (address, span)
        for address, span, _ in Call(api, dict(zip(api.names, arguments, strict=False))).ends(parameter)
    ]


@pytest.mark.parametrize(
    ("name", "parameter", "arguments", "touched"),
    [
        ("cudaMemcpyAsync", "src", (1000, 2000, 64, 1, 0), [(2000, 64)]),
        ("cudaMemcpy2DAsync", "dst", (1000, 32, 2000, 16, 8, 4, 1, 0), [(1000, 3 * 32 + 8)]),
        ("cudaMemcpy2DAsync", "src", (1000, 32, 2000, 16, 8, 4, 1, 0), [(2000, 3 * 16 + 8)]),
        ("cudaMemcpyBatchAsync", "srcs", ([1, 2], [30, 40], [8, 16], 2), [(30, 8), (40, 16)]),
        ("cuMemcpyDtoHAsync", "srcDevice", (1000, 2000, 64, 0), [(2000, 64)]),
        ("cuMemsetD8Async", "dstDevice", (1000, 7, 64, 0), [(1000, 64)]),
        ("cuMemsetD32Async", "dstDevice", (1000, 7, 64, 0), [(1000, 256)]),
        ("cuMemsetD2D16Async", "dstDevice", (1000, 32, 7, 8, 4, 0), [(1000, 3 * 32 + 16)]),
    ],
)
def test_the_bytes_of_a_call(
    name: str, parameter: str, arguments: tuple[object, ...], touched: list[tuple[int, int]]
) -> None:
    assert ends(name, parameter, *arguments) == touched


def test_the_ends_of_a_copy_that_a_record_describes() -> None:
    flat = SimpleNamespace(
        srcDevice=2000,
        srcHost=0,
        srcPitch=16,
        dstDevice=0,
        dstHost=1000,
        dstPitch=0,
        WidthInBytes=8,
        Height=4,
    )
    (copies,) = ROWS["cuMemcpy2DAsync"].effects
    assert isinstance(copies, Copies)
    assert ends("cuMemcpy2DAsync", copies.src, flat) == [(2000, 3 * 16 + 8)]
    assert ends("cuMemcpy2DAsync", copies.dst, flat) == [(1000, 4 * 8)]
    extent = SimpleNamespace(width=8, height=4, depth=2)
    block = SimpleNamespace(srcPtr=SimpleNamespace(ptr=2000), dstPtr=SimpleNamespace(ptr=1000), extent=extent)
    (copies,) = ROWS["cudaMemcpy3DAsync"].effects
    assert isinstance(copies, Copies)
    assert ends("cudaMemcpy3DAsync", copies.dst, block) == [(1000, 64)]


def test_a_stream_may_stand_in_a_record() -> None:
    api = ROWS["cuLaunchKernelEx"]
    assert Call(api, {"config": SimpleNamespace(hStream=77)}).number("config.hStream") == 77


def test_what_has_no_address_is_nowhere() -> None:
    assert [address_of(value) for value in ([1, 2], object(), "text")] == [0, 0, 0]


def test_types_stay_types() -> None:
    module = ModuleType("driver")
    names = {"CUlaunchConfig": type("CUlaunchConfig", (), {}), "cuCtxSynchronize": lambda: (0,)}
    module.__dict__.update(names)
    cuda_tracer.install(module, CUDA_DRIVER, *[cast("Any", None)] * 4)
    assert module.CUlaunchConfig is names["CUlaunchConfig"]
    assert module.cuCtxSynchronize is not names["cuCtxSynchronize"]
