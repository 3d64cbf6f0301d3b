import collections
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F


class FreeEventQueue:
    def __init__(self, limit=2):
        self._queue = collections.deque()
        self._limit = limit

    def enqueue(self, event):
        self._queue.append(event)

    def dequeue_if_needed(self):
        if len(self._queue) >= self._limit:
            return self._queue.popleft()
        return None


class ShardedLinear:
    """A linear layer whose weight lives as one shard per rank."""

    def __init__(self, dim_in, dim_out, comm_stream, queue, group):
        self.shape = (dim_out, dim_in)
        self.group = group
        self.world = dist.get_world_size(group)
        self.comm_stream = comm_stream
        self.queue = queue
        self.shard = torch.zeros(dim_in * dim_out // self.world, device="cuda")
        self.full = None

    def load_shard(self, scale):
        self.shard.normal_(0.0, scale)

    def unshard(self):
        if self.full is not None:
            return
        event = self.queue.dequeue_if_needed()
        if event is not None:
            event.synchronize()
        with torch.cuda.stream(self.comm_stream):
            full = torch.empty(self.shard.numel() * self.world, device="cuda")
            dist.all_gather_into_tensor(full, self.shard, group=self.group)
        self.full = full

    def wait(self):
        torch.cuda.current_stream().wait_stream(self.comm_stream)

    def reshard(self):
        current = torch.cuda.current_stream()
        self.full.record_stream(current)
        self.full = None
        event = torch.cuda.Event()
        event.record(current)
        self.queue.enqueue(event)

    def __call__(self, x):
        return F.linear(x, self.full.view(self.shape))


class ShardedStack:
    def __init__(self, depth, dim, group=None):
        self.comm_stream = torch.cuda.Stream(priority=-1)
        queue = FreeEventQueue()
        self.layers = [ShardedLinear(dim, dim, self.comm_stream, queue, group) for _ in range(depth)]

    def refresh(self, scale):
        for layer in self.layers:
            layer.load_shard(scale)

    @torch.no_grad()
    def forward(self, x):
        self.comm_stream.wait_stream(torch.cuda.current_stream())
        self.layers[0].unshard()
        for i, layer in enumerate(self.layers):
            layer.wait()
            if i + 1 < len(self.layers):
                self.layers[i + 1].unshard()
            x = F.gelu(layer(x))
            layer.reshard()
        return x


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    stack = ShardedStack(depth=24, dim=4096)
    x = torch.randn(32, 4096, device="cuda")
    for step in range(10):
        stack.refresh(1.0 / (step + 64))
        y = stack.forward(x)
        if dist.get_rank() == 0:
            print(step, y.abs().mean().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
