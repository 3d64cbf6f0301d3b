"""Layer-by-layer backward with all-reduces on a communication stream (two gradient buffers)."""
import os

import cupy as cp
from cupy.cuda import nccl


class MultiGpuConfig:
    def __init__(self, rank, world, uid):
        self.rank, self.world = rank, world
        cp.cuda.Device(rank).use()
        self.comm = nccl.NcclCommunicator(world, uid, rank)
        self.nccl_stream = cp.cuda.Stream(non_blocking=True)
        self.compute_nccl_sync = cp.cuda.Event(disable_timing=True)

    def all_reduce_async(self, grads, shard, compute_stream):
        self.compute_nccl_sync.record(compute_stream)
        self.nccl_stream.wait_event(self.compute_nccl_sync)
        self.comm.allReduce(
            grads.data.ptr, grads.data.ptr, grads.size,
            nccl.NCCL_FLOAT32, nccl.NCCL_SUM, self.nccl_stream.ptr)
        with self.nccl_stream:
            n = shard.size
            shard += grads[self.rank * n:(self.rank + 1) * n]


class GPT2:
    def __init__(self, layers, params_per_layer, config):
        self.layers = layers
        self.config = config
        self.compute_stream = cp.cuda.Stream(non_blocking=True)
        with self.compute_stream:
            self.weights = cp.random.random((layers, params_per_layer)).astype(cp.float32)
            self.buffers = [cp.zeros(params_per_layer, cp.float32) for _ in range(2)]
            shard = params_per_layer // config.world
            self.shards = cp.zeros((layers, shard), cp.float32)
        self.compute_stream.synchronize()

    def backward_layer(self, layer, dout, grads):
        cp.multiply(self.weights[layer], dout, out=grads)
        grads += cp.tanh(self.weights[layer])

    def backward(self, dout):
        for layer in reversed(range(self.layers)):
            grads = self.buffers[layer % 2]
            with self.compute_stream:
                self.backward_layer(layer, dout, grads)
            self.config.all_reduce_async(
                grads, self.shards[layer], self.compute_stream)

    def update(self, lr):
        done = self.config.nccl_stream.record()
        self.compute_stream.wait_event(done)
        r, n = self.config.rank, self.shards.shape[1]
        with self.compute_stream:
            self.weights[:, r * n:(r + 1) * n] -= lr * self.shards
            self.shards.fill(0)
        self.config.nccl_stream.wait_event(self.compute_stream.record())


def main():
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    uid = tuple(int(v) for v in os.environ["NCCL_UID"].split(","))
    model = GPT2(24, 1 << 22, MultiGpuConfig(rank, world, uid))
    for step in range(20):
        model.backward(0.01 * (step + 1))
        model.update(1e-3)
    model.compute_stream.synchronize()
    print(rank, float(model.weights.sum()))


if __name__ == "__main__":
    main()
