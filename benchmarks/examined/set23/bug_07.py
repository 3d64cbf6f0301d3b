"""ZeRO-2 style gradient buckets with overlapped reduce-scatter."""
import torch
import torch.distributed as dist
from torch import nn


class GradBucket:
    def __init__(self, params, group):
        self.params = list(params)
        self.group = group
        self.world = dist.get_world_size(group)
        numel = sum(p.numel() for p in self.params)
        padded = (numel + self.world - 1) // self.world * self.world
        self.full_grad = torch.zeros(padded, device="cuda")
        self.shard = torch.zeros(padded // self.world, device="cuda")
        self.views = {}
        offset = 0
        for p in self.params:
            self.views[p] = self.full_grad[offset:offset + p.numel()].view_as(p)
            offset += p.numel()
        self.ready = set()
        self.dispatched = False
        self.work = None

    def accumulate(self, param):
        self.views[param].add_(param.grad)
        param.grad = None
        self.ready.add(param)
        if len(self.ready) == len(self.params):
            self.ready.clear()
            self.start_grad_sync()

    def start_grad_sync(self):
        if self.dispatched:
            return
        self.dispatched = True
        self.work = dist.reduce_scatter_tensor(
            self.shard, self.full_grad, op=dist.ReduceOp.AVG, group=self.group, async_op=True
        )

    def finish_grad_sync(self):
        if self.work is not None:
            self.work.wait()
        self.work = None
        self.dispatched = False
        return self.shard

    def reset(self):
        self.full_grad.zero_()


class DistributedOptimizer:
    def __init__(self, model, group, bucket_layers=2, lr=1e-3):
        self.group = group
        self.lr = lr
        self.buckets = []
        layers = list(model.children())
        for start in range(0, len(layers), bucket_layers):
            params = [p for layer in layers[start:start + bucket_layers] for p in layer.parameters()]
            bucket = GradBucket(params, group)
            for p in params:
                p.register_post_accumulate_grad_hook(bucket.accumulate)
            self.buckets.append(bucket)

    @torch.no_grad()
    def step(self):
        for bucket in self.buckets:
            shard = bucket.finish_grad_sync()
            full = torch.empty_like(bucket.full_grad)
            dist.all_gather_into_tensor(full, shard, group=self.group)
            offset = 0
            for p in bucket.params:
                p.sub_(full[offset:offset + p.numel()].view_as(p), alpha=self.lr)
                offset += p.numel()
            bucket.reset()


def build_model(width=4096, depth=12):
    layers = []
    for _ in range(depth):
        layers.append(nn.Linear(width, width))
    return nn.Sequential(*layers).cuda()


def train(steps=20, micro_batches=4, batch=32, width=4096):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    model = build_model(width)
    optimizer = DistributedOptimizer(model, dist.group.WORLD)
    for step in range(steps):
        total = torch.zeros((), device="cuda")
        for _ in range(micro_batches):
            x = torch.randn(batch, width, device="cuda")
            loss = (model(x) - x).square().mean() / micro_batches
            loss.backward()
            total += loss.detach()
        optimizer.step()
        if dist.get_rank() == 0:
            print(step, total.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    train()
