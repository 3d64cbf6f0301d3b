"""Annealing of spin chains: the temperature lives in managed memory."""
import numpy as np
from numba import cuda
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float64


@cuda.jit
def metropolis(spins, rng, schedule):
    i = cuda.grid(1)
    if i < spins.shape[0]:
        n = spins.shape[1]
        for k in range(n):
            left = spins[i, (k - 1) % n]
            right = spins[i, (k + 1) % n]
            cost = 2.0 * spins[i, k] * (left + right)
            if cost <= 0.0 or xoroshiro128p_uniform_float64(rng, i) < schedule[1] * (schedule[0] - cost):
                spins[i, k] = -spins[i, k]


class Annealer:
    def __init__(self, chains, length):
        self.stream = cuda.stream()
        start = np.random.default_rng(0).choice([-1, 1], size=(chains, length)).astype(np.int8)
        self.spins = cuda.to_device(start)
        self.rng = create_xoroshiro128p_states(chains, seed=1)
        self.schedule = cuda.managed_array(2, dtype=np.float64)
        self.blocks = (chains + 127) // 128

    def sweep(self, temperature):
        self.schedule[0] = temperature
        self.schedule[1] = 1.0 / (temperature + 1e-9)
        metropolis[self.blocks, 128, self.stream](self.spins, self.rng, self.schedule)

    def magnetisation(self):
        self.stream.synchronize()
        return self.spins.copy_to_host().mean()


def main():
    annealer = Annealer(1 << 14, 256)
    for t in np.geomspace(5.0, 0.05, 200):
        annealer.sweep(float(t))
    print(annealer.magnetisation())


if __name__ == "__main__":
    main()
