"""Total-variation denoising: CuPy gradients, Triton projection kernel."""
import cupy as cp
import numpy as np
import torch
import triton
import triton.language as tl


@triton.jit
def project(px_ptr, py_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    px = tl.load(px_ptr + offs, mask=mask)
    py = tl.load(py_ptr + offs, mask=mask)
    scale = tl.maximum(tl.sqrt(px * px + py * py), 1.0)
    tl.store(px_ptr + offs, px / scale, mask=mask)
    tl.store(py_ptr + offs, py / scale, mask=mask)


class TotalVariation:
    def __init__(self, weight=0.1, tau=0.248):
        self.weight, self.tau = weight, tau
        self.stream = cp.cuda.Stream(non_blocking=True)

    def _project(self, px, py):
        grid = (triton.cdiv(px.size, 1024),)
        project[grid](torch.as_tensor(px, device="cuda"), torch.as_tensor(py, device="cuda"),
                      px.size, BLOCK=1024)

    def denoise(self, image, rounds=100):
        with self.stream:
            f = cp.asarray(image, dtype=cp.float32)
            px, py = cp.zeros_like(f), cp.zeros_like(f)
            for _ in range(rounds):
                div = px - cp.roll(px, 1, 1) + py - cp.roll(py, 1, 0)
                g = div - f / self.weight
                px += self.tau * (cp.roll(g, -1, 1) - g)
                py += self.tau * (cp.roll(g, -1, 0) - g)
                self._project(px, py)
            div = px - cp.roll(px, 1, 1) + py - cp.roll(py, 1, 0)
            return cp.asnumpy(f - self.weight * div)


def main():
    tv = TotalVariation()
    stack = np.load("micrographs.npy", mmap_mode="r")
    np.save("smooth.npy", np.stack([tv.denoise(np.asarray(img)) for img in stack]))


if __name__ == "__main__":
    main()
