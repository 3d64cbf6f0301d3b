"""Task environment that runs each task body on a CuPy stream of its own."""
import math
import threading
from contextlib import contextmanager

import cupy as cp
import numpy as np
from numba import cuda

_locals = threading.local()


class GPUComponent:
    """Device and stream that a task sees as current."""

    def __init__(self, device_id):
        self.device = cp.cuda.Device(device_id)
        with self.device:
            self.stream = cp.cuda.Stream(null=False, non_blocking=True)

    @contextmanager
    def scope(self):
        with self.device, self.stream:
            _locals.component = self
            try:
                yield self
            finally:
                _locals.component = None

    def finalize(self):
        self.stream.synchronize()


class Environment:
    def __init__(self, device_ids):
        self.components = [GPUComponent(i) for i in device_ids]

    def run(self, tasks):
        """Run task callables round-robin, one host thread for each component."""
        results = [None] * len(tasks)

        def worker(rank, component):
            with component.scope():
                for i in range(rank, len(tasks), len(self.components)):
                    results[i] = tasks[i]()
            component.finalize()

        threads = [threading.Thread(target=worker, args=(r, c)) for r, c in enumerate(self.components)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return results


@cuda.jit
def pair_forces(pos, mass, force, soft):
    i = cuda.grid(1)
    if i >= pos.shape[0]:
        return
    fx, fy, fz = 0.0, 0.0, 0.0
    for j in range(pos.shape[0]):
        dx = pos[j, 0] - pos[i, 0]
        dy = pos[j, 1] - pos[i, 1]
        dz = pos[j, 2] - pos[i, 2]
        inv = 1.0 / math.sqrt(dx * dx + dy * dy + dz * dz + soft)
        s = mass[j] * inv * inv * inv
        fx += dx * s
        fy += dy * s
        fz += dz * s
    force[i, 0] = fx
    force[i, 1] = fy
    force[i, 2] = fz


class LeafTask:
    """Direct interactions of one leaf of the tree."""

    TPB = 128

    def __init__(self, positions, masses, dt):
        self.positions = positions
        self.masses = masses
        self.dt = dt

    def __call__(self):
        pos = cp.asarray(self.positions)
        mass = cp.asarray(self.masses)
        force = cp.zeros_like(pos)
        blocks = (pos.shape[0] + self.TPB - 1) // self.TPB
        pair_forces[blocks, self.TPB](pos, mass, force, 1e-6)
        velocity = force * cp.float32(self.dt)
        pos += velocity * cp.float32(self.dt)
        return cp.asnumpy(pos), float(cp.sum(velocity * velocity))


def step(env, leaves, dt=1e-3):
    tasks = [LeafTask(p.astype(np.float32), m.astype(np.float32), dt) for p, m in leaves]
    return env.run(tasks)
