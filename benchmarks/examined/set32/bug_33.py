"""Small executor of a training program: kernels on one stream, collectives on another."""
import cupy as cp
import numpy as np
from cupy.cuda import nccl


class Buffers(dict):
    def zeros(self, name, shape):
        self[name] = cp.zeros(shape, dtype=cp.float32)
        return self[name]


class Kernel:
    def __init__(self, fn, *names):
        self.fn, self.names = fn, names

    def run(self, ex):
        with ex.compute_stream:
            self.fn(*(ex.buffers[n] for n in self.names))


class ReduceStart:
    def __init__(self, src, dst, key):
        self.src, self.dst, self.key = src, dst, key

    def run(self, ex):
        src, dst = ex.buffers[self.src], ex.buffers[self.dst]
        ex.comm.allReduce(
            src.data.ptr, dst.data.ptr, src.size, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, ex.comm_stream.ptr
        )
        ex.events[self.key] = ex.comm_stream.record()


class ReduceDone:
    def __init__(self, key):
        self.key = key

    def run(self, ex):
        ex.compute_stream.wait_event(ex.events.pop(self.key))


class Executor:
    def __init__(self, comm, buffers):
        self.comm = comm
        self.buffers = buffers
        self.compute_stream = cp.cuda.Stream(non_blocking=True)
        self.comm_stream = cp.cuda.Stream(non_blocking=True)
        self.events = {}
        cp.cuda.Device().synchronize()

    def run(self, program):
        for thunk in program:
            thunk.run(self)

    def fetch(self, name):
        self.compute_stream.synchronize()
        return cp.asnumpy(self.buffers[name])


def _hidden(x, w1, h):
    cp.maximum(x @ w1, 0, out=h)


def _out_grad(h, w2, y, err, g2):
    cp.subtract(h @ w2, y, out=err)
    cp.matmul(h.T, err, out=g2)


def _hidden_grad(x, h, w2, err, g1):
    cp.matmul(x.T, (err @ w2.T) * (h > 0), out=g1)


def _update(w, g):
    w -= 1e-3 * g


def build_program():
    return [
        Kernel(_hidden, "x", "w1", "h"),
        Kernel(_out_grad, "h", "w2", "y", "err", "g2"),
        ReduceStart("g2", "r2", "g2"),
        Kernel(_hidden_grad, "x", "h", "w2", "err", "g1"),
        ReduceStart("g1", "r1", "g1"),
        ReduceDone("g2"),
        Kernel(_update, "w2", "r2"),
        ReduceDone("g1"),
        Kernel(_update, "w1", "r1"),
    ]


def train(unique_id, rank, world, x, y, hidden=1024, steps=100):
    cp.cuda.Device(rank).use()
    comm = nccl.NcclCommunicator(world, unique_id, rank)
    b = Buffers()
    rng = np.random.default_rng(0)
    b["x"], b["y"] = cp.asarray(x, dtype=cp.float32), cp.asarray(y, dtype=cp.float32)
    b["w1"] = cp.asarray(rng.normal(0, 0.02, (x.shape[1], hidden)), dtype=cp.float32)
    b["w2"] = cp.asarray(rng.normal(0, 0.02, (hidden, y.shape[1])), dtype=cp.float32)
    b.zeros("h", (x.shape[0], hidden)), b.zeros("err", y.shape)
    for k, w in (("1", "w1"), ("2", "w2")):
        b.zeros("g" + k, b[w].shape), b.zeros("r" + k, b[w].shape)
    ex, program = Executor(comm, b), build_program()
    for _ in range(steps):
        ex.run(program)
    return ex.fetch("w1"), ex.fetch("w2")
