"""Warp: smoke grid with a vorticity pass in a scoped stream."""
import numpy as np
import warp as wp

wp.init()


@wp.kernel
def advect(src: wp.array2d(dtype=float), dst: wp.array2d(dtype=float), shift: int):
    i, j = wp.tid()
    k = (j + src.shape[1] - shift) % src.shape[1]
    dst[i, j] = 0.99 * src[i, k]


@wp.kernel
def gradient(src: wp.array2d(dtype=float), out: wp.array2d(dtype=float)):
    i, j = wp.tid()
    n = src.shape[1]
    out[i, j] = src[i, (j + 1) % n] - src[i, j]


@wp.kernel
def confine(dst: wp.array2d(dtype=float), grad: wp.array2d(dtype=float), eps: float):
    i, j = wp.tid()
    dst[i, j] = dst[i, j] + eps * wp.abs(grad[i, j])


class Smoke:
    def __init__(self, n, device="cuda:0"):
        self.n, self.device = n, device
        self.side = wp.Stream(device)
        self.rho = wp.array(np.random.rand(n, n), dtype=float, device=device)
        self.tmp = wp.zeros((n, n), dtype=float, device=device)
        self.grad = wp.zeros((n, n), dtype=float, device=device)

    def step(self):
        with wp.ScopedDevice(self.device):
            with wp.ScopedStream(self.side, sync_enter=True, sync_exit=True):
                wp.launch(gradient, dim=self.rho.shape, inputs=[self.rho], outputs=[self.grad])
                wp.launch(advect, dim=self.rho.shape, inputs=[self.rho, self.tmp, 2])
            wp.launch(confine, dim=self.tmp.shape, inputs=[self.tmp, self.grad, 0.01])
        self.rho, self.tmp = self.tmp, self.rho

    def mass(self):
        wp.synchronize_device(self.device)
        return float(self.rho.numpy().sum())


if __name__ == "__main__":
    s = Smoke(256)
    for _ in range(50):
        s.step()
    print(s.mass())
