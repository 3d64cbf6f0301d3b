import cupy as cp
import numpy as np
from mpi4py import MPI


class PipelineStage:
    """One rank of a pipeline; activations move between ranks with CUDA-aware MPI."""

    def __init__(self, comm, hidden, tokens):
        self.comm = comm
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.weight = cp.random.standard_normal((hidden, hidden), dtype=cp.float32) / np.sqrt(hidden)
            self.inbox = cp.zeros((tokens, hidden), dtype=cp.float32)
            self.outbox = cp.zeros((tokens, hidden), dtype=cp.float32)
        self.stream.synchronize()

    def receive(self, step):
        if self.rank == 0:
            with self.stream:
                self.inbox[...] = cp.float32(step + 1)
        else:
            self.comm.Recv(self.inbox, source=self.rank - 1, tag=step)

    def compute(self):
        with self.stream:
            cp.matmul(self.inbox, self.weight, out=self.outbox)
            cp.tanh(self.outbox, out=self.outbox)
        self.stream.synchronize()

    def forward(self, step):
        if self.rank + 1 < self.size:
            self.comm.Send(self.outbox, dest=self.rank + 1, tag=step)
            return None
        return float(cp.asnumpy(self.outbox).mean())


def main(steps=16):
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.Get_rank() % cp.cuda.runtime.getDeviceCount()).use()
    stage = PipelineStage(comm, 2048, 256)
    for step in range(steps):
        stage.receive(step)
        stage.compute()
        value = stage.forward(step)
        if value is not None:
            print(step, value)


if __name__ == "__main__":
    main()
