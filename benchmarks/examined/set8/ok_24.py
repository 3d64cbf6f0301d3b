import collections

import torch
import torch.distributed as dist


class FreeEventQueue:

    def __init__(self, max_inflight=2):
        self._queue = collections.deque()
        self._max_inflight = max_inflight

    def enqueue(self, event):
        self._queue.append(event)

    def dequeue_if_needed(self):
        if len(self._queue) >= self._max_inflight:
            return self._queue.popleft()
        return None

    def last(self):
        return self._queue[-1] if self._queue else None


class FlatParamHandle:

    def __init__(self, module, shard, group):
        self.module = module
        self.shard = shard
        self.group = group
        self.world_size = dist.get_world_size(group)
        self.full = None

    def unshard(self):
        self.full = torch.empty(self.shard.numel() * self.world_size, dtype=self.shard.dtype,
                                device=self.shard.device)
        dist.all_gather_into_tensor(self.full, self.shard, group=self.group)

    def use_unsharded_views(self):
        offset = 0
        for name, shape in self.module.param_shapes:
            n = shape.numel()
            self.module.set_param(name, self.full[offset:offset + n].view(shape))
            offset += n

    def reshard(self):
        self.module.clear_params()
        self.full = None


class FullyShardedRunner:

    def __init__(self, handles, device, max_inflight=2):
        self.handles = handles
        self.device = device
        self.unshard_stream = torch.cuda.Stream(device)
        self.free_event_queue = FreeEventQueue(max_inflight)

    def _unshard(self, handle):
        event = self.free_event_queue.dequeue_if_needed()
        if event is not None:
            event.synchronize()
        last = self.free_event_queue.last()
        with torch.cuda.stream(self.unshard_stream):
            if last is not None:
                self.unshard_stream.wait_event(last)
            handle.unshard()

    def _reshard(self, handle):
        free_event = torch.cuda.Event()
        free_event.record(torch.cuda.current_stream(self.device))
        self.free_event_queue.enqueue(free_event)
        handle.reshard()

    @torch.no_grad()
    def forward(self, x):
        compute = torch.cuda.current_stream(self.device)
        self.unshard_stream.wait_stream(compute)
        for handle in self.handles:
            self._unshard(handle)
            compute.wait_stream(self.unshard_stream)
            handle.use_unsharded_views()
            x = handle.module(x)
            self._reshard(handle)
        return x
