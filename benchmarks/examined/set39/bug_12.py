"""Gradient bucketing with communication overlapped on a side stream."""
import os

import torch
import torch.distributed as dist


class GradBucket:
    def __init__(self, capacity, dtype):
        self.buffers = [torch.empty(capacity, dtype=dtype, device="cuda") for _ in range(2)]
        self.index = 0
        self.elements = 0
        self.entries = []

    @property
    def capacity(self):
        return self.buffers[0].numel()

    def swap(self):
        self.index = 1 - self.index
        self.elements = 0
        self.entries = []


class OverlappedReducer:
    def __init__(self, params, bucket_size, group):
        self.group = group
        self.world = dist.get_world_size(group)
        self.params = list(params)
        self.bucket = GradBucket(bucket_size, self.params[0].dtype)
        self.reduced = {}
        self.reduction_stream = torch.cuda.Stream()
        for p in self.params:
            self.reduced[p] = torch.zeros_like(p)
            p.register_post_accumulate_grad_hook(self.add)

    def add(self, p):
        n = p.numel()
        if self.bucket.elements + n > self.bucket.capacity:
            self.flush()
        bucket = self.bucket
        view = bucket.buffers[bucket.index].narrow(0, bucket.elements, n)
        view.copy_(p.grad.view(-1))
        bucket.entries.append((p, bucket.elements, n))
        bucket.elements += n
        p.grad = None

    def flush(self):
        bucket = self.bucket
        if bucket.elements == 0:
            return
        flat = bucket.buffers[bucket.index][:bucket.elements]
        self.reduction_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.reduction_stream):
            flat.div_(self.world)
            dist.all_reduce(flat, group=self.group)
            for p, start, n in bucket.entries:
                self.reduced[p].copy_(flat[start:start + n].view_as(p))
        bucket.swap()

    @torch.no_grad()
    def step(self, lr):
        self.flush()
        torch.cuda.current_stream().wait_stream(self.reduction_stream)
        for p in self.params:
            p.add_(self.reduced[p], alpha=-lr)


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    net = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(16)]).cuda()
    reducer = OverlappedReducer(net.parameters(), 3 << 20, dist.group.WORLD)
    for it in range(10):
        x = torch.randn(256, 1024, device="cuda")
        loss = net(x).square().mean()
        loss.backward()
        reducer.step(lr=1e-2)
    print(loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
