from typing import List

import numpy as np
import warp as wp

wp.init()


@wp.kernel
def integrate(x: wp.array(dtype=wp.vec3), v: wp.array(dtype=wp.vec3), dt: float):
    tid = wp.tid()
    v[tid] = v[tid] + wp.vec3(0.0, -9.81, 0.0) * dt
    p = x[tid] + v[tid] * dt
    if p[1] < 0.0:
        p = wp.vec3(p[0], -p[1], p[2])
        v[tid] = wp.vec3(v[tid][0], -0.6 * v[tid][1], v[tid][2])
    x[tid] = p


@wp.kernel
def reduce_stats(x: wp.array(dtype=wp.vec3), v: wp.array(dtype=wp.vec3), stats: wp.array(dtype=float)):
    tid = wp.tid()
    wp.atomic_add(stats, 0, 0.5 * wp.dot(v[tid], v[tid]))
    wp.atomic_add(stats, 1, 9.81 * x[tid][1])
    wp.atomic_max(stats, 2, wp.length(v[tid]))


class ParticleSim:
    def __init__(self, n: int, device: str = "cuda:0", substeps: int = 16):
        self.device = wp.get_device(device)
        self.n = n
        self.substeps = substeps
        rng = np.random.default_rng(7)
        pos = rng.uniform(0.5, 2.0, size=(n, 3)).astype(np.float32)
        self.x = wp.array(pos, dtype=wp.vec3, device=self.device)
        self.v = wp.zeros(n, dtype=wp.vec3, device=self.device)
        self.stats = wp.zeros(3, dtype=float, device=self.device)
        self.stats_host = wp.zeros(3, dtype=float, device="cpu", pinned=True)
        self.graph = None

    def simulate(self) -> None:
        dt = 1.0 / (60.0 * self.substeps)
        for _ in range(self.substeps):
            wp.launch(integrate, dim=self.n, inputs=[self.x, self.v, dt], device=self.device)
        self.stats.zero_()
        wp.launch(reduce_stats, dim=self.n, inputs=[self.x, self.v, self.stats], device=self.device)
        wp.copy(self.stats_host, self.stats)

    def create_graph(self) -> None:
        wp.load_module(device=self.device)
        with wp.ScopedCapture(device=self.device) as capture:
            self.simulate()
        self.graph = capture.graph

    def step(self) -> np.ndarray:
        if self.graph is None:
            self.create_graph()
        wp.capture_launch(self.graph)
        wp.synchronize_stream(wp.get_stream(self.device))
        return self.stats_host.numpy().copy()


class EnergyMonitor:
    def __init__(self, tolerance: float = 0.05):
        self.tolerance = tolerance
        self.history: List[float] = []

    def update(self, stats: np.ndarray) -> bool:
        energy = float(stats[0] + stats[1])
        self.history.append(energy)
        return len(self.history) < 2 or energy <= self.history[0] * (1.0 + self.tolerance)


def run(num_frames: int, n: int = 1 << 20) -> List[float]:
    sim = ParticleSim(n)
    monitor = EnergyMonitor()
    for frame in range(num_frames):
        stats = sim.step()
        if not monitor.update(stats):
            raise RuntimeError(f"energy grew in frame {frame}: {stats}")
    return monitor.history
