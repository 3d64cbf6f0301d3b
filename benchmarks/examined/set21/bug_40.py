"""Distributed 3-D grid with CUDA-aware MPI face exchange."""
import cupy as cp
import numpy as np
from mpi4py import MPI

_relax = cp.RawKernel(
    r"""
extern "C" __global__ void relax(const double* u, double* v, int nx, int ny, int nz, double w) {
    int k = blockIdx.x * blockDim.x + threadIdx.x + 1, j = blockIdx.y + 1, i = blockIdx.z + 1;
    if (k >= nz - 1) return;
    long sy = nz, sx = (long) ny * nz, c = i * sx + j * sy + k;
    double avg = (u[c - 1] + u[c + 1] + u[c - sy] + u[c + sy] + u[c - sx] + u[c + sx]) / 6.0;
    v[c] = u[c] + w * (avg - u[c]);
}
""",
    "relax",
)


class Topology:
    def __init__(self, comm):
        dims = MPI.Compute_dims(comm.Get_size(), 3)
        self.cart = comm.Create_cart(dims, periods=[True] * 3, reorder=True)
        self.neighbours = [self.cart.Shift(axis, 1) for axis in range(3)]


class HaloExchange:
    """Send and receive buffers for the six faces of a block with one ghost layer."""

    def __init__(self, topology, shape, stream):
        self.topology = topology
        self.stream = stream
        self.faces = []
        for axis in range(3):
            face = tuple(s for d, s in enumerate(shape) if d != axis)
            with stream:
                bufs = [cp.zeros(face) for _ in range(4)]
            self.faces.append(bufs)
        stream.synchronize()

    @staticmethod
    def _plane(field, axis, index):
        where = [slice(None)] * 3
        where[axis] = index
        return field[tuple(where)]

    def _pack(self, field, axis):
        send_lo, send_hi, _, _ = self.faces[axis]
        with self.stream:
            send_lo[...] = self._plane(field, axis, 1)
            send_hi[...] = self._plane(field, axis, -2)

    def _unpack(self, field, axis):
        _, _, recv_lo, recv_hi = self.faces[axis]
        with self.stream:
            self._plane(field, axis, 0)[...] = recv_lo
            self._plane(field, axis, -1)[...] = recv_hi
        self.stream.synchronize()

    def exchange(self, field):
        cart = self.topology.cart
        for axis, (lower, upper) in enumerate(self.topology.neighbours):
            send_lo, send_hi, recv_lo, recv_hi = self.faces[axis]
            requests = [cart.Irecv(recv_lo, source=lower, tag=0), cart.Irecv(recv_hi, source=upper, tag=1)]
            self._pack(field, axis)
            requests.append(cart.Isend(send_hi, dest=upper, tag=0))
            requests.append(cart.Isend(send_lo, dest=lower, tag=1))
            MPI.Request.Waitall(requests)
            self._unpack(field, axis)


class Poisson:
    def __init__(self, comm, shape, omega=0.9):
        cp.cuda.Device(comm.Get_rank() % cp.cuda.runtime.getDeviceCount()).use()
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.omega = omega
        self.shape = tuple(s + 2 for s in shape)
        with self.stream:
            self.u = cp.random.default_rng(comm.Get_rank()).random(self.shape)
            self.v = self.u.copy()
        self.halo = HaloExchange(Topology(comm), self.shape, self.stream)

    def sweep(self):
        self.halo.exchange(self.u)
        nx, ny, nz = self.shape
        with self.stream:
            _relax(((nz + 125) // 128, ny - 2, nx - 2), (128,),
                   (self.u, self.v, np.int32(nx), np.int32(ny), np.int32(nz), np.float64(self.omega)))
        self.u, self.v = self.v, self.u

    def norm(self):
        with self.stream:
            return float(cp.linalg.norm(self.u - self.v))


if __name__ == "__main__":
    solver = Poisson(MPI.COMM_WORLD, (64, 64, 64))
    for _ in range(200):
        solver.sweep()
    print(MPI.COMM_WORLD.Get_rank(), solver.norm())
