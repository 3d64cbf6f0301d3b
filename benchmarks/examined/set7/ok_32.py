from dataclasses import dataclass
from typing import List, Tuple

import numpy as np
from numba import cuda, float32


@cuda.jit
def local_energy(x, e, n):
    i = cuda.grid(1)
    if i < n:
        acc = float32(0.0)
        for d in range(x.shape[1]):
            acc += x[i, d] * x[i, d]
        e[i] = float32(0.5) * acc


@cuda.jit
def metropolis(x, prop, u, e, e_new, n):
    i = cuda.grid(1)
    if i < n:
        if u[i] < min(float32(1.0), 2.718281828 ** (e[i] - e_new[i])):
            for d in range(x.shape[1]):
                x[i, d] = prop[i, d]
            e[i] = e_new[i]


@dataclass
class Chain:
    stream: object
    x: object
    e: object
    e_new: object
    prop_host: np.ndarray
    u_host: np.ndarray
    prop: object
    u: object
    e_host: np.ndarray


class WalkerEnsemble:
    THREADS = 128

    def __init__(self, n_chains: int, n_walkers: int, dim: int, seed: int = 0):
        self.rng = np.random.default_rng(seed)
        self.n = n_walkers
        self.dim = dim
        self.blocks = (n_walkers + self.THREADS - 1) // self.THREADS
        self.chains: List[Chain] = [self._make_chain() for _ in range(n_chains)]

    def _make_chain(self) -> Chain:
        shape = (self.n, self.dim)
        stream = cuda.stream()
        prop_host = cuda.pinned_array(shape, dtype=np.float32)
        u_host = cuda.pinned_array(self.n, dtype=np.float32)
        e_host = cuda.pinned_array(self.n, dtype=np.float32)
        start = self.rng.standard_normal(shape, dtype=np.float32)
        x = cuda.to_device(start)
        e = cuda.device_array(self.n, np.float32)
        local_energy[self.blocks, self.THREADS](x, e, self.n)
        cuda.synchronize()
        return Chain(stream, x, e, cuda.device_array(self.n, np.float32), prop_host, u_host,
                     cuda.device_array(shape, np.float32), cuda.device_array(self.n, np.float32), e_host)

    def _advance(self, c: Chain) -> float:
        c.prop_host[...] = self.rng.standard_normal(c.prop_host.shape, dtype=np.float32)
        c.u_host[...] = self.rng.random(self.n, dtype=np.float32)
        with c.stream.auto_synchronize() as s:
            c.prop.copy_to_device(c.prop_host, stream=s)
            c.u.copy_to_device(c.u_host, stream=s)
            local_energy[self.blocks, self.THREADS, s](c.prop, c.e_new, self.n)
            metropolis[self.blocks, self.THREADS, s](c.x, c.prop, c.u, c.e, c.e_new, self.n)
            c.e.copy_to_host(c.e_host, stream=s)
        return float(c.e_host.mean())

    def run(self, steps: int) -> Tuple[np.ndarray, np.ndarray]:
        trace = np.empty((steps, len(self.chains)))
        for t in range(steps):
            for k, c in enumerate(self.chains):
                trace[t, k] = self._advance(c)
        return trace, np.stack([c.x.copy_to_host() for c in self.chains])
