import cupy as cp
import numpy as np
from mpi4py import MPI

_quantize = cp.ElementwiseKernel(
    "float32 x, float32 scale",
    "int8 q",
    "float v = x / scale; v = v > 127.0f ? 127.0f : (v < -127.0f ? -127.0f : v); q = (signed char)rintf(v);",
    "quantize_kv",
)


class PrefillNode:
    """Produces KV pages and ships them to the decode rank."""

    def __init__(self, comm, pages, elems):
        self.comm = comm
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.kv = cp.random.standard_normal((pages, elems), dtype=cp.float32)
            self.wire = cp.empty((elems,), dtype=cp.int8)
        self.stream.synchronize()

    def ship(self, page):
        with self.stream:
            _quantize(self.kv[page], cp.float32(0.05), self.wire)
        self.comm.Send(self.wire, dest=1, tag=page)


class DecodeNode:
    def __init__(self, comm, pages, elems):
        self.comm = comm
        self.pages = cp.empty((pages, elems), dtype=cp.int8)
        self.n = pages

    def pull(self):
        for page in range(self.n):
            self.comm.Recv(self.pages[page], source=0, tag=page)
        return cp.asnumpy(self.pages.astype(cp.int32).sum(axis=1))


def main(pages=64, elems=1 << 20):
    comm = MPI.COMM_WORLD
    if comm.Get_rank() == 0:
        node = PrefillNode(comm, pages, elems)
        for page in range(pages):
            node.ship(page)
    elif comm.Get_rank() == 1:
        sums = DecodeNode(comm, pages, elems).pull()
        print(np.abs(sums).max())


if __name__ == "__main__":
    main()
