"""CuPy features scored by a Triton kernel, exchanged with DLPack."""
import cupy as cp
import numpy as np
import torch
import triton
import triton.language as tl


@triton.jit
def soft_threshold(x, y, n, lam, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    v = tl.load(x + offs, mask=mask, other=0.0)
    mag = tl.maximum(tl.abs(v) - lam, 0.0)
    tl.store(y + offs, tl.where(v >= 0, mag, -mag), mask=mask)


class Bridge:
    def __init__(self):
        self.cp_stream = cp.cuda.Stream(non_blocking=True)
        self.torch_stream = torch.cuda.Stream()
        self.cp_as_torch = torch.cuda.ExternalStream(self.cp_stream.ptr)

    def to_torch(self, array):
        with self.cp_stream, torch.cuda.stream(self.torch_stream):
            return torch.from_dlpack(array)

    def to_cupy(self, tensor):
        tensor.record_stream(self.cp_as_torch)
        with self.cp_stream, torch.cuda.stream(self.torch_stream):
            return cp.from_dlpack(tensor)


class ShrinkagePipeline:
    def __init__(self, basis, lam):
        self.bridge = Bridge()
        self.lam = lam
        with self.bridge.cp_stream:
            self.basis = cp.asarray(basis, dtype=cp.float32)
            self.energy = cp.zeros((), dtype=cp.float32)

    def _shrink(self, coeffs):
        with torch.cuda.stream(self.bridge.torch_stream):
            out = torch.empty_like(coeffs)
            n = coeffs.numel()
            soft_threshold[(triton.cdiv(n, 1024),)](coeffs, out, n, self.lam, BLOCK=1024)
            return out

    def push(self, signal):
        with self.bridge.cp_stream:
            coeffs = cp.asarray(signal, dtype=cp.float32) @ self.basis
        borrowed = self.bridge.to_torch(coeffs)
        sparse = self.bridge.to_cupy(self._shrink(borrowed))
        with self.bridge.cp_stream:
            restored = sparse @ self.basis.T
            self.energy += cp.square(restored).sum()

    def total(self):
        host = self.energy.get(stream=self.bridge.cp_stream)
        self.bridge.cp_stream.synchronize()
        return float(host)


def main():
    rng = np.random.default_rng(12)
    basis, _ = np.linalg.qr(rng.standard_normal((128, 128)))
    pipeline = ShrinkagePipeline(basis, lam=0.5)
    for _ in range(16):
        pipeline.push(rng.standard_normal((1024, 128)))
    return pipeline.total()


if __name__ == "__main__":
    print(main())
