import numpy as np
from numba import cuda
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32

from lanes import lane

TPB = 128


@cuda.jit
def walk(states, pos, steps):
    i = cuda.grid(1)
    if i < pos.size:
        p = pos[i]
        for _ in range(steps):
            p += xoroshiro128p_uniform_float32(states, i) - 0.5
        pos[i] = p


class Walkers:
    def __init__(self, count, stride=100):
        self.lane = lane("walk")
        self.stride = stride
        self.grid = (count + TPB - 1) // TPB
        self.pos = cuda.to_device(np.zeros(count, dtype=np.float32))
        self.states = create_xoroshiro128p_states(self.grid * TPB, seed=11)
        cuda.synchronize()

    def move(self):
        walk[self.grid, TPB, self.lane.for_kernels](self.states, self.pos, self.stride)
