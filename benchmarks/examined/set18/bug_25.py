import cupy as cp
import numpy as np
from cupy.cuda import nccl
from mpi4py import MPI


class HaloBuffers:
    def __init__(self, field_shape, axis, halo, dtype):
        shape = list(field_shape)
        shape[axis] = halo
        self.send = [cp.empty(shape, dtype) for _ in range(2)]
        self.recv = [cp.empty(shape, dtype) for _ in range(2)]


class NCCLDistributed:
    """NCCL communicators of one rank of a Cartesian process grid, one per direction."""

    def __init__(self, cart):
        self.comms, self.streams, self.neighbours = [], [], []
        for axis in range(2):
            sub = cart.Sub([axis == 0, axis == 1])
            uid = sub.bcast(nccl.get_unique_id() if sub.Get_rank() == 0 else None)
            size, rank = sub.Get_size(), sub.Get_rank()
            self.comms.append(nccl.NcclCommunicator(size, uid, rank))
            self.streams.append(cp.cuda.Stream(non_blocking=True))
            self.neighbours.append(((rank - 1) % size, (rank + 1) % size))
        self.sync_event = cp.cuda.Event(disable_timing=True)


class Field:
    def __init__(self, shape, halo, dtype=np.float32):
        self.data = cp.zeros(shape, dtype)
        self.halo = halo
        self.buffers = [HaloBuffers(shape, axis, halo, dtype) for axis in range(2)]

    def region(self, axis, lo, hi):
        index = [slice(None)] * self.data.ndim
        index[axis] = slice(lo, hi)
        return self.data[tuple(index)]

    def pack(self, axis):
        h, buf = self.halo, self.buffers[axis]
        buf.send[0][...] = self.region(axis, h, 2 * h)
        buf.send[1][...] = self.region(axis, -2 * h, -h)

    def unpack(self, axis):
        h, buf = self.halo, self.buffers[axis]
        self.region(axis, None, h)[...] = buf.recv[0]
        self.region(axis, -h, None)[...] = buf.recv[1]


class HaloFiller:
    def __init__(self, arch):
        self.arch = arch
        self.pending = []

    def fill(self, field, axis):
        compute = cp.cuda.get_current_stream()
        comm, stream = self.arch.comms[axis], self.arch.streams[axis]
        event = self.arch.sync_event

        field.pack(axis)
        event.record(compute)
        stream.wait_event(event)

        buf = field.buffers[axis]
        nccl.groupStart()
        for side, peer in enumerate(self.arch.neighbours[axis]):
            comm.send(buf.send[side].data.ptr, buf.send[side].size, nccl.NCCL_FLOAT32, peer, stream.ptr)
            comm.recv(buf.recv[side].data.ptr, buf.recv[side].size, nccl.NCCL_FLOAT32, peer, stream.ptr)
        nccl.groupEnd()
        event.record(stream)
        self.pending.append((field, axis))

    def synchronize_communication(self):
        compute = cp.cuda.get_current_stream()
        for field, axis in self.pending:
            compute.wait_event(self.arch.sync_event)
            field.unpack(axis)
        self.pending.clear()


def interior_tendency(u, v, h):
    du = cp.zeros_like(u)
    core = np.s_[2 * h:-2 * h, 2 * h:-2 * h]
    du[core] = v[core] - 0.5 * (u[3 * h:-h, 2 * h:-2 * h] - u[h:-3 * h, 2 * h:-2 * h])
    return du


def time_step(u, v, filler, dt, h):
    for field in (u, v):
        filler.fill(field, axis=0)
    for field in (u, v):
        filler.fill(field, axis=1)
    du = interior_tendency(u.data, v.data, h)
    filler.synchronize_communication()
    u.data += dt * du
    v.data -= dt * u.data


def main(steps=50, n=1024, halo=4):
    world = MPI.COMM_WORLD
    cp.cuda.Device(world.Get_rank() % cp.cuda.runtime.getDeviceCount()).use()
    cart = world.Create_cart(MPI.Compute_dims(world.Get_size(), 2), periods=[True, True])
    filler = HaloFiller(NCCLDistributed(cart))
    u, v = Field((n, n), halo), Field((n, n), halo)
    u.data[...] = cp.random.random((n, n), dtype=cp.float32)
    with cp.cuda.Stream(non_blocking=True) as compute:
        cp.cuda.Device().synchronize()
        for _ in range(steps):
            time_step(u, v, filler, 1e-3, halo)
        compute.synchronize()
    print(world.Get_rank(), float(cp.abs(u.data).max()))


if __name__ == "__main__":
    main()
