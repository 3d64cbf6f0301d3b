"""Seismic inversion loop: torch proposes a model, CuPy propagates the wave."""
import cupy as cp
import torch
import torch.nn as nn
from torch.utils.dlpack import from_dlpack, to_dlpack

STEP = cp.ElementwiseKernel(
    "float32 lap, float32 c, float32 prev, float32 cur, float32 dt2",
    "float32 nxt",
    "nxt = 2.0f * cur - prev + dt2 * c * c * lap",
    "wave_step",
)


def laplacian(u, h):
    out = cp.zeros_like(u)
    out[1:-1, 1:-1] = (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
                       - 4.0 * u[1:-1, 1:-1]) / (h * h)
    return out


class Propagator:
    """Explicit acoustic solver on its own stream."""

    def __init__(self, n, h=10.0, dt=1e-3):
        self.n, self.h, self.dt2 = n, h, cp.float32(dt * dt)
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.receivers = slice(4, n - 4, 4)

    def shoot(self, speed, source, steps):
        with self.stream:
            prev = cp.zeros((self.n, self.n), dtype=cp.float32)
            cur = cp.zeros_like(prev)
            cur[2, source] = 1.0
            traces = []
            for t in range(steps):
                nxt = STEP(laplacian(cur, self.h), speed, prev, cur, self.dt2)
                prev, cur = cur, nxt
                if t % 8 == 0:
                    traces.append(cur[2, self.receivers])
            return cp.stack(traces)


class VelocityNet(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.code = nn.Parameter(torch.zeros(1, 16, n // 8, n // 8))
        self.up = nn.Sequential(
            nn.Upsample(scale_factor=8, mode="bilinear", align_corners=False),
            nn.Conv2d(16, 16, 5, padding=2), nn.GELU(), nn.Conv2d(16, 1, 5, padding=2),
        )

    def forward(self):
        return 1500.0 + 2000.0 * torch.sigmoid(self.up(self.code))[0, 0]


def as_cupy(t):
    return cp.fromDlpack(to_dlpack(t.detach().contiguous()))


def as_torch(a):
    return from_dlpack(a.toDlpack())


class Search:
    """Evolution strategy step; the solver needs no gradients."""

    def __init__(self, net, prop, observed, sigma=0.02, lr=0.3):
        self.net, self.prop, self.observed = net, prop, observed
        self.sigma, self.lr = sigma, lr

    def misfit(self, source):
        speed = as_cupy(self.net())
        traces = as_torch(self.prop.shoot(speed, source, 400))
        return (traces - self.observed[source]).square().mean()

    @torch.no_grad()
    def step(self, sources):
        code = self.net.code
        noise = torch.randn_like(code)
        scores = []
        for sign in (1.0, -1.0):
            code.add_(sign * self.sigma * noise)
            scores.append(sum(self.misfit(s) for s in sources))
            code.sub_(sign * self.sigma * noise)
        code.sub_(self.lr * (scores[0] - scores[1]) / (2 * self.sigma) * noise)
        return 0.5 * (scores[0] + scores[1])


def main():
    torch.manual_seed(0)
    n, sources = 256, (64, 128, 192)
    net = VelocityNet(n).cuda()
    prop = Propagator(n)
    with prop.stream:
        true = cp.full((n, n), 1500.0, dtype=cp.float32)
        true[n // 2:] = 2600.0
    observed = {s: as_torch(prop.shoot(true, s, 400)) for s in sources}
    torch.cuda.synchronize()
    search = Search(net, prop, observed)
    for it in range(20):
        print(it, search.step(sources).item())


if __name__ == "__main__":
    main()
