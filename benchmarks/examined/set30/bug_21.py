"""Data-parallel histogram accumulation over NCCL, one process per device."""
import multiprocessing as mp

import cupy as cp
import cupyx
import numpy as np
from cupy.cuda import nccl


class RankReducer:
    def __init__(self, world, uid, rank, width):
        self.rank = rank
        self.device = cp.cuda.Device(rank)
        self.device.use()
        self.comm = nccl.NcclCommunicator(world, uid, rank)
        self.compute = cp.cuda.Stream(non_blocking=True)
        self.link = cp.cuda.Stream(non_blocking=True)
        self.acc = cp.zeros(width, dtype=cp.float32)
        self.host = cupyx.empty_pinned((width,), dtype=np.float32)
        self.device.synchronize()

    def accumulate(self, blocks):
        with self.compute:
            for block in blocks:
                self.acc += cp.asarray(block)

    def reduce(self):
        ready = self.compute.record()
        self.link.wait_event(ready)
        self.comm.allReduce(
            self.acc.data.ptr,
            self.acc.data.ptr,
            self.acc.size,
            nccl.NCCL_FLOAT32,
            nccl.NCCL_SUM,
            self.link.ptr,
        )

    def fetch(self):
        with self.compute:
            self.acc.get(stream=self.compute, out=self.host, blocking=False)
        self.compute.synchronize()
        return self.host.copy()

    def close(self):
        self.device.synchronize()
        self.comm.destroy()


def _worker(rank, world, uid, width, results):
    reducer = RankReducer(world, uid, rank, width)
    rng = np.random.default_rng(rank)
    blocks = [rng.random(width, dtype=np.float32) for _ in range(8)]
    reducer.accumulate(blocks)
    reducer.reduce()
    results.put((rank, float(reducer.fetch().sum())))
    reducer.close()


def main(width=1 << 22):
    ctx = mp.get_context("spawn")
    world = cp.cuda.runtime.getDeviceCount()
    uid = nccl.get_unique_id()
    results = ctx.Queue()
    procs = [
        ctx.Process(target=_worker, args=(rank, world, uid, width, results))
        for rank in range(world)
    ]
    for p in procs:
        p.start()
    totals = dict(results.get() for _ in procs)
    for p in procs:
        p.join()
    return totals


if __name__ == "__main__":
    print(main())
