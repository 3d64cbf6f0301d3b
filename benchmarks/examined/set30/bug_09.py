"""Hash shuffle of device-resident partitions between ranks over CUDA-aware MPI."""
import cupy as cp
import numpy as np
from mpi4py import MPI


class Shuffler:
    def __init__(self, comm):
        self.comm = comm
        self.rank = comm.Get_rank()
        self.size = comm.Get_size()
        cp.cuda.Device(self.rank % cp.cuda.runtime.getDeviceCount()).use()
        self.stream = cp.cuda.Stream(non_blocking=True)

    def partition(self, keys, values):
        """Reorders rows by target rank; returns the packed rows and the row count per rank."""
        with self.stream:
            target = (keys * np.uint64(0x9E3779B97F4A7C15)) % np.uint64(self.size)
            order = cp.argsort(target)
            counts = cp.bincount(target.astype(cp.int64), minlength=self.size)
            host_counts = counts.get()
            packed = cp.empty((len(keys), 2), dtype=cp.float64)
            packed[:, 0] = keys[order].astype(cp.float64)
            packed[:, 1] = values[order]
        return packed, host_counts.astype(np.int32)

    def exchange_counts(self, send_counts):
        recv_counts = np.empty_like(send_counts)
        self.comm.Alltoall(send_counts, recv_counts)
        return recv_counts

    def exchange(self, packed, send_counts, recv_counts):
        out = cp.empty((int(recv_counts.sum()), 2), dtype=cp.float64)
        requests = []
        start = 0
        for peer, count in enumerate(recv_counts):
            if count:
                view = out[start:start + count]
                requests.append(self.comm.Irecv([view, MPI.DOUBLE], source=peer, tag=7))
            start += int(count)
        start = 0
        for peer, count in enumerate(send_counts):
            if count:
                view = packed[start:start + count]
                requests.append(self.comm.Isend([view, MPI.DOUBLE], dest=peer, tag=7))
            start += int(count)
        MPI.Request.Waitall(requests)
        return out

    def shuffle(self, keys, values):
        packed, send_counts = self.partition(keys, values)
        recv_counts = self.exchange_counts(send_counts)
        return self.exchange(packed, send_counts, recv_counts)


def groupby_sum(rows, stream):
    with stream:
        keys, inverse = cp.unique(rows[:, 0], return_inverse=True)
        sums = cp.zeros(len(keys), dtype=cp.float64)
        cp.add.at(sums, inverse, rows[:, 1])
        result = cp.asnumpy(keys), cp.asnumpy(sums)
    stream.synchronize()
    return result


def main(rows=1 << 22):
    shuffler = Shuffler(MPI.COMM_WORLD)
    with shuffler.stream:
        rng = cp.random.default_rng(shuffler.rank)
        keys = rng.integers(0, 1 << 40, size=rows, dtype=cp.uint64)
        values = rng.random(rows)
    received = shuffler.shuffle(keys, values)
    keys, sums = groupby_sum(received, shuffler.stream)
    total = shuffler.comm.allreduce(float(sums.sum()))
    if shuffler.rank == 0:
        print(len(keys), total)


if __name__ == "__main__":
    main()
