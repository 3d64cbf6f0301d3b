from __future__ import annotations

from contextlib import contextmanager

import torch
import warp as wp


@wp.kernel
def spring_forces(
    x: wp.array(dtype=wp.vec3), rest: float, stiffness: wp.array(dtype=float), f: wp.array(dtype=wp.vec3)
):
    i = wp.tid()
    d = x[i + 1] - x[i]
    length = wp.length(d)
    force = stiffness[i] * (length - rest) * (d / (length + 1.0e-6))
    wp.atomic_add(f, i, force)
    wp.atomic_add(f, i + 1, -force)


class ChainSim:
    """Warp computes the forces, torch integrates; both on one borrowed stream."""

    def __init__(self, n: int, device: str = "cuda:0") -> None:
        self.device = device
        self.torch_stream = torch.cuda.Stream(device)
        self.wp_stream = wp.stream_from_torch(self.torch_stream)
        self.torch_stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(self.torch_stream):
            self.x = torch.zeros(n, 3, device=device)
            self.x[:, 0] = torch.arange(n, device=device) * 1.1
            self.v = torch.zeros_like(self.x)
            self.f = torch.zeros_like(self.x)
            self.k = torch.full((n - 1,), 50.0, device=device)
        self.wp_x = wp.from_torch(self.x, dtype=wp.vec3)
        self.wp_f = wp.from_torch(self.f, dtype=wp.vec3)
        self.wp_k = wp.from_torch(self.k)

    @contextmanager
    def _scope(self):
        outer = torch.cuda.current_stream(self.device)
        self.torch_stream.wait_stream(outer)
        with torch.cuda.stream(self.torch_stream), wp.ScopedStream(self.wp_stream, sync_enter=False):
            yield
        outer.wait_stream(self.torch_stream)

    def advance(self, steps: int, dt: float, gain: torch.Tensor) -> torch.Tensor:
        with self._scope():
            self.k.mul_(gain)
            gain.record_stream(self.torch_stream)
            for _ in range(steps):
                self.f.zero_()
                wp.launch(
                    spring_forces,
                    dim=self.x.shape[0] - 1,
                    inputs=[self.wp_x, 1.0, self.wp_k, self.wp_f],
                    device=self.device,
                )
                self.v.add_(self.f, alpha=dt).mul_(0.999)
                self.x.add_(self.v, alpha=dt)
            energy = 0.5 * self.v.square().sum()
        energy.record_stream(torch.cuda.current_stream(self.device))
        return energy


def main() -> None:
    wp.init()
    sim = ChainSim(2000)
    gain = torch.ones((), device="cuda:0")
    for _ in range(20):
        energy = sim.advance(50, 1e-3, gain)
        gain = 1.0 + 0.01 * torch.tanh(energy)
    print(energy.item())


if __name__ == "__main__":
    main()
