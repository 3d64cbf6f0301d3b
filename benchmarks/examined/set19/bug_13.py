"""Executor with a primary and a secondary KV block pool; blocks move between them on a transfer stream."""
from collections import OrderedDict

import torch


class KVCacheTransferManager:
    """Copies blocks between the GPU pool and the host pool."""

    def __init__(self, primary, secondary):
        self.primary = primary
        self.secondary = secondary
        self.stream = torch.cuda.Stream()
        self.buffer_manager_stream = torch.cuda.default_stream()

    def sync_with_buffer_manager(self):
        self.stream.wait_stream(self.buffer_manager_stream)

    def offload(self, gpu_block, host_block):
        with torch.cuda.stream(self.stream):
            self.secondary[host_block].copy_(self.primary[gpu_block], non_blocking=True)

    def onboard(self, host_block, gpu_block):
        with torch.cuda.stream(self.stream):
            self.primary[gpu_block].copy_(self.secondary[host_block], non_blocking=True)

    def sync_transfers(self):
        self.buffer_manager_stream.wait_stream(self.stream)


class KVCacheManager:
    def __init__(self, num_gpu_blocks, num_host_blocks, block_shape, dtype):
        self.primary = torch.zeros(num_gpu_blocks, *block_shape, dtype=dtype, device="cuda")
        self.secondary = torch.zeros(num_host_blocks, *block_shape, dtype=dtype, pin_memory=True)
        self.transfer = KVCacheTransferManager(self.primary, self.secondary)
        self.free_gpu = list(range(num_gpu_blocks))
        self.free_host = list(range(num_host_blocks))
        self.cached = OrderedDict()
        self.offloaded = {}

    def _evict(self):
        key, gpu_block = self.cached.popitem(last=False)
        host_block = self.free_host.pop()
        self.transfer.offload(gpu_block, host_block)
        self.offloaded[key] = host_block
        return gpu_block

    def _get_free_block(self):
        return self.free_gpu.pop() if self.free_gpu else self._evict()

    def prepare_resources(self, keys):
        blocks = []
        self.transfer.sync_with_buffer_manager()
        for key in keys:
            if key in self.cached:
                self.cached.move_to_end(key)
                blocks.append(self.cached[key])
                continue
            block = self._get_free_block()
            host_block = self.offloaded.pop(key, None)
            if host_block is not None:
                self.transfer.onboard(host_block, block)
                self.free_host.append(host_block)
            self.cached[key] = block
            blocks.append(block)
        self.transfer.sync_transfers()
        return blocks


class PyExecutor:
    def __init__(self, engine, kv_cache_manager):
        self.engine = engine
        self.kv = kv_cache_manager
        self.execution_stream = torch.cuda.Stream()
        self.execution_stream.wait_stream(torch.cuda.default_stream())

    def _forward_step(self, hidden, blocks):
        with torch.cuda.stream(self.execution_stream):
            return self.engine(hidden, self.kv.primary, blocks)

    def run(self, schedule, hidden):
        self.execution_stream.wait_stream(torch.cuda.current_stream())
        for keys in schedule:
            blocks = self.kv.prepare_resources(keys)
            hidden = self._forward_step(hidden, blocks)
        self.execution_stream.synchronize()
        return hidden


class ToyEngine(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.qkv = torch.nn.Linear(dim, 3 * dim, bias=False)

    @torch.no_grad()
    def forward(self, hidden, pool, blocks):
        q, k, v = self.qkv(hidden).chunk(3, -1)
        slot = hidden.shape[0]
        pool[blocks[-1], 0, :slot].copy_(k)
        pool[blocks[-1], 1, :slot].copy_(v)
        keys = torch.cat([pool[b, 0] for b in blocks])
        values = torch.cat([pool[b, 1] for b in blocks])
        return torch.softmax(q @ keys.t(), -1) @ values


if __name__ == "__main__":
    manager = KVCacheManager(16, 256, (2, 64, 1024), torch.float16)
    executor = PyExecutor(ToyEngine(1024).half().cuda(), manager)
    plan = [[(i * 7 + j) % 40 for j in range(6)] for i in range(200)]
    print(executor.run(plan, torch.randn(64, 1024, device="cuda").half()).norm())
