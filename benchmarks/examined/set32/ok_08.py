"""Sharded optimizer: reduce-scatter starts in backward, the update runs on its own stream."""
import os

import torch
import torch.distributed as dist


class Bucket:
    def __init__(self, params, world, rank, device):
        self.params = params
        numel = sum(p.numel() for p in params)
        self.padded = (numel + world - 1) // world * world
        self.width = self.padded // world
        flat = torch.zeros(self.padded, device=device)
        offset = 0
        for p in params:
            flat[offset : offset + p.numel()].copy_(p.data.view(-1))
            offset += p.numel()
        self.weights = flat
        offset = 0
        for p in params:
            p.data = flat[offset : offset + p.numel()].view_as(p)
            offset += p.numel()
        self.master = flat[rank * self.width : (rank + 1) * self.width].clone()
        self.momentum = torch.zeros_like(self.master)
        self.pending = 0

    def flatten_grads(self):
        flat = torch.zeros(self.padded, device=self.weights.device)
        offset = 0
        for p in self.params:
            flat[offset : offset + p.numel()].copy_(p.grad.view(-1))
            offset += p.numel()
            p.grad = None
        return flat


class ShardedSGD:
    def __init__(self, module, lr=0.01, beta=0.9, bucket_numel=1 << 22, group=None):
        self.group = group
        self.lr, self.beta = lr, beta
        self.world = dist.get_world_size(group)
        rank = dist.get_rank(group)
        device = next(module.parameters()).device
        self.stream = torch.cuda.Stream(device)
        self.buckets, chunk, size = [], [], 0
        for p in reversed(list(module.parameters())):
            chunk.append(p)
            size += p.numel()
            if size >= bucket_numel:
                self.buckets.append(Bucket(chunk, self.world, rank, device))
                chunk, size = [], 0
        if chunk:
            self.buckets.append(Bucket(chunk, self.world, rank, device))
        self.inflight = []
        for bucket in self.buckets:
            for p in bucket.params:
                p.register_post_accumulate_grad_hook(self._make_hook(bucket))

    def _make_hook(self, bucket):
        def hook(_param):
            bucket.pending += 1
            if bucket.pending == len(bucket.params):
                bucket.pending = 0
                flat = bucket.flatten_grads().div_(self.world)
                shard = torch.empty(bucket.width, device=flat.device)
                work = dist.reduce_scatter_tensor(shard, flat, group=self.group, async_op=True)
                self.inflight.append((bucket, flat, shard, work))

        return hook

    @torch.no_grad()
    def step(self):
        main = torch.cuda.current_stream()
        self.stream.wait_stream(main)
        with torch.cuda.stream(self.stream):
            for bucket, _flat, shard, work in self.inflight:
                work.wait()
                bucket.momentum.mul_(self.beta).add_(shard)
                bucket.master.add_(bucket.momentum, alpha=-self.lr)
                dist.all_gather_into_tensor(bucket.weights, bucket.master, group=self.group)
        main.wait_stream(self.stream)
        self.inflight.clear()


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        *[torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU()) for _ in range(16)]
    ).cuda()
    opt = ShardedSGD(model)
    for _ in range(100):
        x = torch.randn(256, 1024, device="cuda")
        (model(x) - x).square().mean().backward()
        opt.step()
    print(sum(p.norm() for p in model.parameters()).item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
