"""Tensor parallel layer on CuPy: partial products are summed over the ranks
with NCCL on the communicator's own stream."""
import cupy as cp
from cupy.cuda import nccl
from mpi4py import MPI


class NCCLGroup:
    def __init__(self, mpi):
        self.rank, self.size = mpi.Get_rank(), mpi.Get_size()
        uid = mpi.bcast(nccl.get_unique_id() if self.rank == 0 else None)
        self.comm = nccl.NcclCommunicator(self.size, uid, self.rank)
        self.stream = cp.cuda.Stream(non_blocking=True)

    def _sync_streams(self):
        event = cp.cuda.get_current_stream().record()
        self.stream.wait_event(event)

    def allreduce(self, tensor):
        self._sync_streams()
        self.comm.allReduce(tensor.data.ptr, tensor.data.ptr, tensor.size,
                            nccl.NCCL_FLOAT32, nccl.NCCL_SUM, self.stream.ptr)
        return tensor

    def barrier(self):
        self.stream.synchronize()


class RowParallelLinear:
    def __init__(self, group, d_in, d_out, seed):
        self.group = group
        rng = cp.random.default_rng(seed + group.rank)
        self.w = rng.standard_normal((d_in // group.size, d_out), dtype=cp.float32) / d_in ** 0.5
        self.bias = cp.zeros(d_out, dtype=cp.float32)

    def __call__(self, x):
        y = self.group.allreduce(x @ self.w)
        return y * cp.float32(2.0) + self.bias, y


class ColumnParallelLinear:
    def __init__(self, group, d_in, d_out, seed):
        rng = cp.random.default_rng(seed + group.rank)
        self.w = rng.standard_normal((d_in, d_out // group.size), dtype=cp.float32) / d_in ** 0.5

    def __call__(self, x):
        return cp.maximum(x @ self.w, 0)


class MLP:
    def __init__(self, group, dim, hidden, layers):
        self.group = group
        self.blocks = [(ColumnParallelLinear(group, dim, hidden, 10 * k),
                        RowParallelLinear(group, hidden, dim, 10 * k + 5)) for k in range(layers)]
        self.stream = cp.cuda.Stream(non_blocking=True)
        cp.cuda.Device().synchronize()

    def forward(self, x):
        partials = []
        with self.stream:
            for up, down in self.blocks:
                out, y = down(up(x))
                partials.append(y)
                x = x + out
        self.group.barrier()
        return x


def main():
    mpi = MPI.COMM_WORLD
    cp.cuda.Device(mpi.Get_rank() % cp.cuda.runtime.getDeviceCount()).use()
    model = MLP(NCCLGroup(mpi), 2048, 8192, 4)
    with model.stream:
        x = cp.random.default_rng(0).standard_normal((256, 2048), dtype=cp.float32)
    for _ in range(10):
        out = model.forward(x)
    print(mpi.Get_rank(), float(out.get(stream=model.stream).mean()))


if __name__ == "__main__":
    main()
