from collections import deque

import torch
import torch.distributed as dist


class FreeEventQueue:
    """Stashes unsharded buffers until the unshard stream waits for their last use."""

    def __init__(self, stream, max_inflight=2):
        self.stream = stream
        self.max_inflight = max_inflight
        self.queue = deque()

    def enqueue(self, event, buffer):
        self.queue.append((event, buffer))

    def make_room(self):
        while len(self.queue) >= self.max_inflight:
            event, buffer = self.queue.popleft()
            self.stream.wait_event(event)
            del buffer

    def drain(self):
        while self.queue:
            event, buffer = self.queue.popleft()
            self.stream.wait_event(event)
            del buffer


class FlatHandle:
    def __init__(self, module, group):
        self.module = module
        self.group = group
        world, rank = dist.get_world_size(group), dist.get_rank(group)
        self.params = list(module.parameters())
        flat = torch.cat([p.detach().reshape(-1) for p in self.params])
        pad = -flat.numel() % world
        flat = torch.nn.functional.pad(flat, (0, pad))
        self.shard = flat.chunk(world)[rank].clone()
        self.total = flat.numel()
        self.full = None
        for p in self.params:
            p.data = torch.empty(0, dtype=p.dtype, device=p.device)
        self.shapes = None

    def set_shapes(self, shapes):
        self.shapes = shapes

    def unshard(self):
        self.full = torch.empty(self.total, dtype=self.shard.dtype, device=self.shard.device)
        dist.all_gather_into_tensor(self.full, self.shard, group=self.group)

    def use(self):
        offset = 0
        for p, shape in zip(self.params, self.shapes):
            p.data = self.full[offset : offset + shape.numel()].view(shape)
            offset += shape.numel()

    def reshard(self):
        full, self.full = self.full, None
        for p in self.params:
            p.data = torch.empty(0, dtype=full.dtype, device=full.device)
        return full


class ShardedSequential:
    def __init__(self, modules, group=None, prefetch=1):
        shapes = [[p.shape for p in m.parameters()] for m in modules]
        self.handles = [FlatHandle(m, group) for m in modules]
        for handle, s in zip(self.handles, shapes):
            handle.set_shapes(s)
        self.unshard_stream = torch.cuda.Stream(priority=-1)
        self.free_events = FreeEventQueue(self.unshard_stream)
        self.ready = [torch.cuda.Event() for _ in modules]
        self.prefetch = prefetch
        self.unshard_stream.wait_stream(torch.cuda.current_stream())

    def _unshard(self, i):
        handle = self.handles[i]
        if handle.full is not None:
            return
        self.free_events.make_room()
        with torch.cuda.stream(self.unshard_stream):
            handle.unshard()
            self.ready[i].record()

    @torch.no_grad()
    def forward(self, x):
        compute = torch.cuda.current_stream()
        for i, handle in enumerate(self.handles):
            for j in range(i, min(i + 1 + self.prefetch, len(self.handles))):
                self._unshard(j)
            compute.wait_event(self.ready[i])
            handle.use()
            x = handle.module(x)
            self.free_events.enqueue(compute.record_event(), handle.reshard())
        self.free_events.drain()
        return x
