import numpy as np
from numba import cuda, float32


@cuda.jit
def tile_matmul(a, b, c):
    sa = cuda.shared.array((16, 16), float32)
    sb = cuda.shared.array((16, 16), float32)
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    acc = float32(0.0)
    for t in range(a.shape[1] // 16):
        sa[tx, ty] = a[x, t * 16 + ty]
        sb[tx, ty] = b[t * 16 + tx, y]
        cuda.syncthreads()
        for k in range(16):
            acc += sa[tx, k] * sb[k, ty]
        cuda.syncthreads()
    c[x, y] = acc


class ChainProduct:
    """Multiplies a chain of matrices; every link is one synchronized block."""

    def __init__(self, n):
        self.n = n
        self.stream = cuda.stream()
        self.left = cuda.pinned_array((n, n), np.float32)
        self.right = cuda.pinned_array((n, n), np.float32)

    def link(self, right):
        grid = (self.n // 16, self.n // 16)
        self.right[...] = right
        with self.stream.auto_synchronize():
            a = cuda.to_device(self.left, stream=self.stream)
            b = cuda.to_device(self.right, stream=self.stream)
            c = cuda.device_array((self.n, self.n), np.float32, stream=self.stream)
            tile_matmul[grid, (16, 16), self.stream](a, b, c)
            c.copy_to_host(self.left, stream=self.stream)
        norm = np.linalg.norm(self.left)
        self.left /= norm
        return np.log(norm)

    def run(self, matrices):
        self.left[...] = np.eye(self.n, dtype=np.float32)
        return sum(self.link(m) for m in matrices)


def main():
    rng = np.random.default_rng(0)
    chain = ChainProduct(512)
    print(chain.run(rng.standard_normal((10, 512, 512)).astype(np.float32)))


if __name__ == "__main__":
    main()
