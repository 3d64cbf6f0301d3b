import math

from numba import cuda

TPB = 256


@cuda.jit
def dampen(field, rate):
    i = cuda.grid(1)
    if i < field.size:
        v = field[i]
        for _ in range(64):
            v = v - rate * math.sin(v)
        field[i] = v


@cuda.jit
def scatter(field, index, weight):
    i = cuda.grid(1)
    if i < index.size:
        cuda.atomic.add(field, index[i], weight[i])


def blocks(n):
    return (n + TPB - 1) // TPB
