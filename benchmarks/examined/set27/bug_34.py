"""Cloth simulation with a frame recorder that reads the state back through pinned arrays."""
import numpy as np
import warp as wp

wp.init()


@wp.kernel
def spring_forces(pos: wp.array(dtype=wp.vec3), springs: wp.array(dtype=wp.vec2i),
                  rest: wp.array(dtype=float), ke: float, force: wp.array(dtype=wp.vec3)):
    s = wp.tid()
    a = springs[s][0]
    b = springs[s][1]
    d = pos[b] - pos[a]
    length = wp.length(d)
    f = d * (ke * (length - rest[s]) / wp.max(length, 1.0e-6))
    wp.atomic_add(force, a, f)
    wp.atomic_sub(force, b, f)


@wp.kernel
def integrate(pos: wp.array(dtype=wp.vec3), vel: wp.array(dtype=wp.vec3),
              force: wp.array(dtype=wp.vec3), inv_mass: wp.array(dtype=float), dt: float):
    i = wp.tid()
    w = inv_mass[i]
    v = vel[i] + (force[i] * w + wp.vec3(0.0, -9.81, 0.0)) * dt
    if w == 0.0:
        v = wp.vec3(0.0, 0.0, 0.0)
    vel[i] = v * 0.999
    pos[i] = pos[i] + v * dt
    force[i] = wp.vec3(0.0, 0.0, 0.0)


def make_cloth(n):
    idx = np.arange(n * n).reshape(n, n)
    pairs = np.concatenate([
        np.stack([idx[:, :-1].ravel(), idx[:, 1:].ravel()], 1),
        np.stack([idx[:-1].ravel(), idx[1:].ravel()], 1),
    ]).astype(np.int32)
    y, x = np.meshgrid(np.linspace(0, 1, n), np.linspace(0, 1, n))
    pos = np.stack([x, np.ones_like(x), y], -1).reshape(-1, 3).astype(np.float32)
    inv_mass = np.ones(n * n, dtype=np.float32)
    inv_mass[[0, n - 1]] = 0.0
    rest = np.linalg.norm(pos[pairs[:, 0]] - pos[pairs[:, 1]], axis=1).astype(np.float32)
    return pos, pairs, rest, inv_mass


class FrameRecorder:
    """Keeps the trajectory on the host."""

    def __init__(self, n):
        self.h_pos = wp.empty(n, dtype=wp.vec3, device="cpu", pinned=True)
        self.h_vel = wp.empty(n, dtype=wp.vec3, device="cpu", pinned=True)
        self.frames = []
        self.energy = []

    def record(self, pos, vel):
        wp.copy(self.h_pos, pos)
        wp.copy(self.h_vel, vel)
        self.frames.append(self.h_pos.numpy().copy())
        v = self.h_vel.numpy()
        self.energy.append(0.5 * float(np.square(v).sum()))


class Cloth:
    def __init__(self, n=512, device="cuda:0"):
        pos, pairs, rest, inv_mass = make_cloth(n)
        with wp.ScopedDevice(device):
            self.pos = wp.array(pos, dtype=wp.vec3)
            self.vel = wp.zeros_like(self.pos)
            self.force = wp.zeros_like(self.pos)
            self.springs = wp.array(pairs, dtype=wp.vec2i)
            self.rest = wp.array(rest, dtype=float)
            self.inv_mass = wp.array(inv_mass, dtype=float)

    def simulate(self, frames, substeps=32, dt=1.0 / 1920.0):
        recorder = FrameRecorder(self.pos.shape[0])
        for _ in range(frames):
            for _ in range(substeps):
                wp.launch(spring_forces, dim=self.springs.shape[0],
                          inputs=[self.pos, self.springs, self.rest, 4000.0, self.force],
                          device=self.pos.device)
                wp.launch(integrate, dim=self.pos.shape[0],
                          inputs=[self.pos, self.vel, self.force, self.inv_mass, dt],
                          device=self.pos.device)
            recorder.record(self.pos, self.vel)
        return recorder


if __name__ == "__main__":
    rec = Cloth().simulate(frames=120)
    np.savez("cloth.npz", frames=np.stack(rec.frames), energy=np.array(rec.energy))
