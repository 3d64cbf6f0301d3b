"""Data-parallel training step with non-blocking allreduces over a few NCCL streams."""
import itertools

import cupy as cp
import numpy as np
from cupy.cuda import nccl
from mpi4py import MPI


class Request:
    def __init__(self, event):
        self.event = event


class LbannComm:
    NUM_STREAMS = 5

    def __init__(self, world):
        self.world = world
        uid = world.bcast(nccl.get_unique_id() if world.rank == 0 else None, root=0)
        self.comm = nccl.NcclCommunicator(world.size, uid, world.rank)
        self.streams = [cp.cuda.Stream(non_blocking=True) for _ in range(self.NUM_STREAMS)]
        self._next = itertools.cycle(self.streams)

    def nb_allreduce(self, array, compute):
        stream = next(self._next)
        stream.wait_event(compute.record(cp.cuda.Event(disable_timing=True)))
        self.comm.allReduce(array.data.ptr, array.data.ptr, array.size,
                            nccl.NCCL_FLOAT32, nccl.NCCL_SUM, stream.ptr)
        return Request(stream.record(cp.cuda.Event(disable_timing=True)))

    @staticmethod
    def wait(request, compute):
        compute.wait_event(request.event)


class Layer:
    def __init__(self, n_in, n_out, rng):
        self.w = cp.asarray(rng.standard_normal((n_in, n_out), dtype=np.float32) * 0.02)
        self.grad = cp.zeros_like(self.w)
        self.x = None

    def forward(self, x):
        self.x = x
        return cp.maximum(x @ self.w, 0)

    def backward(self, dy, y):
        dy = dy * (y > 0)
        cp.matmul(self.x.T, dy, out=self.grad)
        return dy @ self.w.T


class Model:
    def __init__(self, sizes, comm, lr=1e-3):
        self.comm = comm
        self.lr = np.float32(lr / comm.world.size)
        self.compute = cp.cuda.Stream(non_blocking=True)
        rng = np.random.default_rng(0)
        with self.compute:
            self.layers = [Layer(a, b, rng) for a, b in zip(sizes[:-1], sizes[1:])]

    def train_batch(self, x_host, t_host):
        with self.compute:
            x, t = cp.asarray(x_host), cp.asarray(t_host)
            outs = [x]
            for layer in self.layers:
                outs.append(layer.forward(outs[-1]))
            dy = (outs[-1] - t) / np.float32(len(t_host))
            loss = cp.square(outs[-1] - t).mean()

            requests = []
            for k in range(len(self.layers) - 1, -1, -1):
                dy = self.layers[k].backward(dy, outs[k + 1])
                requests.append((k, self.comm.nb_allreduce(self.layers[k].grad, self.compute)))

            for k, request in requests:
                self.comm.wait(request, self.compute)
                self.layers[k].w -= self.lr * self.layers[k].grad
            value = loss.get(stream=self.compute)
        self.compute.synchronize()
        return float(value)


def main():
    world = MPI.COMM_WORLD
    cp.cuda.Device(world.rank % cp.cuda.runtime.getDeviceCount()).use()
    model = Model([1024, 2048, 2048, 512], LbannComm(world))
    rng = np.random.default_rng(world.rank)
    for step in range(50):
        x = rng.standard_normal((256, 1024), dtype=np.float32)
        t = rng.standard_normal((256, 512), dtype=np.float32)
        loss = model.train_batch(x, t)
        if world.rank == 0 and step % 10 == 0:
            print(step, loss)


if __name__ == "__main__":
    main()
