"""Sparse attention with the cold KV cache in host memory, gathered by a host function."""
import numpy as np
import cupy as cp
from cupy.cuda import runtime


def pinned(shape, dtype):
    count = int(np.prod(shape))
    mem = cp.cuda.alloc_pinned_memory(count * np.dtype(dtype).itemsize)
    return np.frombuffer(mem, dtype=dtype, count=count).reshape(shape)


class TopkGather:
    """Arguments of one gather; handed to the host function as its user data."""

    def __init__(self, cold_pool, topk):
        self.cold_pool = cold_pool
        self.indices = pinned((topk,), np.int32)
        self.staging = pinned((topk, cold_pool.shape[1]), np.float32)
        self.device = cp.empty((topk, cold_pool.shape[1]), dtype=cp.float32)

    def run(self):
        np.take(self.cold_pool, self.indices, axis=0, out=self.staging, mode="clip")


def _onload_topk(gather):
    gather.run()


class SparseOffloadManager:
    def __init__(self, stream, max_tokens, dim, topk):
        self.stream = stream
        self.topk = topk
        self.cold_pool = np.zeros((max_tokens, dim), dtype=np.float32)
        self.index_keys = cp.zeros((max_tokens, 64), dtype=cp.float32)
        self.length = 0
        self.gather = TopkGather(self.cold_pool, topk)

    def append(self, values, keys):
        self.stream.synchronize()
        end = self.length + len(values)
        self.cold_pool[self.length:end] = values
        with self.stream:
            self.index_keys[self.length:end] = cp.asarray(keys)
        self.length = end

    def select(self, query):
        g = self.gather
        with self.stream:
            scores = self.index_keys[:self.length] @ query
            top = cp.argpartition(-scores, self.topk)[:self.topk].astype(cp.int32)
            runtime.memcpyAsync(
                g.indices.ctypes.data, top.data.ptr, g.indices.nbytes,
                runtime.memcpyDeviceToHost, self.stream.ptr,
            )
            self.stream.launch_host_func(_onload_topk, g)
            runtime.memcpyAsync(
                g.device.data.ptr, g.staging.ctypes.data, g.staging.nbytes,
                runtime.memcpyHostToDevice, self.stream.ptr,
            )
        return g.device


class SparseAttention:
    def __init__(self, stream, manager, dim, seed):
        self.stream = stream
        self.manager = manager
        with stream:
            rng = cp.random.RandomState(seed)
            self.wq = rng.standard_normal((dim, 64)).astype(cp.float32) / dim ** 0.5
            self.wo = rng.standard_normal((dim, dim)).astype(cp.float32) / dim ** 0.5

    def __call__(self, hidden):
        with self.stream:
            kv = self.manager.select(hidden @ self.wq)
            weights = kv @ hidden
            weights = cp.exp(weights - weights.max())
            context = (weights / weights.sum()) @ kv
            return hidden + cp.tanh(context @ self.wo)


def decode(steps=32, layers=8, dim=1024, tokens=20000, topk=256):
    stream = cp.cuda.Stream(non_blocking=True)
    cp.cuda.Device().synchronize()
    manager = SparseOffloadManager(stream, tokens + steps, dim, topk)
    cp.cuda.Device().synchronize()
    rng = np.random.default_rng(0)
    manager.append(
        rng.standard_normal((tokens, dim), dtype=np.float32) * 0.1,
        rng.standard_normal((tokens, 64), dtype=np.float32),
    )
    blocks = [SparseAttention(stream, manager, dim, seed) for seed in range(layers)]
    with stream:
        hidden = cp.ones(dim, dtype=cp.float32) / dim ** 0.5
    for _ in range(steps):
        for block in blocks:
            hidden = block(hidden)
        with stream:
            row = cp.asnumpy(hidden)
        manager.append(row[None], rng.standard_normal((1, 64), dtype=np.float32))
    return row


if __name__ == "__main__":
    print(np.abs(decode()).mean())
