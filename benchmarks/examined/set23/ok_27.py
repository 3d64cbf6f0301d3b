"""Non-blocking gradient all-reduce on a communication stream."""
import cupy as cp
from cupy.cuda import nccl
from mpi4py import MPI


class Request:
    def __init__(self, event):
        self.event = event


class Communicator:
    def __init__(self, world):
        self.rank = world.Get_rank()
        self.size = world.Get_size()
        uid = world.bcast(nccl.get_unique_id() if self.rank == 0 else None, root=0)
        self.comm = nccl.NcclCommunicator(self.size, uid, self.rank)
        self.stream = cp.cuda.Stream(non_blocking=True)

    def nb_allreduce(self, buf, stream):
        """In-place sum; returns at once."""
        if self.size == 1:
            return None
        begin = stream.record(cp.cuda.Event(disable_timing=True))
        self.stream.wait_event(begin)
        self.comm.allReduce(
            buf.data.ptr, buf.data.ptr, buf.size,
            nccl.NCCL_FLOAT32, nccl.NCCL_SUM, self.stream.ptr,
        )
        return Request(self.stream.record(cp.cuda.Event(disable_timing=True)))

    def wait(self, request, stream):
        if request is not None:
            stream.wait_event(request.event)


class Linear:
    def __init__(self, n_in, n_out):
        self.weight = cp.random.standard_normal((n_in, n_out), dtype=cp.float32)
        self.grad = cp.zeros_like(self.weight)
        self.request = None

    def forward(self, x):
        self.x = x
        return x @ self.weight

    def backward(self, dy):
        cp.matmul(self.x.T, dy, out=self.grad)
        return dy @ self.weight.T


class Trainer:
    def __init__(self, layers, world, lr=1e-3):
        self.layers = layers
        self.comm = Communicator(world)
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.scale = cp.float32(lr / self.comm.size)
        cp.cuda.Device().synchronize()

    def step(self, batch, target):
        with self.stream:
            y = cp.asarray(batch)
            for layer in self.layers:
                y = layer.forward(y)
            diff = y - cp.asarray(target)
            dy = diff
            for layer in reversed(self.layers):
                dy = layer.backward(dy)
                layer.request = self.comm.nb_allreduce(layer.grad, self.stream)
            for layer in self.layers:
                self.comm.wait(layer.request, self.stream)
                layer.weight -= self.scale * layer.grad
            return float((diff * diff).mean())


def main(data):
    world = MPI.COMM_WORLD
    cp.cuda.Device(world.Get_rank()).use()
    trainer = Trainer([Linear(784, 512), Linear(512, 10)], world)
    return [trainer.step(x, t) for x, t in data]
