"""Pair potential as a Warp kernel inside a PyTorch molecular-dynamics loop."""
import math

import torch
import warp as wp

wp.init()


@wp.kernel
def lj_forces(
    pos: wp.array(dtype=wp.vec3),
    neighbours: wp.array(dtype=wp.int32, ndim=2),
    epsilon: float,
    sigma: float,
    cutoff: float,
    forces: wp.array(dtype=wp.vec3),
    energy: wp.array(dtype=float),
):
    i = wp.tid()
    f = wp.vec3(0.0, 0.0, 0.0)
    e = float(0.0)
    for k in range(neighbours.shape[1]):
        j = neighbours[i, k]
        if j >= 0 and j != i:
            d = pos[i] - pos[j]
            r = wp.length(d)
            if r < cutoff and r > 0.3:
                s6 = wp.pow(sigma / r, 6.0)
                f += d * (24.0 * epsilon * (2.0 * s6 * s6 - s6) / (r * r))
                e += 2.0 * epsilon * (s6 * s6 - s6)
    forces[i] = f
    energy[i] = e


class WarpLennardJones:
    def __init__(self, neighbours, epsilon=1.0, sigma=1.0, cutoff=2.5):
        self.params = (epsilon, sigma, cutoff)
        self.neighbours = wp.from_torch(neighbours, dtype=wp.int32)
        n = neighbours.shape[0]
        self.forces = torch.zeros(n, 3, device=neighbours.device)
        self.energy = torch.zeros(n, device=neighbours.device)
        self._forces = wp.from_torch(self.forces, dtype=wp.vec3)
        self._energy = wp.from_torch(self.energy)
        self.device = wp.device_from_torch(neighbours.device)

    def __call__(self, pos):
        wp.launch(
            lj_forces,
            dim=pos.shape[0],
            inputs=[wp.from_torch(pos, dtype=wp.vec3), self.neighbours, *self.params],
            outputs=[self._forces, self._energy],
            device=self.device,
        )
        return self.forces, self.energy


class VelocityVerlet:
    def __init__(self, potential, pos, vel, dt=1e-3):
        self.potential, self.dt = potential, dt
        self.pos, self.vel = pos, vel
        self.trace = torch.zeros(4096, device=pos.device)
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())

    def advance(self, steps):
        with torch.cuda.stream(self.stream):
            for s in range(steps):
                self.pos.add_(self.vel, alpha=self.dt)
                forces, energy = self.potential(self.pos)
                self.vel.add_(forces.clamp(-1e3, 1e3), alpha=self.dt)
                self.trace[s] = energy.sum()
        self.stream.synchronize()
        return self.trace[:steps]


def lattice(side, spacing=1.12):
    axis = torch.arange(side, device="cuda", dtype=torch.float32) * spacing
    return torch.cartesian_prod(axis, axis, axis).contiguous()


def neighbour_list(pos, count=64, chunk=2048):
    rows = []
    for part in pos.split(chunk):
        rows.append(torch.cdist(part, pos).topk(count, largest=False).indices.to(torch.int32))
    return torch.cat(rows).contiguous()


def main(side=24, steps=500):
    torch.manual_seed(0)
    pos = lattice(side)
    vel = torch.randn_like(pos) * 0.05
    vel -= vel.mean(dim=0)
    potential = WarpLennardJones(neighbour_list(pos))
    torch.cuda.synchronize()
    md = VelocityVerlet(potential, pos, vel)
    trace = md.advance(steps)
    drift = (trace[-1] - trace[0]).item()
    print("energy drift", drift if math.isfinite(drift) else "nan")


if __name__ == "__main__":
    main()
