"""CuPy distributed backend: gradients averaged on a communication stream."""
import cupy as cp
from cupyx.distributed import init_process_group
from mpi4py import MPI


class Averager:
    def __init__(self, comm, size):
        self.comm, self.size = comm, size
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.fired = {}

    def fire(self, key, send, recv):
        self.stream.wait_event(cp.cuda.get_current_stream().record())
        self.comm.all_reduce(send, recv, op="sum", stream=self.stream)
        self.fired[key] = self.stream.record()

    def settle(self):
        current = cp.cuda.get_current_stream()
        while self.fired:
            _, event = self.fired.popitem()
            current.wait_event(event)


class Regression:
    def __init__(self, comm, size, features=64):
        self.avg = Averager(comm, size)
        self.w = cp.zeros((features, 1), cp.float32)
        self.b = cp.zeros(1, cp.float32)
        self.send = {"w": cp.zeros_like(self.w), "b": cp.zeros_like(self.b)}
        self.recv = {k: cp.zeros_like(v) for k, v in self.send.items()}

    def step(self, x, y, lr=0.05):
        err = x @ self.w + self.b - y
        cp.matmul(x.T, err, out=self.send["w"])
        self.avg.fire("w", self.send["w"], self.recv["w"])
        self.send["b"][...] = err.sum()
        self.avg.fire("b", self.send["b"], self.recv["b"])
        self.avg.settle()
        scale = lr / (len(x) * self.avg.size)
        self.w -= scale * self.recv["w"]
        self.b -= scale * self.recv["b"]


def main():
    mpi = MPI.COMM_WORLD
    cp.cuda.Device(mpi.rank % cp.cuda.runtime.getDeviceCount()).use()
    comm = init_process_group(mpi.size, mpi.rank, backend="nccl", use_mpi=True)
    with cp.cuda.Stream(non_blocking=True) as stream:
        model = Regression(comm, mpi.size)
        truth = cp.ones((64, 1), cp.float32)
        for _ in range(100):
            x = cp.random.standard_normal((256, 64), dtype=cp.float32)
            model.step(x, x @ truth + 0.5)
        print(mpi.rank, float(cp.abs(model.w - 1).max()))
        stream.synchronize()


if __name__ == "__main__":
    main()
