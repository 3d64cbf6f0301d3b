"""Layer-wise unshard with one layer of prefetch and a bounded number of live buffers."""
from collections import deque

import torch
import torch.distributed as dist
from torch import nn


class ParamGroup:
    def __init__(self, module, group):
        self.module = module
        self.group = group
        self.world = dist.get_world_size(group)
        self.rank = dist.get_rank(group)
        self.shapes = [(n, p.shape, p.numel()) for n, p in module.named_parameters()]
        flat = torch.cat([p.detach().reshape(-1) for p in module.parameters()])
        pad = -flat.numel() % self.world
        flat = torch.nn.functional.pad(flat, (0, pad))
        self.numel = flat.numel()
        self.shard = flat.chunk(self.world)[self.rank].clone()
        self.params = dict(module.named_parameters())
        for p in self.params.values():
            p.data = torch.empty(0, device="cuda")
        self.full = None
        self.gathered = torch.cuda.Event()

    def unshard(self, stream):
        if self.full is not None:
            return
        with torch.cuda.stream(stream):
            self.full = torch.empty(self.numel, device="cuda", dtype=self.shard.dtype)
            dist.all_gather_into_tensor(self.full, self.shard, group=self.group)
            self.gathered.record()

    def wait_for_unshard(self):
        torch.cuda.current_stream().wait_event(self.gathered)
        offset = 0
        for name, shape, numel in self.shapes:
            self.params[name].data = self.full[offset:offset + numel].view(shape)
            offset += numel

    def reshard(self):
        for p in self.params.values():
            p.data = torch.empty(0, device="cuda")
        full, self.full = self.full, None
        done = torch.cuda.Event()
        done.record()
        return full, done


class UnshardLimiter:
    """Keeps resharded buffers until the gather stream has waited for their last use."""

    def __init__(self, stream, limit):
        self.stream = stream
        self.limit = limit
        self.queue = deque()

    def push(self, full, done):
        self.queue.append((full, done))

    def before_gather(self):
        while len(self.queue) >= self.limit:
            _, done = self.queue[0]
            self.stream.wait_event(done)
            self.queue.popleft()

    def drain(self):
        while self.queue:
            self.stream.wait_event(self.queue[0][1])
            self.queue.popleft()


class ShardedModel:
    def __init__(self, layers, group):
        self.layers = layers
        self.groups = [ParamGroup(layer, group) for layer in layers]
        self.gather_stream = torch.cuda.Stream(priority=-1)
        self.gather_stream.wait_stream(torch.cuda.current_stream())
        self.limiter = UnshardLimiter(self.gather_stream, limit=1)

    def _prefetch(self, i):
        if i < len(self.groups):
            self.limiter.before_gather()
            self.groups[i].unshard(self.gather_stream)

    @torch.no_grad()
    def forward(self, x):
        self._prefetch(0)
        for i, layer in enumerate(self.layers):
            self._prefetch(i + 1)
            self.groups[i].wait_for_unshard()
            x = torch.relu(layer(x))
            self.limiter.push(*self.groups[i].reshard())
        self.limiter.drain()
        return x

    @torch.no_grad()
    def decay(self, factor):
        for g in self.groups:
            g.shard.mul_(factor)
        self.gather_stream.wait_stream(torch.cuda.current_stream())


def main(width=4096, depth=16, steps=10):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    layers = [nn.Linear(width, width).cuda() for _ in range(depth)]
    model = ShardedModel(layers, dist.group.WORLD)
    for _ in range(steps):
        out = model.forward(torch.randn(256, width, device="cuda"))
        model.decay(0.999)
        print(out.square().mean().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
