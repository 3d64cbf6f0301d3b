"""Lattice-Boltzmann: collide on the main stream, probes on an observer stream through a context manager."""
from contextlib import contextmanager
import functools
import torch


@contextmanager
def observing(stream):
    main = torch.cuda.current_stream()
    stream.wait_stream(main)
    try:
        with torch.cuda.stream(stream):
            yield main
    finally:
        main.wait_stream(stream)


def observed(method):
    @functools.wraps(method)
    def wrapper(self, *args):
        with observing(self.stream) as main:
            result = method(self, *args)
        result.record_stream(main)
        return result
    return wrapper


class Probe:
    def __init__(self, points):
        self.stream = torch.cuda.Stream()
        self.points = torch.as_tensor(points, device="cuda")

    @observed
    def velocity(self, f, cx):
        sample = f[:, self.points[:, 0], self.points[:, 1]]
        return (sample * cx[:, None]).sum(0) / sample.sum(0)


class D2Q9:
    W = (4 / 9,) + (1 / 9,) * 4 + (1 / 36,) * 4
    CX = (0, 1, 0, -1, 0, 1, -1, -1, 1)
    CY = (0, 0, 1, 0, -1, 1, 1, -1, -1)

    def __init__(self, ny, nx, tau=0.6):
        self.w = torch.tensor(self.W, device="cuda").view(9, 1, 1)
        self.cx = torch.tensor(self.CX, device="cuda", dtype=torch.float32)
        self.cy = torch.tensor(self.CY, device="cuda", dtype=torch.float32)
        self.f = self.w.expand(9, ny, nx).clone()
        self.f[1] *= 1.05
        self.omega = 1 / tau

    def step(self):
        rho = self.f.sum(0)
        ux = torch.tensordot(self.cx, self.f, 1) / rho
        uy = torch.tensordot(self.cy, self.f, 1) / rho
        cu = 3 * (self.cx.view(9, 1, 1) * ux + self.cy.view(9, 1, 1) * uy)
        feq = self.w * rho * (1 + cu + 0.5 * cu ** 2 - 1.5 * (ux ** 2 + uy ** 2))
        self.f.add_(feq - self.f, alpha=self.omega)
        for i in range(9):
            self.f[i] = self.f[i].roll((self.CY[i], self.CX[i]), (0, 1))


def main():
    lbm = D2Q9(512, 1024)
    probe = Probe([[10, 10], [256, 512], [500, 900]])
    series = []
    for n in range(400):
        lbm.step()
        if n % 10 == 0:
            series.append(probe.velocity(lbm.f, lbm.cx))
    print(torch.stack(series).mean(0).tolist())


if __name__ == "__main__":
    main()
