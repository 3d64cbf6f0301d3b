"""FSDP-like unshard with a bounded queue of free events."""
from collections import deque

import torch
import torch.distributed as dist
from torch import nn


class FreeEventQueue:
    def __init__(self, limit: int = 2):
        self._events = deque()
        self._limit = limit

    def push(self, event):
        self._events.append(event)

    def throttle(self):
        while len(self._events) >= self._limit:
            self._events.popleft().synchronize()


class FlatHandle:
    def __init__(self, module: nn.Module, comm: torch.cuda.Stream, queue: FreeEventQueue):
        self.world = dist.get_world_size()
        self.comm, self.queue = comm, queue
        params = list(module.parameters())
        flat = torch.cat([p.detach().flatten() for p in params])
        pad = -flat.numel() % self.world
        flat = nn.functional.pad(flat, (0, pad))
        self.shard = flat.chunk(self.world)[dist.get_rank()].clone()
        self.full_numel = flat.numel()
        self.meta = [(p, p.shape) for p in params]
        self.full = None
        module.register_forward_pre_hook(lambda m, a: self.unshard())
        module.register_forward_hook(lambda m, a, o: self.reshard())

    def unshard(self):
        self.queue.throttle()
        compute = torch.cuda.current_stream()
        self.comm.wait_stream(compute)
        with torch.cuda.stream(self.comm):
            full = torch.empty(self.full_numel, device="cuda", dtype=self.shard.dtype)
            dist.all_gather_into_tensor(full, self.shard)
        compute.wait_stream(self.comm)
        full.record_stream(compute)
        off = 0
        for p, shape in self.meta:
            p.data = full[off:off + shape.numel()].view(shape)
            off += shape.numel()
        self.full = full

    def reshard(self):
        self.queue.push(torch.cuda.current_stream().record_event())
        for p, _ in self.meta:
            p.data = self.shard.new_empty(0)
        self.full = None


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    blocks = [nn.Sequential(nn.Linear(1024, 1024), nn.ReLU()).cuda() for _ in range(6)]
    comm, queue = torch.cuda.Stream(), FreeEventQueue()
    handles = [FlatHandle(b, comm, queue) for b in blocks]
    x = torch.randn(8, 1024, device="cuda")
    with torch.no_grad():
        for b in blocks:
            x = b(x)
    print(len(handles), x.norm().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
