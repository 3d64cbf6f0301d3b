from collections import deque

import torch
import torch.distributed as dist


class GatherBuffer:
    def __init__(self, numel, dtype):
        self.data = torch.empty(numel, dtype=dtype, device="cuda")
        self.released = torch.cuda.Event()


class GatherPool:
    def __init__(self, count, numel, dtype):
        self.free = deque(GatherBuffer(numel, dtype) for _ in range(count))

    def take(self, stream):
        buf = self.free.popleft()
        stream.wait_event(buf.released)
        return buf

    def give(self, buf):
        buf.released.record(torch.cuda.current_stream())
        self.free.append(buf)


class ShardedLayer(torch.nn.Module):
    def __init__(self, layer, pool, gather_stream):
        super().__init__()
        world, rank = dist.get_world_size(), dist.get_rank()
        self.layer, self.pool, self.gather_stream = layer, pool, gather_stream
        self.meta = [(p, p.shape, p.numel()) for p in layer.parameters()]
        full = torch.cat([p.detach().reshape(-1) for p, _, _ in self.meta])
        full = torch.nn.functional.pad(full, (0, -full.numel() % world))
        self.numel = full.numel()
        self.register_buffer("shard", full.chunk(world)[rank].clone())
        self.buf = self.work = None

    def prefetch(self):
        if self.buf is None:
            self.buf = self.pool.take(self.gather_stream)
            with torch.cuda.stream(self.gather_stream):
                self.work = dist.all_gather_into_tensor(self.buf.data[:self.numel], self.shard, async_op=True)

    def unshard(self):
        self.prefetch()
        self.work.wait()
        off = 0
        for p, shape, n in self.meta:
            p.data = self.buf.data[off:off + n].view(shape)
            off += n

    def reshard(self):
        self.pool.give(self.buf)
        self.buf = self.work = None


@torch.no_grad()
def forward(layers, x):
    for i, layer in enumerate(layers):
        layer.unshard()
        if i + 1 < len(layers):
            layers[i + 1].prefetch()
        x = layer.layer(x)
        layer.reshard()
    return x


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    torch.manual_seed(1)
    raw = [torch.nn.Linear(1024, 1024, device="cuda") for _ in range(8)]
    pool = GatherPool(2, 1024 * 1024 + 1024 + 64, torch.float32)
    side = torch.cuda.Stream()
    layers = [ShardedLayer(m, pool, side) for m in raw]
    side.wait_stream(torch.cuda.current_stream())
    x = torch.randn(16, 1024, device="cuda")
    for _ in range(3):
        x = forward(layers, x)
    torch.cuda.synchronize()
    dist.destroy_process_group()
