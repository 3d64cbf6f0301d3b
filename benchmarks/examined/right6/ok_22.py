import numpy as np
from numba import cuda


@cuda.jit
def relax(levels, edges, changed, depth):
    e = cuda.grid(1)
    if e < edges.shape[0]:
        u, v = edges[e, 0], edges[e, 1]
        if levels[u] == depth and levels[v] < 0:
            levels[v] = depth + 1
            changed[0] = 1


def bfs(n, edges, root):
    levels = cuda.managed_array(n, np.int32)
    changed = cuda.managed_array(1, np.int32)
    levels[:] = -1
    levels[root] = 0
    d_edges = cuda.to_device(edges)
    blocks = (edges.shape[0] + 255) // 256
    depth = 0
    while True:
        changed[0] = 0
        relax[blocks, 256](levels, d_edges, changed, depth)
        cuda.synchronize()
        if not changed[0]:
            break
        depth += 1
    return np.array(levels), depth


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    nodes = 20000
    pairs = rng.integers(0, nodes, size=(120000, 2)).astype(np.int32)
    reached, depth = bfs(nodes, pairs, 0)
    print(depth, int((reached >= 0).sum()))
