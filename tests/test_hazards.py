"""No fix is safe in a tree in which anything captures, polls, or compiles functions, whoever calls whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streamlint.fixes.hazards import has_hazard
from streamlint.parsing import MAX_BYTES
from tests.safe_fixes import PLAIN, is_safe

if TYPE_CHECKING:
    from pathlib import Path

NUMBA = "from numba import cuda\n\n\n"
SPIN = "    while flag[0] == 0:\n        pass\n"
FLAG = "unsigned *f, unsigned *y"


@pytest.mark.parametrize(
    "text",
    [
        "import torch\n\ndef f(g, x):\n    with torch.cuda.graph(g):\n        return x * 2\n",
        "from torch.cuda import graph\n\ndef f(g, x):\n    with graph(g):\n        return x * 2\n",
        "import torch.cuda as tc\n\nBEGIN = tc.graph\n",
        'import torch\n\nNEW = eval("torch.cuda.CUDAGraph")\n',
        'import torch\n\nNEW = getattr(torch.cuda, "make_graphed_callables")\n',
        "def capture(stream):\n    stream.begin_capture()\n",
        'import torch\n\nGRAPH = getattr(torch.cuda, "graph")\n',
        "import torch\n\nIS_CAPTURED = torch.cuda.is_current_stream_capturing()\n",
    ],
)
def test_a_capture(text: str) -> None:
    assert has_hazard(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        f"{NUMBA}@cuda.jit\ndef k(flag):\n{SPIN}",
        f"{NUMBA}@cuda.jit\ndef k(flag):\n    for i in range(9):\n        if flag[0]:\n            break\n",
        f"{NUMBA}@cuda.jit(device=True)\ndef k(flag):\n    return flag[0] or k(flag)\n",
        f"{NUMBA}@cuda.jit\ndef k(flag):\n    helpers.spin(flag)\n\n\nimport helpers\n",
        f"{NUMBA}def k(flag):\n{SPIN}\n\nkernel = cuda.jit(k)\n",
        f"{NUMBA}jit = cuda.jit\n\n\n@jit\ndef k(flag):\n{SPIN}",
        f"import numba\n\n\n@numba.njit\ndef k(flag):\n{SPIN}",
        f"from cupyx import jit\n\n\n@jit.rawkernel()\ndef k(flag):\n{SPIN}",
        "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef k(flag):\n"
        '    tl.inline_asm_elementwise("ld.acquire;", "=r", [flag], tl.int32, False, 1)\n',
        f"import warp as wp\n\n\n@wp.kernel\ndef k(flag: wp.array(dtype=int)):\n{SPIN}",
        'import warp as wp\n\n\n@wp.func_native("while (*flag == 0);")\ndef k(flag: int):\n    ...\n',
        f"import cutlass.cute as cute\n\n\n@cute.kernel\ndef k(flag):\n{SPIN}",
        f"import cupy as cp\n\nK = cp.RawKernel(open('k.cu').read(), '{FLAG}')\n",
        f"import cupy as cp\n\nK = cp.ElementwiseKernel('{FLAG}', '', 'while (f == 0) {{}}', 'k')\n",
        f'CODE = "__global__ void k({FLAG}) {{ cuda::atomic_ref(*f).wait(0); }}"\n',
        "from cuda.bindings import driver\n\ndriver.cuStreamWaitValue32(0, 0, 1, 0)\n",
        "import torch.distributed as dist\n\ndist.broadcast(x, 0)\n",
        "import torch.distributed._symmetric_memory as symm\n\nsymm.rendezvous(1)\n",
        "from mpi4py import MPI\n\nMPI.COMM_WORLD.Send(x, 1)\n",
        "def f(stream):\n    stream.launch_host_func(print, None)\n",
        "def f(handle):\n    handle.stream_wait_value32(0)\n",
    ],
)
def test_what_may_wait_for_what_comes_later(text: str) -> None:
    assert has_hazard(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        "import torch\n\n\n@torch.jit.script\ndef f(x):\n    return x\n",
        "from torch import jit, compile\n\nf = compile(print)\n",
        "def f(model):\n    model.compile()\n",
        'import torch\n\nf = getattr(torch, "compile")(print)\n',
        "import thunder\n\n\ndef f(x):\n    return thunder.jit(x)\n",
        "import jax\n\n\n@jax.jit\ndef f(x):\n    return x\n",
        "from thunder import compile\n\nf = compile(print)\n",
    ],
)
def test_a_compiler(text: str) -> None:
    """``torch.jit.script`` knows no ``torch.cuda.current_stream()`` without a device."""
    assert has_hazard(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        "import re\n\nimport torch\n\nWORD = re.compile('a')  # the graph of torch.cuda, compiled\n",
        "import torch\n\n\ndef f(x, i):\n    return x.gather(0, i).cuda()\n",
        "import networkx as nx\n\ngraph = nx.Graph()\n\n\ndef f(socket):\n    socket.send(b'1')\n",
        f"{NUMBA}@cuda.jit('void(int32[:], int32[:])')\ndef k(x, y):\n"
        '    """Doubles; always."""\n    i = cuda.grid(1)\n    if i < min(8, x.size):\n        y[i] = x[i]\n',
        "import triton\nfrom triton import language as tl\n\n\n@triton.jit\ndef k(x, n, B: tl.constexpr):\n"
        "    i = tl.program_id(0) * B + tl.arange(0, B)\n    tl.store(x, tl.load(x + i).to(tl.float32))\n",
        "from cuda.bindings import runtime\n\nerr, s = runtime.cudaStreamCreate()\n"
        "assert err == runtime.cudaError_t.cudaSuccess, isinstance(err, runtime.cudaError_t)\n",
        "while True:\n    break\n",
    ],
)
def test_what_is_none(text: str) -> None:
    assert not has_hazard(text.encode())


@pytest.mark.parametrize("text", ["import numba\n\ndef f(:\n", "# coding: none\nimport numba\n"])
def test_what_cannot_be_parsed_may_be_one(text: str) -> None:
    assert has_hazard(text.encode())


def test_what_cannot_be_read_may_be_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "large.py").write_bytes(b"x = 1\n" * (MAX_BYTES // 6 + 1))
    assert not is_safe(tmp_path, capsys, PLAIN)


@pytest.mark.parametrize(
    ("other", "safe"),
    [
        ("import torch\n\ndef f(g, x):\n    with torch.cuda.graph(g):\n        return x()\n", False),
        (f"{NUMBA}@cuda.jit\ndef k(flag):\n{SPIN}", False),
        ("import torch, code_\n\nrun = torch.jit.script(code_.run)\n", False),
        ("import code_\n\ndef f(g, x):\n    code_.run(x, True)\n", True),
    ],
)
def test_one_in_any_file_is_enough(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    other: str,
    safe: bool,
) -> None:
    """Hooks, operators, tables of functions and ``eval`` lead from anywhere to anywhere."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.py").write_text(other.replace("code_", "code"))
    assert is_safe(tmp_path, capsys, PLAIN) is safe


def test_the_host_waits_for_a_kernel_in_sight(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = f"""\
{NUMBA}@cuda.jit
def kernel(flag, out):
    out[0] = flag[0] * 2


def run(out):
    s = cuda.stream()
    flag = cuda.mapped_array(1, dtype="int32")
    kernel[1, 1, s](flag, out)
    flag[0] = 1
    s.synchronize()
"""
    wait = "s.synchronize()\n     flag[0] = 1"
    assert is_safe(tmp_path, capsys, text, wait)
    loop = f"{SPIN}    out[0] = flag[0] * 2"
    assert not is_safe(tmp_path, capsys, text.replace("    out[0] = flag[0] * 2", loop), wait)
