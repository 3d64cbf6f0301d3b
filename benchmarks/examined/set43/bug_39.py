"""D2Q9 lattice Boltzmann channel with separate edge and core launches (Numba)."""
import argparse

import numpy as np
from numba import cuda, float32

CX = np.array([0, 1, 0, -1, 0, 1, -1, -1, 1], dtype=np.int32)
CY = np.array([0, 0, 1, 0, -1, 1, 1, -1, -1], dtype=np.int32)
WT = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4, dtype=np.float32)


@cuda.jit(device=True)
def relax(f, x, y, g, cx, cy, wt, omega, force):
    nx = f.shape[2]
    ny = f.shape[1]
    local = cuda.local.array(9, float32)
    rho = float32(0.0)
    ux = float32(0.0)
    uy = float32(0.0)
    for q in range(9):
        xs = (x - cx[q] + nx) % nx
        ys = min(max(y - cy[q], 0), ny - 1)
        v = f[q, ys, xs]
        local[q] = v
        rho += v
        ux += v * cx[q]
        uy += v * cy[q]
    ux = ux / rho + force
    uy = uy / rho
    sq = 1.5 * (ux * ux + uy * uy)
    for q in range(9):
        cu = 3.0 * (cx[q] * ux + cy[q] * uy)
        eq = wt[q] * rho * (1.0 + cu + 0.5 * cu * cu - sq)
        g[q, y, x] = local[q] + omega * (eq - local[q])


@cuda.jit
def core_rows(f, g, cx, cy, wt, omega, force, lo, hi):
    x, y = cuda.grid(2)
    y += lo
    if x < f.shape[2] and y < hi:
        relax(f, x, y, g, cx, cy, wt, omega, force)


@cuda.jit
def edge_rows(f, g, cx, cy, wt, omega, force, band):
    x = cuda.grid(1)
    ny = f.shape[1]
    if x < f.shape[2]:
        for k in range(band):
            relax(f, x, k, g, cx, cy, wt, omega, force)
            relax(f, x, ny - 1 - k, g, cx, cy, wt, omega, force)


class Channel:
    def __init__(self, ny, nx, tau=0.7, force=1e-5, band=4):
        self.ny, self.nx, self.band = ny, nx, band
        self.omega = np.float32(1.0 / tau)
        self.force = np.float32(force)
        self.edge = cuda.stream()
        self.core = cuda.stream()
        start = np.broadcast_to(WT[:, None, None], (9, ny, nx)).astype(np.float32).copy()
        self.f = cuda.to_device(start)
        self.g = cuda.to_device(start)
        self.cx, self.cy, self.wt = (cuda.to_device(v) for v in (CX, CY, WT))
        self.steps_done = 0

    def _constants(self):
        return self.cx, self.cy, self.wt, self.omega, self.force

    def step(self):
        tx = 128
        edge_rows[(self.nx + tx - 1) // tx, tx, self.edge](
            self.f, self.g, *self._constants(), self.band)
        lo, hi = self.band, self.ny - self.band
        block = (32, 8)
        grid = ((self.nx + 31) // 32, (hi - lo + 7) // 8)
        core_rows[grid, block, self.core](self.f, self.g, *self._constants(), lo, hi)
        self.f, self.g = self.g, self.f
        self.steps_done += 1

    def run(self, n):
        for _ in range(n):
            self.step()
        self.edge.synchronize()
        self.core.synchronize()

    def profile(self):
        f = self.f.copy_to_host()
        rho = f.sum(axis=0)
        ux = np.tensordot(CX.astype(np.float32), f, axes=(0, 0)) / rho
        return ux.mean(axis=1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--ny", type=int, default=256)
    ap.add_argument("--nx", type=int, default=1024)
    ap.add_argument("--steps", type=int, default=400)
    args = ap.parse_args()
    ch = Channel(args.ny, args.nx)
    for _ in range(5):
        ch.run(args.steps)
        u = ch.profile()
        print(ch.steps_done, float(u.max()), float(u[args.ny // 2]))


if __name__ == "__main__":
    main()
