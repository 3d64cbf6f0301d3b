"""Ring rotation of particle blocks with persistent MPI requests on pinned staging buffers."""
import cupy as cp
import cupyx
import numpy as np
from mpi4py import MPI

forces = cp.ElementwiseKernel(
    "raw float32 x, raw float32 y, int32 n, float32 soft",
    "float32 f",
    """
    float acc = 0.f;
    for (int j = 0; j < n; ++j) {
        float d = y[j] - x[i];
        acc += d / (fabsf(d * d * d) + soft);
    }
    f += acc;
    """,
    "forces",
)


class Ring:
    def __init__(self, comm, n):
        self.comm = comm
        rank, size = comm.Get_rank(), comm.Get_size()
        self.out = cupyx.empty_pinned((n,), np.float32)
        self.inc = cupyx.empty_pinned((n,), np.float32)
        self.reqs = [
            comm.Send_init(self.out, (rank + 1) % size, tag=7),
            comm.Recv_init(self.inc, (rank - 1) % size, tag=7),
        ]

    def rotate(self, block: cp.ndarray, stream: cp.cuda.Stream):
        block.data.copy_to_host_async(self.out.ctypes.data, block.nbytes, stream)
        stream.synchronize()
        MPI.Prequest.Startall(self.reqs)
        MPI.Request.Waitall(self.reqs)
        block.set(self.inc, stream=stream)

    def close(self):
        for r in self.reqs:
            r.Free()


def main(n=4096, steps=5):
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.Get_rank() % cp.cuda.runtime.getDeviceCount()).use()
    stream = cp.cuda.Stream(non_blocking=True)
    ring = Ring(comm, n)
    with stream:
        x = cp.asarray(np.random.default_rng(comm.Get_rank()).random(n, dtype=np.float32))
        travel = x.copy()
        f = cp.zeros_like(x)
        for _ in range(steps):
            f.fill(0)
            travel[...] = x
            for _ in range(comm.Get_size()):
                forces(x, travel, np.int32(n), np.float32(1e-3), f)
                ring.rotate(travel, stream)
            x += np.float32(1e-6) * f
        host = x.get(stream=stream)
        stream.synchronize()
    ring.close()
    print(comm.Get_rank(), host.mean())


if __name__ == "__main__":
    main()
