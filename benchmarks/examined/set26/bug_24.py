"""Gradient reduction to rank 0, overlapped with the backward pass."""
import cupy as cp
from cupy.cuda import nccl


class GradVar:
    def __init__(self, name):
        self.name = name
        self.value = None
        self.generated = cp.cuda.Event(disable_timing=True)


class ReduceOpHandle:
    def __init__(self, comm, root, compute_stream, comm_stream):
        self.comm = comm
        self.root = root
        self.compute_stream = compute_stream
        self.comm_stream = comm_stream

    def wait_input_var_generated(self, var):
        self.comm_stream.wait_event(var.generated)

    def run(self, var):
        self.wait_input_var_generated(var)
        with self.compute_stream:
            out = cp.empty_like(var.value)
        self.comm.reduce(var.value.data.ptr, out.data.ptr, out.size,
                         nccl.NCCL_FLOAT32, nccl.NCCL_SUM, self.root,
                         self.comm_stream.ptr)
        return out


class Trainer:
    def __init__(self, comm, rank, nlayers, dim):
        self.compute = cp.cuda.Stream(non_blocking=True)
        self.comm_stream = cp.cuda.Stream(non_blocking=True)
        self.handle = ReduceOpHandle(comm, 0, self.compute, self.comm_stream)
        self.vars = [GradVar(f"w{i}@GRAD") for i in range(nlayers)]
        with self.compute:
            self.weights = [cp.random.rand(dim, dim, dtype=cp.float32)
                            for _ in range(nlayers)]
        self.dim = dim

    def backward(self, loss_grad):
        with self.compute:
            delta = loss_grad
            for var, w in zip(reversed(self.vars), reversed(self.weights)):
                scratch = cp.matmul(delta, w)
                var.value = cp.matmul(scratch.T, delta)
                var.generated.record(self.compute)
                delta = cp.tanh(scratch)
                scratch = None

    def step(self):
        with self.compute:
            loss_grad = cp.ones((self.dim, self.dim), dtype=cp.float32)
        self.backward(loss_grad)
        reduced = [self.handle.run(v) for v in reversed(self.vars)]
        done = self.comm_stream.record()
        self.compute.wait_event(done)
        with self.compute:
            for w, g in zip(reversed(self.weights), reduced):
                w -= 0.01 * g
        self.compute.synchronize()


def main(rank, world, uid, steps=100):
    cp.cuda.Device(rank).use()
    comm = nccl.NcclCommunicator(world, uid, rank)
    trainer = Trainer(comm, rank, nlayers=12, dim=2048)
    for _ in range(steps):
        trainer.step()


if __name__ == "__main__":
    main(0, 1, nccl.get_unique_id())
