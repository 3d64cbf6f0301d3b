"""Halo exchange with gather/scatter on their own stream, overlapping the core set."""
import cupy as cp
from mpi4py import MPI


class HaloList:
    def __init__(self, export_idx, import_slice, neighbour):
        self.export_idx = cp.asarray(export_idx)
        self.import_slice = import_slice
        self.neighbour = neighbour
        n = len(export_idx)
        self.send_buf = cp.empty(n, dtype=cp.float64)
        self.recv_buf = cp.empty(n, dtype=cp.float64)


class Op2Halo:
    def __init__(self, comm, dat, ncore, halos):
        self.comm = comm
        self.dat = dat
        self.ncore = ncore
        self.halos = halos
        self.core_stream = cp.cuda.Stream(non_blocking=True)
        self.halo_stream = cp.cuda.Stream(non_blocking=True)
        self.gathered = cp.cuda.Event(disable_timing=True)
        self.scattered = cp.cuda.Event(disable_timing=True)
        self.core_done = cp.cuda.Event(disable_timing=True)
        cp.cuda.Device().synchronize()

    def start_exchange(self):
        reqs = []
        self.scattered.synchronize()
        for h in self.halos:
            reqs.append(self.comm.Irecv(h.recv_buf, source=h.neighbour, tag=7))
        self.halo_stream.wait_event(self.core_done)
        with self.halo_stream:
            for h in self.halos:
                cp.take(self.dat, h.export_idx, out=h.send_buf)
        self.gathered.record(self.halo_stream)
        self.core_stream.wait_event(self.gathered)
        self.gathered.synchronize()
        for h in self.halos:
            reqs.append(self.comm.Isend(h.send_buf, dest=h.neighbour, tag=7))
        return reqs

    def core_loop(self):
        with self.core_stream:
            core = self.dat[:self.ncore]
            core *= 0.99
            core += 0.01

    def finish_exchange(self, reqs):
        MPI.Request.Waitall(reqs)
        with self.halo_stream:
            for h in self.halos:
                self.dat[h.import_slice] = h.recv_buf
        self.scattered.record(self.halo_stream)
        self.core_stream.wait_event(self.scattered)

    def boundary_loop(self):
        with self.core_stream:
            edge = self.dat[self.ncore:]
            self.dat[self.ncore - edge.size:self.ncore] += 0.5 * edge
        self.core_done.record(self.core_stream)

    def step(self):
        reqs = self.start_exchange()
        self.core_loop()
        self.finish_exchange(reqs)
        self.boundary_loop()


def main(ncore=1 << 20, nhalo=4096, steps=50):
    comm = MPI.COMM_WORLD
    left = (comm.rank - 1) % comm.size
    right = (comm.rank + 1) % comm.size
    dat = cp.arange(ncore + 2 * nhalo, dtype=cp.float64)
    halos = [
        HaloList(range(nhalo), slice(ncore, ncore + nhalo), left),
        HaloList(range(ncore - nhalo, ncore), slice(ncore + nhalo, ncore + 2 * nhalo), right),
    ]
    op = Op2Halo(comm, dat, ncore, halos)
    for _ in range(steps):
        op.step()
    op.core_stream.synchronize()
    return float(dat.sum())


if __name__ == "__main__":
    print(main())
