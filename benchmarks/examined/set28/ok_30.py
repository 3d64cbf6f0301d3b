"""Particle filter that keeps its whole history in host memory while the next step runs."""
import math

import numpy as np
from numba import cuda
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_normal_float32


@cuda.jit
def advance(state, rng, dt):
    i = cuda.grid(1)
    if i < state.shape[1]:
        s, inf, r = state[0, i], state[1, i], state[2, i]
        noise = xoroshiro128p_normal_float32(rng, i)
        new_inf = 0.3 * s * inf * dt * (1.0 + 0.05 * noise)
        new_rec = 0.1 * inf * dt
        state[0, i] = s - new_inf
        state[1, i] = inf + new_inf - new_rec
        state[2, i] = r + new_rec


@cuda.jit
def weigh(state, observed, weights):
    i = cuda.grid(1)
    if i < state.shape[1]:
        d = state[1, i] - observed
        weights[i] = math.exp(-0.5 * d * d / 1.0e-4)


@cuda.jit
def resample(state, index, out):
    i = cuda.grid(1)
    if i < out.shape[1]:
        k = index[i]
        for c in range(out.shape[0]):
            out[c, i] = state[c, k]


class ParticleFilter:
    def __init__(self, n_particles, n_steps, seed=1):
        self.n = n_particles
        self.compute = cuda.stream()
        self.host = cuda.stream()
        self.rng = create_xoroshiro128p_states(n_particles, seed=seed)
        init = np.tile(np.array([[0.99], [0.01], [0.0]], np.float32), (1, n_particles))
        self.state = cuda.to_device(init)
        self.next = cuda.device_array_like(self.state)
        self.weights = cuda.device_array(n_particles, np.float32)
        self.index = cuda.device_array(n_particles, np.int64)
        self.swap = cuda.device_array_like(self.state)
        self.h_weights = cuda.pinned_array(n_particles, np.float32)
        self.h_index = cuda.pinned_array(n_particles, np.int64)
        self.history = cuda.pinned_array((n_steps, 3, n_particles), np.float32)
        self.swapped = cuda.event(timing=False)
        self.stored = cuda.event(timing=False)
        self.grid = (n_particles + 127) // 128
        cuda.synchronize()

    def _store(self, step):
        self.stored.wait(self.compute)
        self.swap.copy_to_device(self.state, stream=self.compute)
        self.swapped.record(self.compute)
        self.swapped.wait(self.host)
        self.swap.copy_to_host(self.history[step], stream=self.host)
        self.stored.record(self.host)

    def step(self, step, observed, u):
        advance[self.grid, 128, self.compute](self.state, self.rng, 0.1)
        weigh[self.grid, 128, self.compute](self.state, observed, self.weights)
        self.weights.copy_to_host(self.h_weights, stream=self.compute)
        self.compute.synchronize()
        cdf = np.cumsum(self.h_weights, dtype=np.float64)
        points = (np.arange(self.n) + u) * (cdf[-1] / self.n)
        self.h_index[:] = np.minimum(np.searchsorted(cdf, points), self.n - 1)
        self.index.copy_to_device(self.h_index, stream=self.compute)
        resample[self.grid, 128, self.compute](self.state, self.index, self.next)
        self.state, self.next = self.next, self.state
        self._store(step)

    def run(self, observations, seed=5):
        u = np.random.default_rng(seed).random(len(observations))
        for step, observed in enumerate(observations):
            self.step(step, np.float32(observed), u[step])
        self.host.synchronize()
        return self.history


if __name__ == "__main__":
    data = 0.01 * np.exp(0.02 * np.arange(100))
    print(ParticleFilter(100_000, len(data)).run(data).mean(axis=2)[-1])
