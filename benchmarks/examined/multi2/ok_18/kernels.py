from numba import cuda


@cuda.jit
def drift(pos, vel, dt):
    i = cuda.grid(1)
    if i < pos.shape[0]:
        for k in range(3):
            p = pos[i, k] + dt * vel[i, k]
            if p < 0.0:
                p += 1.0
            elif p >= 1.0:
                p -= 1.0
            pos[i, k] = p


@cuda.jit
def bin_counts(pos, counts):
    i = cuda.grid(1)
    if i < pos.shape[0]:
        n = counts.shape[0]
        x = min(n - 1, int(pos[i, 0] * n))
        y = min(n - 1, int(pos[i, 1] * n))
        cuda.atomic.add(counts, (x, y), 1)


@cuda.jit
def kick(pos, vel, counts, scale):
    i = cuda.grid(1)
    if i < pos.shape[0]:
        n = counts.shape[0]
        x = min(n - 1, int(pos[i, 0] * n))
        y = min(n - 1, int(pos[i, 1] * n))
        right = counts[(x + 1) % n, y]
        left = counts[(x + n - 1) % n, y]
        up = counts[x, (y + 1) % n]
        down = counts[x, (y + n - 1) % n]
        vel[i, 0] += scale * (left - right)
        vel[i, 1] += scale * (down - up)


@cuda.jit
def clear(counts):
    x, y = cuda.grid(2)
    if x < counts.shape[0] and y < counts.shape[1]:
        counts[x, y] = 0
