from collections import namedtuple

import cupy as cp
import numpy as np
from cupy.cuda import nccl
from mpi4py import MPI

PendingFill = namedtuple("PendingFill", "field axis done")


class EventPool:
    """Timing-less events; an event goes back when its waits have been queued."""

    def __init__(self):
        self._free = []

    def take(self):
        return self._free.pop() if self._free else cp.cuda.Event(disable_timing=True)

    def give(self, event):
        self._free.append(event)


class NCCLDistributed:
    def __init__(self, cart):
        self.events = EventPool()
        self.comms, self.streams, self.neighbours = [], [], []
        for axis in range(2):
            sub = cart.Sub([axis == 0, axis == 1])
            uid = sub.bcast(nccl.get_unique_id() if sub.Get_rank() == 0 else None)
            size, rank = sub.Get_size(), sub.Get_rank()
            self.comms.append(nccl.NcclCommunicator(size, uid, rank))
            self.streams.append(cp.cuda.Stream(non_blocking=True))
            self.neighbours.append(((rank - 1) % size, (rank + 1) % size))


class Field:
    def __init__(self, shape, halo, dtype=np.float32):
        self.data = cp.zeros(shape, dtype)
        self.halo = halo
        self.send, self.recv = [], []
        for axis in range(2):
            side = list(shape)
            side[axis] = halo
            self.send.append([cp.empty(side, dtype) for _ in range(2)])
            self.recv.append([cp.empty(side, dtype) for _ in range(2)])

    def region(self, axis, lo, hi):
        index = [slice(None)] * self.data.ndim
        index[axis] = slice(lo, hi)
        return self.data[tuple(index)]


class HaloFiller:
    def __init__(self, arch):
        self.arch = arch
        self.pending = []

    def fill(self, field, axis):
        compute = cp.cuda.get_current_stream()
        comm, stream = self.arch.comms[axis], self.arch.streams[axis]
        h, send, recv = field.halo, field.send[axis], field.recv[axis]

        send[0][...] = field.region(axis, h, 2 * h)
        send[1][...] = field.region(axis, -2 * h, -h)
        packed = self.arch.events.take()
        packed.record(compute)
        stream.wait_event(packed)
        self.arch.events.give(packed)

        nccl.groupStart()
        for side, peer in enumerate(self.arch.neighbours[axis]):
            comm.send(send[side].data.ptr, send[side].size, nccl.NCCL_FLOAT32, peer, stream.ptr)
            comm.recv(recv[side].data.ptr, recv[side].size, nccl.NCCL_FLOAT32, peer, stream.ptr)
        nccl.groupEnd()
        done = self.arch.events.take()
        done.record(stream)
        self.pending.append(PendingFill(field, axis, done))

    def synchronize_communication(self):
        compute = cp.cuda.get_current_stream()
        for field, axis, done in self.pending:
            compute.wait_event(done)
            self.arch.events.give(done)
            h, recv = field.halo, field.recv[axis]
            field.region(axis, None, h)[...] = recv[0]
            field.region(axis, -h, None)[...] = recv[1]
        self.pending.clear()


def time_step(u, v, filler, dt, h):
    for axis in range(2):
        for field in (u, v):
            filler.fill(field, axis)
    core = np.s_[2 * h:-2 * h, 2 * h:-2 * h]
    du = cp.zeros_like(u.data)
    du[core] = v.data[core] - 0.5 * (u.data[3 * h:-h, 2 * h:-2 * h] - u.data[h:-3 * h, 2 * h:-2 * h])
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
    cp.cuda.Device().synchronize()
    with cp.cuda.Stream(non_blocking=True) as compute:
        for _ in range(steps):
            time_step(u, v, filler, 1e-3, halo)
        compute.synchronize()
    print(world.Get_rank(), float(cp.abs(u.data).max()))


if __name__ == "__main__":
    main()
