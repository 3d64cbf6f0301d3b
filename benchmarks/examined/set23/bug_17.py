"""Bucketed gradient averaging on a dedicated reduce stream with two process groups."""
import torch
import torch.distributed as dist
from torch import nn


class FlatBucket:
    def __init__(self, params, group):
        self.params = list(params)
        self.group = group
        self.flat = torch.zeros(sum(p.numel() for p in self.params), device="cuda")
        self.reduced = torch.cuda.Event()
        self.pending = len(self.params)
        self.work = None
        offset = 0
        for p in self.params:
            p.grad = self.flat[offset:offset + p.numel()].view_as(p)
            offset += p.numel()


class StreamReducer:
    """Launches each bucket's all-reduce under ``reduce_stream``."""

    def __init__(self, dense_params, expert_params, dense_group, expert_group, cap=1 << 22):
        self.reduce_stream = torch.cuda.Stream(priority=-1)
        self.buckets = []
        for params, group in ((dense_params, dense_group), (expert_params, expert_group)):
            self._fill(list(params), group, cap)
        self.bucket_of = {p: b for b in self.buckets for p in b.params}
        for p in self.bucket_of:
            p.register_post_accumulate_grad_hook(self._on_grad)

    def _fill(self, params, group, cap):
        chunk, size = [], 0
        for p in reversed(params):
            chunk.append(p)
            size += p.numel()
            if size >= cap:
                self.buckets.append(FlatBucket(chunk, group))
                chunk, size = [], 0
        if chunk:
            self.buckets.append(FlatBucket(chunk, group))

    def _on_grad(self, param):
        bucket = self.bucket_of[param]
        bucket.pending -= 1
        if bucket.pending == 0:
            self._reduce(bucket)

    def _reduce(self, bucket):
        self.reduce_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.reduce_stream):
            bucket.flat.div_(dist.get_world_size(bucket.group))
            bucket.work = dist.all_reduce(bucket.flat, group=bucket.group, async_op=True)
            bucket.reduced.record(self.reduce_stream)

    def finish(self):
        for bucket in self.buckets:
            torch.cuda.current_stream().wait_event(bucket.reduced)
            bucket.pending = len(bucket.params)

    def zero_grad(self):
        for bucket in self.buckets:
            bucket.flat.zero_()


class ResidualMoE(nn.Module):
    def __init__(self, dim, depth, experts):
        super().__init__()
        self.dense = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))
        self.experts = nn.ModuleList(nn.Linear(dim, dim) for _ in range(experts))

    def forward(self, x):
        for i, layer in enumerate(self.dense):
            x = x + torch.tanh(layer(x))
            x = x + torch.relu(self.experts[i % len(self.experts)](x))
        return x


def train(dim=2048, depth=8, experts=4, steps=50, lr=1e-3):
    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.cuda.set_device(rank % torch.cuda.device_count())
    dense_group = dist.new_group(list(range(world)))
    halves = [list(range(0, world, 2)), list(range(1, world, 2))]
    expert_groups = [dist.new_group(h) for h in halves if h]
    expert_group = expert_groups[rank % 2]
    model = ResidualMoE(dim, depth, experts).cuda()
    reducer = StreamReducer(
        model.dense.parameters(), model.experts.parameters(), dense_group, expert_group
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    for step in range(steps):
        x = torch.randn(1024, dim, device="cuda")
        loss = (model(x) - x).square().mean()
        loss.backward()
        reducer.finish()
        optimizer.step()
        reducer.zero_grad()
        if step % 10 == 0 and rank == 0:
            print(step, loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    train()
