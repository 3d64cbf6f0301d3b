"""Coupling of a particle engine (CuPy kernels) with a learned pair potential (PyTorch)."""
import cupy as cp
import torch
from torch import nn

_pair_vectors = cp.ElementwiseKernel(
    "raw float32 pos, int32 i, int32 j, int32 axis",
    "float32 rij",
    "rij = pos[j * 3 + axis] - pos[i * 3 + axis]",
    "pair_vectors",
)


class PairEngine:
    """Owns the particle state; every kernel goes to the engine's own stream."""

    def __init__(self, positions, pairs, device=0):
        self.stream = cp.cuda.Stream(non_blocking=True)
        n_pairs = len(pairs)
        self.rij = torch.empty((n_pairs, 3), dtype=torch.float32, device=f"cuda:{device}")
        self.pair_i = torch.empty(n_pairs, dtype=torch.int64, device=f"cuda:{device}")
        torch.cuda.synchronize(device)
        self._rij = cp.asarray(self.rij)
        with self.stream:
            self._pos = cp.asarray(positions, dtype=cp.float32)
            self._vel = cp.zeros_like(self._pos)
            self._i = cp.asarray(pairs[:, 0], dtype=cp.int32)
            self._j = cp.asarray(pairs[:, 1], dtype=cp.int32)
            cp.asarray(self.pair_i)[...] = self._i
        self.stream.synchronize()

    def build_vectors(self):
        with self.stream:
            for axis in range(3):
                _pair_vectors(self._pos.ravel(), self._i, self._j, axis, self._rij[:, axis])

    def integrate(self, forces, dt):
        with self.stream:
            self._vel += cp.asarray(forces) * dt
            self._pos += self._vel * dt


class PairPotential(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, rij):
        return self.net(rij).squeeze(-1)


class MliapCalculator:
    def __init__(self, model, n_atoms):
        self.model = model.eval()
        self.n_atoms = n_atoms

    def compute_forces(self, data):
        rij = data.rij.detach().clone().requires_grad_(True)
        energy = self.model(rij).sum()
        (fij,) = torch.autograd.grad(energy, rij)
        forces = torch.zeros((self.n_atoms, 3), device=rij.device)
        forces.index_add_(0, data.pair_i, fij)
        return forces.cpu().numpy()


def run(positions, pairs, steps, dt=1e-3):
    engine = PairEngine(positions, pairs)
    calc = MliapCalculator(PairPotential().cuda(), len(positions))
    for _ in range(steps):
        engine.build_vectors()
        forces = calc.compute_forces(engine)
        engine.integrate(forces, dt)
    engine.stream.synchronize()
    return cp.asnumpy(engine._pos)
