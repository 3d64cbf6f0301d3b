"""Triton kernels inside a CuPy pipeline, launched on CuPy's stream."""
from contextlib import contextmanager

import cupy as cp
import torch
import triton
import triton.language as tl


@triton.jit
def soft_threshold(x_ptr, y_ptr, lam, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    mag = tl.maximum(tl.abs(x) - lam, 0.0)
    tl.store(y_ptr + offs, tl.where(x > 0, mag, -mag), mask=mask)


@contextmanager
def shared_stream(stream):
    """Make a CuPy stream current for CuPy and for Triton launches."""
    with stream, torch.cuda.stream(torch.cuda.ExternalStream(stream.ptr)):
        yield stream


class Ista:
    def __init__(self, a, lam):
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.a = cp.asarray(a, dtype=cp.float32)
            self.step = float(1.0 / cp.linalg.norm(self.a, 2) ** 2)
        self.lam = lam

    def _shrink(self, v, out):
        n = v.size
        grid = (triton.cdiv(n, 1024),)
        soft_threshold[grid](torch.as_tensor(v, device="cuda"), torch.as_tensor(out, device="cuda"),
                             self.lam * self.step, n, BLOCK=1024)

    def solve(self, b, iterations=200):
        with shared_stream(self.stream):
            y = cp.asarray(b, dtype=cp.float32)
            x = cp.zeros(self.a.shape[1], cp.float32)
            for _ in range(iterations):
                v = x - self.step * (self.a.T @ (self.a @ x - y))
                self._shrink(v, x)
            return cp.asnumpy(x)


def main():
    import numpy as np

    rng = np.random.default_rng(0)
    a = rng.normal(size=(1024, 4096)) / 32
    truth = np.where(rng.random(4096) < 0.02, rng.normal(size=4096), 0)
    x = Ista(a, 0.01).solve(a @ truth)
    print(np.abs(x - truth).mean())


if __name__ == "__main__":
    main()
