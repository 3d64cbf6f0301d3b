"""What each library's calls mean, one fact a test: the tables change a fact only with its test.

The facts are those of docs/semantics.md, "Libraries". A program is written so that a finding, or its
absence, shows which way the table has it; twins differ by the fact alone.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from streamlint.finding import leading
from streamlint.run import engine

if TYPE_CHECKING:
    from pathlib import Path

PRELUDE = """
import ctypes
import cupy as cp
import cupyx
import numpy as np
import torch
from cuda.bindings import driver, runtime
from cuda.core import Device, LegacyPinnedMemoryResource, StreamOptions
from numba import cuda

N = 1 << 20
D2H = runtime.cudaMemcpyKind.cudaMemcpyDeviceToHost
D2D = runtime.cudaMemcpyKind.cudaMemcpyDeviceToDevice
H2D = runtime.cudaMemcpyKind.cudaMemcpyHostToDevice

@cuda.jit
def increment(x):
    x[cuda.grid(1)] += 1

def tensor():
    x = torch.zeros(N, device="cuda")
    torch.cuda.synchronize()
    return x

def array():
    x = cp.zeros(N, dtype=cp.float32)
    cp.cuda.Device().synchronize()
    return x

def numba_array():
    x = cuda.to_device(np.zeros(N, dtype=np.float32))
    cuda.synchronize()
    return x

def memory():
    _, p = runtime.cudaMalloc(N)
    runtime.cudaMemset(p, 0, N)
    runtime.cudaDeviceSynchronize()
    return p

def run():
"""


def found(tmp_path: Path, body: str) -> list[str]:
    """Codes of what a program gives; those that are hidden by default with a question mark."""
    file = tmp_path / "program.py"
    file.write_text(PRELUDE + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n")
    report = engine.analyze(tmp_path, [file], engine.Settings())
    assert not report.errors
    hidden = {"possible": "?"}
    own = [f for f in leading(report.findings) if f.primary.line > len(PRELUDE.splitlines())]
    return [f.code + hidden.get(f.confidence.value, "") for f in own]


def check(tmp_path: Path, body: str, expected: str) -> None:
    assert [code for code in found(tmp_path, body) if not code.startswith("SL9")] == expected.split()


# ----------------------------------------------------------------------------- kinds of streams

LEGACY_FIRST = """
_, legacy = runtime.cudaStreamCreate()
a, b = memory(), memory()
runtime.cudaMemset(a, 7, N)
"""


@pytest.mark.parametrize(
    ("make", "handle", "expected"),
    [
        ("torch.cuda.Stream()", "s.cuda_stream", "SL101"),
        ("torch.cuda.Stream(priority=-1)", "s.cuda_stream", "SL101"),
        ("cp.cuda.Stream()", "s.ptr", ""),
        ("cp.cuda.Stream(non_blocking=True)", "s.ptr", "SL101"),
        ("cp.cuda.Stream(null=True)", "s.ptr", ""),
        ("cuda.stream()", "s.handle", ""),
        ("Device().create_stream()", "s.handle", "SL101"),
        ("Device().create_stream(options=StreamOptions(nonblocking=False))", "s.handle", ""),
        ("Device().default_stream", "s.handle", ""),
        ("runtime.cudaStreamCreate()[1]", "s", ""),
        ("runtime.cudaStreamCreateWithFlags(runtime.cudaStreamNonBlocking)[1]", "s", "SL101"),
        ("runtime.cudaStreamCreateWithFlags(runtime.cudaStreamDefault)[1]", "s", ""),
        ("runtime.cudaStreamCreateWithPriority(runtime.cudaStreamNonBlocking, -1)[1]", "s", "SL101"),
        ("driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_DEFAULT)[1]", "s", ""),
        ("driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)[1]", "s", "SL101"),
        ("runtime.cudaStreamLegacy", "s", ""),
        ("runtime.cudaStreamPerThread", "s", ""),
    ],
)
def test_streams_that_the_default_stream_orders(
    tmp_path: Path, make: str, handle: str, expected: str
) -> None:
    """A memset on the legacy default stream, then a copy on a new stream: ordered if it is blocking."""
    body = f"""
    a, b = memory(), memory()
    s = {make}
    runtime.cudaMemset(a, 7, N)
    runtime.cudaMemcpyAsync(b, a, N, D2D, {handle})
    """
    check(tmp_path, body, expected)


def test_blocking_streams_are_not_ordered_among_each_other(tmp_path: Path) -> None:
    body = """
    x = array()
    first, second = cp.cuda.Stream(), cp.cuda.Stream()
    with first:
        x += 1
    with second:
        y = x + 1
    cp.cuda.Device().synchronize()
    """
    check(tmp_path, body, "SL101")


# ----------------------------------------------------------------------------- copies and the host

COPIES = {
    "torch: to('cpu', non_blocking) makes pinned memory": (
        "x = tensor(); x += 1; h = x.to('cpu', non_blocking=True); v = float(h[0])",
        "SL201",
    ),
    "torch: to('cpu') waits": ("x = tensor(); x += 1; h = x.to('cpu'); v = float(h[0])", ""),
    "torch: copy_ into pinned returns at once": (
        "x = tensor(); h = torch.zeros(N, pin_memory=True); h.copy_(x, non_blocking=True); v = float(h[0])",
        "SL201",
    ),
    "torch: copy_ into pageable memory was seen to block": (
        "x = tensor(); h = torch.zeros(N); h.copy_(x, non_blocking=True); v = float(h[0])",
        "SL201?",
    ),
    "torch: from pinned memory the source is not released": (
        "h = torch.zeros(N, pin_memory=True); x = h.to('cuda', non_blocking=True); h.fill_(9)",
        "SL202",
    ),
    "torch: from pageable memory it is": (
        "h = torch.zeros(N); x = h.to('cuda', non_blocking=True); h.fill_(9)",
        "",
    ),
    "cupy: get waits": ("x = array(); x += 1; h = x.get(); v = float(h[0])", ""),
    "cupy: get(out=, blocking=False) does not": (
        "x = array(); h = cupyx.zeros_pinned(N); x.get(out=h, blocking=False); v = float(h[0])",
        "SL201",
    ),
    "cupy: asnumpy waits": ("x = array(); x += 1; v = float(cp.asnumpy(x)[0])", ""),
    "cupy: asnumpy(out=, blocking=False) does not": (
        "x = array(); h = cupyx.zeros_pinned(N); cp.asnumpy(x, out=h, blocking=False); v = float(h[0])",
        "SL201",
    ),
    "cupy: set from pinned memory does not release it": (
        "x = array(); h = cupyx.zeros_pinned(N); x.set(h, stream=cp.cuda.Stream()); h[:] = 9; "
        "cp.cuda.Device().synchronize()",
        "SL202",
    ),
    "cupy: asarray from pinned memory does not release it": (
        "h = cupyx.zeros_pinned(N); x = cp.asarray(h); h[:] = 9",
        "SL202",
    ),
    "numba: copy_to_host without a stream waits": ("x = numba_array(); v = float(x.copy_to_host()[0])", ""),
    "numba: copy_to_host(stream=) was seen to wait, which is not documented": (
        "x = numba_array(); s = cuda.stream(); h = x.copy_to_host(stream=s); v = float(h[0])",
        "SL201?",
    ),
    "numba: into pinned memory it returns at once": (
        "x = numba_array(); s = cuda.stream(); h = cuda.pinned_array(N); x.copy_to_host(h, s); v = h[0]",
        "SL201",
    ),
    "numba: to_device from pinned memory does not release it": (
        "s = cuda.stream(); h = cuda.pinned_array(N); x = cuda.to_device(h, stream=s); h[:] = 9",
        "SL202",
    ),
    "numba: managed memory is read while a kernel writes": (
        "x = cuda.managed_array(N); increment[1, 1](x); v = float(x[0])",
        "SL201",
    ),
    "numba: mapped memory too": ("x = cuda.mapped_array(N); increment[1, 1](x); v = float(x[0])", "SL201"),
    "numba: host arrays are copied back before the call returns": (
        "x = np.zeros(N); increment[1, 1](x); v = float(x[0])",
        "",
    ),
    "runtime: into pinned memory": (
        "a = memory(); _, s = runtime.cudaStreamCreate(); _, p = runtime.cudaMallocHost(N); "
        "h = np.ctypeslib.as_array((ctypes.c_ubyte * N).from_address(p)); "
        "runtime.cudaMemcpyAsync(p, a, N, D2H, s); v = int(h[0])",
        "SL201",
    ),
    "runtime: cudaMemcpy waits": (
        "a = memory(); _, p = runtime.cudaMallocHost(N); "
        "h = np.ctypeslib.as_array((ctypes.c_ubyte * N).from_address(p)); "
        "runtime.cudaMemcpy(p, a, N, D2H); v = int(h[0])",
        "",
    ),
    "runtime: cudaMemset of pinned memory waits": (
        "_, p = runtime.cudaMallocHost(N); h = np.ctypeslib.as_array((ctypes.c_ubyte * N).from_address(p)); "
        "runtime.cudaMemset(p, 7, N); v = int(h[0])",
        "",
    ),
    "runtime: cudaMemcpy from pageable memory may still be running": (
        "a, b = memory(), memory(); _, s = runtime.cudaStreamCreateWithFlags(1); h = np.zeros(N, np.uint8); "
        "runtime.cudaMemcpy(a, h.ctypes.data, N, H2D); runtime.cudaMemcpyAsync(b, a, N, D2D, s)",
        "SL101",
    ),
    "cuda.core: copy_to pinned memory returns at once": (
        "d = Device(); s = d.create_stream(); b = d.allocate(N, stream=s); "
        "p = LegacyPinnedMemoryResource().allocate(N); h = np.from_dlpack(p).view(np.uint8); "
        "b.copy_to(p, stream=s); v = int(h[0])",
        "SL201",
    ),
}


@pytest.mark.parametrize("law", COPIES)
def test_copies_and_the_host(tmp_path: Path, law: str) -> None:
    body, expected = COPIES[law]
    check(tmp_path, body.replace("; ", "\n"), expected)


# ----------------------------------------------------------------------------- what orders, and what does not

SIDE = "x, out = tensor(), tensor(); side = torch.cuda.Stream(); "
ON_SIDE = "\nwith torch.cuda.stream(side):\n    "
ORDERS = {
    "torch: record() records the current stream": (
        SIDE + f"e = torch.cuda.Event(){ON_SIDE}x += 1\ne.record(); e.synchronize(); v = x + 1",
        "SL101",
    ),
    "torch: recorded inside the block it covers the work": (
        SIDE + f"e = torch.cuda.Event(){ON_SIDE}x += 1\n    e.record()\ne.synchronize(); v = x + 1",
        "",
    ),
    "torch: item() waits for the current stream only": (SIDE + f"{ON_SIDE}x += 1\nv = x[0].item()", "SL101"),
    "torch: synchronize() waits for the device": (
        SIDE + f"{ON_SIDE}x += 1\ntorch.cuda.synchronize(); v = x[0].item()",
        "",
    ),
    "torch: a stream context of None changes nothing": (
        SIDE + "with torch.cuda.stream(None):\n    x += 1\nv = x + 1",
        "",
    ),
    "torch: empty_cache orders nothing": (
        SIDE + f"{ON_SIDE}x += 1\ntorch.cuda.empty_cache(); v = x + 1",
        "SL101",
    ),
    "torch: one query() that nobody looks at orders nothing": (
        SIDE + f"{ON_SIDE}x += 1\nside.query(); v = x + 1",
        "SL101",
    ),
    "torch: wait_stream orders": (
        SIDE + f"{ON_SIDE}x += 1\ntorch.cuda.current_stream().wait_stream(side); v = x + 1",
        "",
    ),
    "numba: auto_synchronize synchronizes at the end": (
        "x = numba_array(); s = cuda.stream(); h = cuda.pinned_array(N)\n"
        "with s.auto_synchronize():\n    x.copy_to_host(h, stream=s)\nv = float(h[0])",
        "",
    ),
    "numba: inside the block nothing is synchronized": (
        "x = numba_array(); s = cuda.stream(); h = cuda.pinned_array(N)\n"
        "with s.auto_synchronize():\n    x.copy_to_host(h, stream=s)\n    v = float(h[0])",
        "SL201",
    ),
    "cuda.core: wait orders two streams": (
        "d = Device(); s, t = d.create_stream(), d.create_stream(); a = d.allocate(N, stream=s); "
        "b = d.allocate(N, stream=t); a.fill(7, stream=s); t.wait(s); b.copy_from(a, stream=t)",
        "",
    ),
    "cuda.core: without it they are not ordered": (
        "d = Device(); s, t = d.create_stream(), d.create_stream(); a = d.allocate(N, stream=s); "
        "t.wait(s); b = d.allocate(N, stream=t); a.fill(7, stream=s); b.copy_from(a, stream=t)",
        "SL101",
    ),
    "cuda.core: close(stream) is ordered by that stream": (
        "d = Device(); s, t = d.create_stream(), d.create_stream(); a = d.allocate(N, stream=s); "
        "t.wait(s); a.fill(7, stream=t); a.close(s)",
        "SL402",
    ),
    "cuda.core: close() is ordered by the stream of the allocation": (
        "d = Device(); s = d.create_stream(); a = d.allocate(N, stream=s); a.fill(7, stream=s); a.close()",
        "",
    ),
    "DLPack orders, from CuPy to PyTorch": (
        "x = array(); s = cp.cuda.Stream(non_blocking=True)\n"
        "with s:\n    x += 1\n    t = torch.from_dlpack(x)\nv = t.sum()",
        "",
    ),
    "runtime: an error query is no synchronization": (
        "a, b = memory(), memory(); _, s = runtime.cudaStreamCreateWithFlags(1); "
        "runtime.cudaMemsetAsync(a, 7, N, s); runtime.cudaGetLastError(); runtime.cudaMemcpy(b, a, N, D2D)",
        "SL101",
    ),
    "runtime: cudaFree was seen to wait for the device, which is not promised": (
        "a, b, c = memory(), memory(), memory(); _, s = runtime.cudaStreamCreateWithFlags(1); "
        "runtime.cudaMemsetAsync(a, 7, N, s); runtime.cudaFree(c); runtime.cudaMemcpy(b, a, N, D2D)",
        "SL101?",
    ),
    "runtime: cudaFree of memory from cudaMallocAsync does not wait": (
        "_, s = runtime.cudaStreamCreateWithFlags(1); _, a = runtime.cudaMallocAsync(N, s); "
        "runtime.cudaMemsetAsync(a, 7, N, s); runtime.cudaFree(a)",
        "SL402",
    ),
}


@pytest.mark.parametrize("law", ORDERS)
def test_what_orders(tmp_path: Path, law: str) -> None:
    body, expected = ORDERS[law]
    check(tmp_path, body.replace("; ", "\n"), expected)


# ----------------------------------------------------------------------------- memory handed out again

POOLS = {
    "torch: a tensor dropped while a side stream reads it": (
        SIDE + f"side.wait_stream(torch.cuda.current_stream()){ON_SIDE}out.copy_(x)\n"
        "del x\ny = torch.zeros(N, device='cuda')",
        "SL401",
    ),
    "torch: record_stream keeps it back": (
        SIDE + f"side.wait_stream(torch.cuda.current_stream()){ON_SIDE}out.copy_(x)\n"
        "x.record_stream(side)\ndel x\ny = torch.zeros(N, device='cuda')",
        "",
    ),
    "torch: pinned memory is kept back until its copies are done": (
        "h = torch.zeros(N, pin_memory=True); x = h.to('cuda', non_blocking=True); del h; "
        "k = torch.zeros(N, pin_memory=True); k.fill_(9)",
        "",
    ),
    "cupy: the pool recycles for the stream that allocated": (
        "s = cp.cuda.Stream(non_blocking=True); out = array()\n"
        "with s:\n    x = cp.zeros(N, dtype=cp.float32)\n"
        "cp.cuda.Stream.null.wait_event(s.record())\n"
        "with cp.cuda.Stream.null:\n    out[:] = x\n"
        "del x\n"
        "with s:\n    y = cp.zeros(N, dtype=cp.float32)",
        "SL401",
    ),
    "cupy: an allocation on the stream of the use is ordered": (
        "s = cp.cuda.Stream(non_blocking=True); out = array()\n"
        "with s:\n    x = cp.zeros(N, dtype=cp.float32)\n"
        "cp.cuda.Stream.null.wait_event(s.record())\n"
        "with cp.cuda.Stream.null:\n    out[:] = x\n    del x\n    y = cp.zeros(N, dtype=cp.float32)",
        "",
    ),
    "cupy: the pool of pinned memory recycles at once": (
        "x = array(); s = cp.cuda.Stream(); h = cupyx.zeros_pinned(N); x.set(h, stream=s); del h; "
        "k = cupyx.zeros_pinned(N)",
        "SL401",
    ),
}


@pytest.mark.parametrize("law", POOLS)
def test_memory_that_is_handed_out_again(tmp_path: Path, law: str) -> None:
    body, expected = POOLS[law]
    check(tmp_path, body.replace("; ", "\n") + "\ntorch.cuda.synchronize()", expected)
