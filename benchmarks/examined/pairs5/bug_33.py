"""Spectral Navier-Stokes: nonlinear terms on two helper streams entered through a context manager."""
from contextlib import contextmanager
import torch


class StreamScope:
    def __init__(self, n):
        self.streams = [torch.cuda.Stream() for _ in range(n)]

    @contextmanager
    def fork(self, i):
        outer = torch.cuda.current_stream()
        stream = self.streams[i]
        stream.wait_stream(outer)
        with torch.cuda.stream(stream):
            yield stream
        stream.wait_stream(outer)


class Vorticity2D:
    def __init__(self, n, nu=1e-4):
        k = torch.fft.fftfreq(n, 1 / n, device="cuda")
        self.kx, self.ky = torch.meshgrid(k, k[: n // 2 + 1].abs(), indexing="ij")
        self.k2 = self.kx ** 2 + self.ky ** 2
        self.inv = torch.where(self.k2 > 0, 1 / self.k2.clamp(min=1), torch.zeros_like(self.k2))
        self.n, self.nu = n, nu
        self.w_hat = torch.fft.rfft2(torch.randn(n, n, device="cuda")) * torch.exp(-self.k2 / 64)
        self.adv = [torch.empty(n, n, device="cuda") for _ in range(2)]
        self.scope = StreamScope(2)

    def _advect(self, k_psi, k_w, sign, out):
        psi_hat = self.w_hat * self.inv
        vel = torch.fft.irfft2(1j * k_psi * psi_hat, s=(self.n, self.n))
        grad = torch.fft.irfft2(1j * k_w * self.w_hat, s=(self.n, self.n))
        torch.mul(vel, grad, out=out).mul_(sign)

    def step(self, dt=1e-3):
        with self.scope.fork(0):
            self._advect(self.ky, self.kx, 1.0, self.adv[0])
        with self.scope.fork(1):
            self._advect(self.kx, self.ky, -1.0, self.adv[1])
        total = torch.fft.rfft2(self.adv[0] + self.adv[1])
        update = (self.w_hat - dt * total) / (1 + dt * self.nu * self.k2)
        self.w_hat.copy_(update)

    def enstrophy(self):
        return self.w_hat.abs().square().sum().item() / self.n ** 4


def main():
    flow = Vorticity2D(1024)
    torch.cuda.synchronize()
    for n in range(1000):
        flow.step()
        if n % 200 == 0:
            print(n, flow.enstrophy())


if __name__ == "__main__":
    main()
