"""Parallel CSR matrix-vector product with GPU-aware MPI, after the communication package of hypre."""
import cupy as cp
import cupyx.scipy.sparse as sp
import numpy as np
from mpi4py import MPI

PACK = cp.ElementwiseKernel("raw T x, int32 map", "T buf", "buf = x[map]", "pack_on_device")


class Handle:
    """Library-wide settings and the compute stream."""

    def __init__(self, gpu_aware_mpi, unified_memory):
        self.gpu_aware_mpi = gpu_aware_mpi
        self.unified_memory = unified_memory
        self.compute_stream = cp.cuda.Stream(non_blocking=True)

    def sync_compute_stream(self):
        if self.unified_memory:
            self.compute_stream.synchronize()

    def force_sync_compute_stream(self):
        self.compute_stream.synchronize()


class CommPkg:
    def __init__(self, comm, send_procs, send_maps, recv_procs, recv_counts):
        self.comm = comm
        self.send_procs = send_procs
        self.send_maps = [cp.asarray(m, dtype=cp.int32) for m in send_maps]
        self.send_bufs = [cp.empty(m.size, dtype=cp.float64) for m in self.send_maps]
        self.recv_procs = recv_procs
        self.recv_starts = np.concatenate([[0], np.cumsum(recv_counts)])
        self.recv_buf = cp.empty(int(self.recv_starts[-1]), dtype=cp.float64)


class CommHandle:
    def __init__(self, handle, pkg, x):
        self.handle = handle
        self.pkg = pkg
        self.requests = []
        with handle.compute_stream:
            for send_map, buf in zip(pkg.send_maps, pkg.send_bufs):
                PACK(x, send_map, buf)
        if handle.gpu_aware_mpi:
            handle.sync_compute_stream()
            send, recv = pkg.send_bufs, pkg.recv_buf
        else:
            handle.force_sync_compute_stream()
            send = [cp.asnumpy(b) for b in pkg.send_bufs]
            recv = np.empty(pkg.recv_buf.size)
        self.recv = recv
        for k, proc in enumerate(pkg.recv_procs):
            part = recv[pkg.recv_starts[k]:pkg.recv_starts[k + 1]]
            self.requests.append(pkg.comm.Irecv(part, source=proc, tag=7))
        for buf, proc in zip(send, pkg.send_procs):
            self.requests.append(pkg.comm.Isend(buf, dest=proc, tag=7))

    def wait(self):
        MPI.Request.Waitall(self.requests)
        if not self.handle.gpu_aware_mpi:
            self.pkg.recv_buf.set(self.recv)
        return self.pkg.recv_buf


class ParCSRMatrix:
    def __init__(self, handle, diag, offd, pkg):
        self.handle, self.diag, self.offd, self.pkg = handle, diag, offd, pkg

    def matvec(self, x):
        comm_handle = CommHandle(self.handle, self.pkg, x)
        with self.handle.compute_stream:
            y = self.diag @ x
        x_ext = comm_handle.wait()
        with self.handle.compute_stream:
            y += self.offd @ x_ext
        return y


def laplacian_rows(comm, n):
    """n x n grid points per rank, ranks stacked in one direction."""
    one = sp.identity(n, dtype=np.float64, format="csr")
    t = sp.diags([-1.0, 2.0, -1.0], [-1, 0, 1], shape=(n, n), format="csr")
    diag = (sp.kron(one, t) + sp.kron(t, one)).tocsr()
    procs, maps, rows, cols = [], [], [], []
    for proc, local in ((comm.rank - 1, np.arange(n)), (comm.rank + 1, np.arange(n * n - n, n * n))):
        if 0 <= proc < comm.size:
            cols.append(np.arange(n) + n * len(procs))
            rows.append(local)
            procs.append(proc)
            maps.append(local)
    width = max(n * len(procs), 1)
    r = cp.asarray(np.concatenate(rows)) if rows else cp.zeros(0, dtype=cp.int64)
    c = cp.asarray(np.concatenate(cols)) if cols else cp.zeros(0, dtype=cp.int64)
    offd = sp.coo_matrix((-cp.ones(r.size), (r, c)), shape=(n * n, width)).tocsr()
    pkg = CommPkg(comm, procs, maps, procs, [n] * len(procs) if procs else [1])
    return diag, offd, pkg


def main(n=1024, iters=200):
    comm = MPI.COMM_WORLD
    cp.cuda.Device(comm.rank % cp.cuda.runtime.getDeviceCount()).use()
    handle = Handle(gpu_aware_mpi=True, unified_memory=False)
    a = ParCSRMatrix(handle, *laplacian_rows(comm, n))
    x = cp.asarray(np.random.default_rng(comm.rank).random(n * n))
    cp.cuda.Device().synchronize()
    for _ in range(iters):
        y = a.matvec(x)
        with handle.compute_stream:
            x = y / 8.0
    handle.force_sync_compute_stream()
    norm = comm.allreduce(float(cp.linalg.norm(x)) ** 2)
    if comm.rank == 0:
        print("norm", norm ** 0.5)


if __name__ == "__main__":
    main()
