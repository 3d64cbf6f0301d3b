"""Velocity-Verlet on CuPy arrays with forces from a PyTorch potential."""
import cupy as cp
import torch
from torch import nn

kick = cp.ElementwiseKernel(
    "float32 f, float32 scale", "float32 v", "v += scale * f", "kick")
drift = cp.ElementwiseKernel(
    "float32 v, float32 dt", "float32 x", "x += dt * v", "drift")


class ParticleState:
    def __init__(self, n, seed=0):
        rng = cp.random.default_rng(seed)
        self.positions = rng.standard_normal((n, 3), dtype=cp.float32) * 4
        self.velocities = cp.zeros((n, 3), cp.float32)
        self.forces = cp.zeros((n, 3), cp.float32)


class PairPotential(nn.Module):
    """Radial basis expansion of the distances and a small network per pair."""

    def __init__(self, basis=32, width=64, cutoff=6.0):
        super().__init__()
        self.register_buffer("centers", torch.linspace(0.5, cutoff, basis))
        self.net = nn.Sequential(nn.Linear(basis, width), nn.SiLU(), nn.Linear(width, 1))
        self.cutoff = cutoff

    def forward(self, positions):
        delta = positions.unsqueeze(0) - positions.unsqueeze(1)
        distance = (delta.square().sum(-1) + 1e-6).sqrt()
        features = torch.exp(-(distance.unsqueeze(-1) - self.centers).square())
        window = (1 - distance / self.cutoff).clamp(min=0).square()
        return 0.5 * (self.net(features).squeeze(-1) * window).sum()


class TorchForce:
    """Evaluates the potential on PyTorch's own stream, on the integrator's arrays."""

    def __init__(self, model, state, md_stream):
        self.model = model
        self.md_stream = torch.cuda.ExternalStream(md_stream.ptr)
        self.stream = torch.cuda.Stream()
        self.positions = torch.as_tensor(state.positions, device="cuda")
        self.forces = torch.as_tensor(state.forces, device="cuda")

    def execute(self):
        self.stream.wait_stream(self.md_stream)
        with torch.cuda.stream(self.stream):
            positions = self.positions.clone().requires_grad_()
            energy = self.model(positions)
            (gradient,) = torch.autograd.grad(energy, positions)
            self.forces.copy_(gradient.neg_())

    def energy(self):
        with torch.cuda.stream(self.stream), torch.no_grad():
            self.stream.wait_stream(self.md_stream)
            return self.model(self.positions).item()


class VelocityVerlet:
    def __init__(self, state, potential, dt=1e-3):
        self.state = state
        self.dt = cp.float32(dt)
        self.half = cp.float32(0.5 * dt)
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.force = TorchForce(potential, state, self.stream)
        cp.cuda.Device().synchronize()
        self.force.execute()
        self.force.stream.synchronize()

    def step(self):
        s = self.state
        with self.stream:
            kick(s.forces, self.half, s.velocities)
            drift(s.velocities, self.dt, s.positions)
        self.force.execute()
        with self.stream:
            kick(s.forces, self.half, s.velocities)

    def kinetic(self):
        with self.stream:
            return float(0.5 * (self.state.velocities ** 2).sum())


def simulate(n=2048, steps=500, report=100):
    state = ParticleState(n)
    potential = PairPotential().cuda().eval().requires_grad_(False)
    torch.cuda.synchronize()
    integrator = VelocityVerlet(state, potential)
    log = []
    for step in range(steps):
        integrator.step()
        if (step + 1) % report == 0:
            log.append((integrator.force.energy(), integrator.kinetic()))
    integrator.stream.synchronize()
    return log


if __name__ == "__main__":
    for row in simulate():
        print(row)
