from typing import Callable, List

import cupy as cp
from cupy.cuda import nccl


class PureNcclCommunicator:
    def __init__(self, unique_id, rank: int, size: int):
        self.size = size
        self.comm = nccl.NcclCommunicator(size, unique_id, rank)

    def allreduce_grad_async(self, buf: cp.ndarray, stream: cp.cuda.Stream) -> None:
        ptr = buf.data.ptr
        self.comm.allReduce(ptr, ptr, buf.size, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, stream.ptr)
        with stream:
            buf *= 1.0 / self.size


class DoubleBufferingOptimizer:
    """Applies the averaged gradients of the previous iteration while the new ones are reduced."""

    def __init__(self, comm: PureNcclCommunicator, params: List[cp.ndarray], lr: float):
        self.communicator = comm
        self.params = params
        self.lr = lr
        total = sum(p.size for p in params)
        self.buffers = [cp.zeros(total, dtype=cp.float32) for _ in range(2)]
        self.current = 0
        self.allreduce_stream = cp.cuda.Stream(non_blocking=True)
        self.needs_update = False

    def wait(self) -> None:
        self.allreduce_stream.synchronize()
        cp.cuda.Stream.null.synchronize()

    def _pack(self, grads: List[cp.ndarray], buf: cp.ndarray) -> None:
        offset = 0
        for g in grads:
            buf[offset:offset + g.size] = g.ravel()
            offset += g.size

    def _apply(self, buf: cp.ndarray) -> None:
        offset = 0
        for p in self.params:
            p -= self.lr * buf[offset:offset + p.size].reshape(p.shape)
            offset += p.size

    def update(self, grads: List[cp.ndarray]) -> None:
        fresh = self.buffers[self.current]
        reduced = self.buffers[1 - self.current]
        self._pack(grads, fresh)
        self.wait()
        self.communicator.allreduce_grad_async(fresh, self.allreduce_stream)
        if self.needs_update:
            self._apply(reduced)
        self.needs_update = True
        self.current = 1 - self.current

    def finish(self) -> None:
        self.wait()
        if self.needs_update:
            self._apply(self.buffers[1 - self.current])
            self.needs_update = False


def train(model: Callable, opt: DoubleBufferingOptimizer, batches) -> float:
    loss = cp.zeros(())
    for x, y in batches:
        loss, grads = model(opt.params, cp.asarray(x), cp.asarray(y))
        opt.update(grads)
    opt.finish()
    return float(loss)
