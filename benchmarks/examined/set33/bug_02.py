"""Molecular dynamics driver: Numba integrator, PyTorch force field on its own stream."""
import numpy as np
import torch
from numba import cuda
from torch import nn


@cuda.jit
def verlet_kick(vel, force, inv_mass, half_dt):
    i = cuda.grid(1)
    if i < vel.shape[0]:
        for k in range(3):
            vel[i, k] += force[i, k] * inv_mass[i] * half_dt


@cuda.jit
def verlet_drift(pos, vel, dt):
    i = cuda.grid(1)
    if i < pos.shape[0]:
        for k in range(3):
            pos[i, k] += vel[i, k] * dt


class ForceField(nn.Module):
    def __init__(self, hidden=128):
        super().__init__()
        self.embed = nn.Linear(3, hidden)
        self.readout = nn.Linear(hidden, 1)

    def energy(self, pos):
        return self.readout(torch.tanh(self.embed(pos))).sum()


class ForceProvider:
    """Evaluates the network on a private stream into a persistent force buffer."""

    def __init__(self, model, n_atoms, device):
        self.model = model
        self.stream = torch.cuda.Stream(device)
        self.forces = torch.zeros((n_atoms, 3), device=device)
        torch.cuda.synchronize(device)

    def evaluate(self, pos, ready_stream):
        ready_stream.synchronize()
        with torch.cuda.stream(self.stream):
            x = pos.detach().clone().requires_grad_(True)
            (grad,) = torch.autograd.grad(self.model.energy(x), x)
            torch.neg(grad, out=self.forces)
        return self.forces


class Dynamics:
    def __init__(self, positions, masses, dt):
        self.device = torch.device("cuda:0")
        self.dt = dt
        self.n = len(positions)
        self.md_stream = cuda.stream()
        self.pos = torch.as_tensor(positions, dtype=torch.float32).to(self.device)
        self.vel = torch.zeros_like(self.pos)
        self.inv_mass = torch.as_tensor(1.0 / np.asarray(masses), dtype=torch.float32).to(self.device)
        model = ForceField().to(self.device)
        self.provider = ForceProvider(model, self.n, self.device)
        torch.cuda.synchronize()
        self.d_pos = cuda.as_cuda_array(self.pos)
        self.d_vel = cuda.as_cuda_array(self.vel)
        self.d_inv_mass = cuda.as_cuda_array(self.inv_mass)
        self.d_force = cuda.as_cuda_array(self.provider.forces)
        self.block = 128
        self.grid = (self.n + self.block - 1) // self.block

    def _kick(self):
        verlet_kick[self.grid, self.block, self.md_stream](
            self.d_vel, self.d_force, self.d_inv_mass, 0.5 * self.dt
        )

    def step(self):
        self._kick()
        verlet_drift[self.grid, self.block, self.md_stream](self.d_pos, self.d_vel, self.dt)
        self.provider.evaluate(self.pos, self.md_stream)
        self._kick()

    def run(self, n_steps):
        for _ in range(n_steps):
            self.step()
        self.md_stream.synchronize()
        return self.pos.cpu().numpy()
