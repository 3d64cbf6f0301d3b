"""Monte-Carlo walkers on two queues, collected into page-locked arrays."""
import numpy as np
from numba import cuda
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32

TPB = 128


@cuda.jit
def walk(rng, pos, alive, length):
    i = cuda.grid(1)
    if i < pos.shape[0]:
        x = pos[i]
        for _ in range(length):
            if alive[i] == 0:
                break
            x += xoroshiro128p_uniform_float32(rng, i) - 0.5
            if x > 10.0 or x < -10.0:
                alive[i] = 0
        pos[i] = x


@cuda.jit
def restart(pos, alive):
    i = cuda.grid(1)
    if i < pos.shape[0] and alive[i] == 0:
        pos[i] = 0.0
        alive[i] = 1


class Population:
    def __init__(self, count: int, seed: int):
        self.count = count
        self.stream = cuda.stream()
        self.rng = create_xoroshiro128p_states(count, seed=seed)
        self.pos = cuda.to_device(np.zeros(count, dtype=np.float32))
        self.alive = cuda.to_device(np.ones(count, dtype=np.int32))
        self.host_pos = cuda.pinned_array(count, dtype=np.float32)
        self.host_alive = cuda.pinned_array(count, dtype=np.int32)

    @property
    def blocks(self) -> int:
        return (self.count + TPB - 1) // TPB

    def advance(self, length: int) -> None:
        walk[self.blocks, TPB, self.stream](self.rng, self.pos, self.alive, length)

    def collect(self) -> None:
        self.pos.copy_to_host(self.host_pos)
        self.alive.copy_to_host(self.host_alive)

    def recycle(self) -> None:
        restart[self.blocks, TPB, self.stream](self.pos, self.alive)


class Survey:
    def __init__(self, count: int):
        self.groups = [Population(count, seed) for seed in (11, 13)]
        self.exits = 0
        self.spread = []

    def round(self, length: int) -> None:
        for g in self.groups:
            g.advance(length)
        for g in self.groups:
            g.collect()
            self.exits += int((g.host_alive == 0).sum())
            self.spread.append(float(g.host_pos[g.host_alive == 1].std()))
            g.recycle()


def main(rounds: int = 100) -> None:
    survey = Survey(1 << 20)
    for _ in range(rounds):
        survey.round(64)
    print(survey.exits, np.mean(survey.spread))


if __name__ == "__main__":
    main()
