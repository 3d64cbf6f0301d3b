"""Whole programs on a GPU: what is wrong is confirmed, and with ``--right`` the same program is not.

Each program reads the choice from its arguments, so that both runs have one text and one finding.
"""

from __future__ import annotations

import json
import sys
import textwrap
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from streamlint import confirm
from streamlint.confirm.gpu.driver import Driver, DriverUnavailableError

if TYPE_CHECKING:
    from pathlib import Path

TRAINING = """\
import sys
import torch

N = 1 << 20
side = torch.cuda.Stream()


def load(host, batch):
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        batch.copy_(host, non_blocking=True)


def train(right):
    hosts = [torch.full((N,), float(i + 1)).pin_memory() for i in range(4)]
    batch, weight = torch.zeros(N, device="cuda"), torch.ones(N, device="cuda")
    torch.cuda.synchronize()
    for host in hosts:
        load(host, batch)
        if right:
            torch.cuda.current_stream().wait_stream(side)
        weight += batch * 0.5
    torch.cuda.synchronize()


if __name__ == "__main__":
    train("--right" in sys.argv)
"""

TESTS = """\
import os
import torch

N = 1 << 20


def test_sum():
    side = torch.cuda.Stream()
    x = torch.zeros(N, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        x.fill_(7.0)
    if os.environ.get("RIGHT"):
        side.synchronize()
    total = x.sum()
    assert total.item() >= 0


def test_other():
    assert True
"""

LIFETIME = """\
import sys
import torch

N = 1 << 20


def copy_aside(out, side, right):
    x = torch.full((N,), 7.0, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        out.copy_(x)
        if right:
            x.record_stream(side)


def main(right):
    side = torch.cuda.Stream()
    out = torch.zeros(N, device="cuda")
    torch.cuda.synchronize()
    copy_aside(out, side, right)
    following = torch.ones(8, device="cuda")
    torch.cuda.synchronize()
    return out[0].item() + following[0].item()


main("--right" in sys.argv)
"""

CUPY = """\
import sys
import cupy as cp

N = 1 << 20


def main(right):
    first, second = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
    x = cp.ones(N, dtype=cp.float32)
    y = x * 2
    cp.cuda.Device().synchronize()
    first.use()
    x += 2
    if right:
        first.synchronize()
    second.use()
    y = x * 2
    cp.cuda.Stream.null.use()
    cp.cuda.Device().synchronize()
    return float(y[0])


# What is compiled at its first use must not be compiled behind a gate.
for _ in range(2):
    main("--right" in sys.argv)
"""

NUMBA = """\
import sys
import numpy as np
from numba import cuda

N = 1 << 20


@cuda.jit
def double(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = 2 * x[i]


def main(right):
    first, second = cuda.stream(), cuda.stream()
    x, y, z = (cuda.to_device(np.full(N, v, dtype=np.float32)) for v in (1, 0, 0))
    cuda.synchronize()
    config = (N // 256, 256, first)
    double[config](x, y)
    if right:
        first.synchronize()
    double[N // 256, 256, second](y, z)
    cuda.synchronize()


for _ in range(2):
    main("--right" in sys.argv)
"""

RUNTIME = """\
import sys
from cuda.bindings import runtime as cudart

SIZE = 1 << 20
D2D = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice


def check(result):
    err, *values = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(f"CUDA error {err}")
    return values[0] if values else None


def main(right):
    a = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
    b = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
    x, y = check(cudart.cudaMalloc(SIZE)), check(cudart.cudaMalloc(SIZE))
    check(cudart.cudaMemset(x, 1, SIZE))
    check(cudart.cudaMemset(y, 2, SIZE))
    check(cudart.cudaDeviceSynchronize())
    check(cudart.cudaMemsetAsync(x, 7, SIZE, a))
    if right:
        check(cudart.cudaStreamSynchronize(a))
    check(cudart.cudaMemcpyAsync(y, x, SIZE, D2D, b))
    check(cudart.cudaDeviceSynchronize())


main("--right" in sys.argv)
"""

CAPTURE = """\
import sys
import torch

N = 1 << 20


def main(right):
    side = torch.cuda.Stream()
    x = torch.ones(N, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x + 1
        total = 1.0 if right else y.sum().item()
    graph.replay()
    torch.cuda.synchronize()
    return y[0].item() + total


try:
    main("--right" in sys.argv)
except RuntimeError:
    print("no graph")
"""

READS = """\
import torch

N = 1 << 20


def main():
    side = torch.cuda.Stream()
    x = torch.ones(N, device="cuda")
    torch.cuda.synchronize()
    total = 0.0
    with torch.cuda.stream(side):
        for _ in range(3):
            x = x * 2
            total += x[0].item()
    return total


main()
"""


@dataclass(frozen=True)
class Case:
    name: str
    library: str
    text: str
    code: str
    script: str = "program.py"
    both: bool = True
    """Whether the right one can be told apart: a blocking call blocks either way."""

    def __str__(self) -> str:
        return self.name


CASES = [
    Case("training", "torch", TRAINING, "SL101"),
    Case("pytest", "torch", TESTS, "SL101", "test_program.py"),
    Case("lifetime", "torch", LIFETIME, "SL401"),
    Case("cupy", "cupy", CUPY, "SL101"),
    Case("numba", "numba.cuda", NUMBA, "SL101"),
    Case("runtime", "cuda.bindings.runtime", RUNTIME, "SL101"),
    Case("capture", "torch", CAPTURE, "SL501"),
    Case("reads", "torch", READS, "SL902", both=False),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    try:
        Driver()
    except DriverUnavailableError as error:
        pytest.skip(str(error))
    (tmp_path / "pyproject.toml").write_text("", "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def confirmed(case: Case, folder: Path, right: bool, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    path = folder / case.script
    path.write_text(textwrap.dedent(case.text), "utf-8")
    command = [sys.executable, case.script, *(["--right"] if right else [])]
    if case.script.startswith("test_"):
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", case.script, "-k", "sum"]
    arguments = [str(path), "--code", case.code, "--output-format", "json", "--timeout", "60"]
    began = time.monotonic()
    status = confirm.main([*arguments, "--", *command])
    took = time.monotonic() - began
    captured = capsys.readouterr()
    document: dict[str, Any] = json.loads(captured.out)
    with capsys.disabled():
        for one in document["confirmations"]:
            print(f"\n{case} right={right} exit {status} in {took:.1f} s: {one['verdict']} {one['reason']}")
            print(f"    {one['difference']}")
    document["status"] = status
    assert document["confirmations"], captured.err
    return document


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_wrong_program_is_confirmed_and_the_right_one_is_not(
    case: Case, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(case.library)
    document = confirmed(case, folder, False, capsys)
    verdicts = [one["verdict"] for one in document["confirmations"]]
    assert "CONFIRMED" in verdicts, document["confirmations"]
    assert document["status"] == 1
    assert any((one["confirm"] or {}).get("verdict") == "CONFIRMED" for one in document["findings"])
    if case.both:
        monkeypatch.setenv("RIGHT", "1")
        document = confirmed(case, folder, True, capsys)
        verdicts = [one["verdict"] for one in document["confirmations"]]
        assert "CONFIRMED" not in verdicts, document["confirmations"]
        assert "NOT_RUN" not in verdicts, document["confirmations"]
