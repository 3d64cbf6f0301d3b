"""Warp kernels between PyTorch operations."""
from contextlib import contextmanager

import torch
import warp as wp


@wp.kernel
def pair_energy(x: wp.array(dtype=wp.vec3), cutoff: float, e: wp.array(dtype=float)):
    i = wp.tid()
    acc = float(0.0)
    for j in range(x.shape[0]):
        if j != i:
            d = wp.length(x[i] - x[j])
            if d < cutoff:
                acc += 1.0 / (d + 0.1)
    e[i] = acc


@contextmanager
def torch_stream_scope(device):
    stream = torch.cuda.current_stream(device)
    with wp.ScopedStream(wp.stream_from_torch(stream), sync_enter=False):
        yield


def energies(positions, cutoff=1.5):
    positions = positions.contiguous()
    out = torch.empty(positions.shape[0], device=positions.device)
    with torch_stream_scope(positions.device):
        wp.launch(
            pair_energy,
            dim=positions.shape[0],
            inputs=[wp.from_torch(positions, dtype=wp.vec3), cutoff],
            outputs=[wp.from_torch(out)],
        )
    return out


class MonteCarlo:
    def __init__(self, n, device="cuda:0", step=0.05):
        self.stream = torch.cuda.Stream(device)
        self.step = step
        with torch.cuda.stream(self.stream):
            self.x = torch.rand(n, 3, device=device) * 4
            self.e = energies(self.x)

    def sweep(self, beta):
        with torch.cuda.stream(self.stream):
            trial = self.x + self.step * torch.randn_like(self.x)
            e = energies(trial)
            accept = torch.rand_like(e) < torch.exp(-beta * (e - self.e))
            self.x = torch.where(accept[:, None], trial, self.x)
            self.e = torch.where(accept, e, self.e)
            return accept.float().mean().item()


def main():
    wp.init()
    mc = MonteCarlo(4096)
    return [mc.sweep(1.0) for _ in range(50)]


if __name__ == "__main__":
    print(main())
