"""Double-buffering optimizer: all-reduce of the previous gradients overlaps this backward."""
import os
from concurrent.futures import ThreadPoolExecutor

import cupy as cp
from cupy.cuda import nccl


class Communicator:
    def __init__(self, rank, world, uid):
        self.rank, self.world = rank, world
        self.device = cp.cuda.Device(rank)
        self.device.use()
        self.comm = nccl.NcclCommunicator(world, uid, rank)

    def allreduce_grad(self, buf, stream):
        self.comm.allReduce(buf.data.ptr, buf.data.ptr, buf.size,
                            nccl.NCCL_FLOAT32, nccl.NCCL_SUM, stream.ptr)
        with stream:
            buf *= 1.0 / self.world


class DoubleBufferingOptimizer:
    def __init__(self, communicator, params, lr):
        self.communicator = communicator
        self.params = params
        self.lr = lr
        self.grads = cp.zeros_like(params)
        self.communicated = cp.zeros_like(params)
        self.allreduce_stream = cp.cuda.Stream(non_blocking=True)
        self.executor = ThreadPoolExecutor(max_workers=1)
        self.pending = None
        cp.cuda.Stream.null.synchronize()

    def wait(self):
        if self.pending is not None:
            self.pending.result()
            self.pending = None
        self.allreduce_stream.synchronize()
        cp.cuda.Stream.null.synchronize()

    def allreduce_grad_async(self):
        def run(buf):
            with self.communicator.device:
                self.communicator.allreduce_grad(buf, self.allreduce_stream)
        self.pending = self.executor.submit(run, self.communicated)

    def update(self, lossfun, step):
        lossfun(self.params, self.grads, step)
        self.wait()
        self.grads, self.communicated = self.communicated, self.grads
        if step > 0:
            self.params -= self.lr * self.grads
        self.allreduce_grad_async()


def loss_grad(params, grads, step):
    cp.multiply(params, 2.0, out=grads)
    grads += cp.sin(params * (step + 1))


def main():
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    uid = tuple(int(v) for v in os.environ["NCCL_UID"].split(","))
    communicator = Communicator(rank, world, uid)
    params = cp.ones(1 << 22, cp.float32)
    opt = DoubleBufferingOptimizer(communicator, params, 1e-3)
    for step in range(50):
        opt.update(loss_grad, step)
    opt.wait()
    print(rank, float(params.sum()))


if __name__ == "__main__":
    main()
