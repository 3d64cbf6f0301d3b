"""Checkpointing of a running diffusion solver straight from device memory with KvikIO."""
import cupy as cp
import kvikio
import kvikio.defaults

_laplace = cp.ElementwiseKernel(
    "raw float32 u, int64 n, float32 k",
    "float32 out",
    """
    long long x = i / n, y = i % n;
    long long xm = x > 0 ? x - 1 : x, xp = x + 1 < n ? x + 1 : x;
    long long ym = y > 0 ? y - 1 : y, yp = y + 1 < n ? y + 1 : y;
    float c = u[i];
    out = c + k * (u[xm * n + y] + u[xp * n + y] + u[x * n + ym] + u[x * n + yp] - 4.0f * c);
    """,
    "laplace_step",
)


class CheckpointWriter:
    """Keeps a few device snapshots in flight; each becomes one record of the file."""

    def __init__(self, path, shape, dtype, stream, depth=2):
        self.file = kvikio.CuFile(path, "w")
        self.stream = stream
        with stream:
            self.snapshots = [cp.empty(shape, dtype=dtype) for _ in range(depth)]
        self.futures = [None] * depth
        self.records = 0

    def save(self, field):
        slot = self.records % len(self.snapshots)
        if self.futures[slot] is not None:
            self.futures[slot].get()
        snapshot = self.snapshots[slot]
        with self.stream:
            snapshot[...] = field
        offset = self.records * snapshot.nbytes
        self.futures[slot] = self.file.pwrite(snapshot, file_offset=offset)
        self.records += 1

    def close(self):
        for future in self.futures:
            if future is not None:
                future.get()
        self.file.close()


class Diffusion:
    def __init__(self, n, kappa=0.2):
        self.n = n
        self.kappa = kappa
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.u = cp.zeros((n, n), dtype=cp.float32)
            self.u[n // 3 : n // 2, n // 3 : n // 2] = 100.0
            self.next = cp.empty_like(self.u)

    def advance(self, steps):
        with self.stream:
            for _ in range(steps):
                _laplace(self.u, self.n, self.kappa, self.next)
                self.u, self.next = self.next, self.u


def main(path="/scratch/diffusion.bin", n=8192, intervals=40):
    kvikio.defaults.set({"num_threads": 8, "task_size": 8 << 20})
    solver = Diffusion(n)
    writer = CheckpointWriter(path, solver.u.shape, solver.u.dtype, solver.stream)
    for _ in range(intervals):
        solver.advance(25)
        writer.save(solver.u)
    writer.close()
    print(writer.records)


if __name__ == "__main__":
    main()
