"""Data-parallel CuPy training with gradient averaging on a second stream."""
from typing import Dict, List

import cupy as cp
import numpy as np
from cupy.cuda import nccl
from mpi4py import MPI


class Averager:
    """Casts to half on the communication stream, reduces, and casts back."""

    def __init__(self, comm: nccl.NcclCommunicator, world: int, shapes: List[tuple]):
        self.comm = comm
        self.world = world
        self.stream = cp.cuda.Stream(non_blocking=True)
        total = sum(int(np.prod(s)) for s in shapes)
        self.half = cp.zeros(total, dtype=cp.float16)
        self.produced = cp.cuda.Event(disable_timing=True)
        self.averaged = cp.cuda.Event(disable_timing=True)

    def start(self, grads: List[cp.ndarray], producer: cp.cuda.Stream) -> None:
        self.produced.record(producer)
        self.stream.wait_event(self.produced)
        with self.stream:
            offset = 0
            views = []
            for g in grads:
                view = self.half[offset : offset + g.size].reshape(g.shape)
                cp.copyto(view, g, casting="same_kind")
                views.append(view)
                offset += g.size
            self.comm.allReduce(
                self.half.data.ptr,
                self.half.data.ptr,
                self.half.size,
                nccl.NCCL_HALF,
                nccl.NCCL_SUM,
                self.stream.ptr,
            )
            for g, view in zip(grads, views):
                cp.multiply(view, np.float32(1.0 / self.world), out=g, casting="unsafe")
        self.averaged.record(self.stream)

    def finish(self, consumer: cp.cuda.Stream) -> None:
        consumer.wait_event(self.averaged)


class Regressor:
    def __init__(self, dim: int, hidden: int, averager_factory):
        self.stream = cp.cuda.Stream(non_blocking=True)
        rng = np.random.default_rng(0)
        self.params: Dict[str, cp.ndarray] = {
            "w1": cp.asarray(rng.normal(size=(dim, hidden)).astype(np.float32) / dim**0.5),
            "w2": cp.asarray(rng.normal(size=(hidden, 1)).astype(np.float32) / hidden**0.5),
        }
        self.grads = {k: cp.zeros_like(v) for k, v in self.params.items()}
        self.averager = averager_factory([v.shape for v in self.grads.values()])
        self.loss = cp.zeros(1, dtype=cp.float32)
        cp.cuda.Device().synchronize()

    def step(self, x: cp.ndarray, y: cp.ndarray, lr: float) -> None:
        p, g = self.params, self.grads
        with self.stream:
            h = cp.maximum(x @ p["w1"], 0)
            err = h @ p["w2"] - y
            cp.matmul(h.T, err, out=g["w2"])
            cp.matmul(x.T, (err @ p["w2"].T) * (h > 0), out=g["w1"])
        self.averager.start(list(g.values()), self.stream)
        with self.stream:
            self.loss[...] = 0.9 * self.loss + 0.1 * (err * err).mean()
        self.averager.finish(self.stream)
        with self.stream:
            for k in p:
                p[k] -= np.float32(lr / len(x)) * g[k]


def main(steps: int = 200) -> None:
    world = MPI.COMM_WORLD
    cp.cuda.Device(world.rank % cp.cuda.runtime.getDeviceCount()).use()
    uid = world.bcast(nccl.get_unique_id() if world.rank == 0 else None)
    comm = nccl.NcclCommunicator(world.size, uid, world.rank)
    model = Regressor(256, 1024, lambda shapes: Averager(comm, world.size, shapes))
    with model.stream:
        x = cp.random.standard_normal((8192, 256), dtype=cp.float32)
        y = cp.sin(x.sum(axis=1, keepdims=True))
        for _ in range(steps):
            model.step(x, y, 0.05)
        print(world.rank, float(model.loss.get(stream=model.stream)[0]))


if __name__ == "__main__":
    main()
