"""Collective op harness with CuPy and NCCL."""
import cupy as cp
import numpy as np
from cupy.cuda import nccl
from mpi4py import MPI


class DeviceContext:
    def __init__(self, device_id):
        self.device = cp.cuda.Device(device_id)
        self.device.use()
        self.stream = cp.cuda.Stream(non_blocking=True)

    def wait(self):
        self.stream.synchronize()


class NCCLCommunicator:
    def __init__(self, comm):
        self.rank = comm.Get_rank()
        self.size = comm.Get_size()
        uid = nccl.get_unique_id() if self.rank == 0 else None
        uid = comm.bcast(uid, root=0)
        self.comm = nccl.NcclCommunicator(self.size, uid, self.rank)
        self.stream = cp.cuda.Stream(non_blocking=True)

    def all_reduce(self, send, recv, after):
        event = cp.cuda.Event(disable_timing=True)
        event.record(after)
        self.stream.wait_event(event)
        self.comm.allReduce(
            send.data.ptr,
            recv.data.ptr,
            send.size,
            nccl.NCCL_FLOAT32,
            nccl.NCCL_SUM,
            self.stream.ptr,
        )


class AllReduceOpTester:
    def __init__(self, world, numel=1 << 20):
        self.world = world
        self.ctx = DeviceContext(world.Get_rank())
        self.nccl = NCCLCommunicator(world)
        self.numel = numel
        with self.ctx.stream:
            self.x = cp.empty(numel, dtype=cp.float32)
            self.out = cp.zeros(numel, dtype=cp.float32)
        self.ctx.wait()

    def run_pass(self, base):
        value = np.float32(base + self.world.Get_rank())
        with self.ctx.stream:
            self.x.fill(value)
        self.nccl.all_reduce(self.x, self.out, after=self.ctx.stream)
        self.ctx.wait()
        got = self.out.get(stream=self.ctx.stream)
        expected = sum(base + r for r in range(self.world.Get_size()))
        return np.array_equal(got, np.full(self.numel, expected, dtype=np.float32))


def main(passes=4):
    world = MPI.COMM_WORLD
    tester = AllReduceOpTester(world)
    results = [tester.run_pass(42 + p) for p in range(passes)]
    if world.Get_rank() == 0:
        print("all reduce", results)


if __name__ == "__main__":
    main()
