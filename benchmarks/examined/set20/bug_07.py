"""Experimental fully sharded data parallel: gradient accumulation on a side stream."""
import torch
import torch.distributed as dist
import torch.nn as nn


class FsdpContext:
    def __init__(self, device, group):
        self.device = device
        self.group = group
        self.world_size = dist.get_world_size(group)
        self.rank = dist.get_rank(group)
        self.reduce_scatter_stream = torch.cuda.Stream(device=device)


class FsdpParameterGroup:
    def __init__(self, params, ctx, grad_dtype=torch.float32):
        self.params = list(params)
        self.ctx = ctx
        self.grad_dtype = grad_dtype
        numel = sum(p.numel() for p in self.params)
        self.shard_numel = -(-numel // ctx.world_size)
        self.main_grad = torch.zeros(
            self.shard_numel, dtype=grad_dtype, device=ctx.device
        )
        self._packed = None
        self._missing = len(self.params)
        for p in self.params:
            p.register_post_accumulate_grad_hook(self._on_grad)

    def _on_grad(self, param):
        self._missing -= 1
        if self._missing == 0:
            self._missing = len(self.params)
            self.reduce_gradients()

    def _pack(self):
        packed = torch.zeros(
            self.shard_numel * self.ctx.world_size,
            dtype=self.grad_dtype, device=self.ctx.device,
        )
        offset = 0
        for p in self.params:
            packed[offset:offset + p.numel()].copy_(p.grad.view(-1))
            p.grad = None
            offset += p.numel()
        return packed

    def reduce_gradients(self):
        ctx = self.ctx
        current = torch.cuda.current_stream(ctx.device)
        if self._packed is not None:
            current.wait_stream(ctx.reduce_scatter_stream)
        self._packed = self._pack()
        ctx.reduce_scatter_stream.wait_stream(current)
        with torch.cuda.stream(ctx.reduce_scatter_stream):
            piece = torch.empty(
                self.shard_numel, dtype=self.grad_dtype, device=ctx.device
            )
            dist.reduce_scatter_tensor(piece, self._packed, group=ctx.group)
            self.main_grad = torch.add(self.main_grad, piece, alpha=1.0 / ctx.world_size)

    def finalize(self):
        torch.cuda.current_stream(self.ctx.device).wait_stream(
            self.ctx.reduce_scatter_stream
        )
        self._packed = None
        return self.main_grad


class FsdpModule(nn.Module):
    def __init__(self, blocks, ctx):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.ctx = ctx
        self.groups = [FsdpParameterGroup(b.parameters(), ctx) for b in blocks]

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return x

    def sharded_grads(self):
        return [g.finalize() for g in self.groups]


def train_step(model, x, target, shards, lr):
    loss = nn.functional.mse_loss(model(x), target)
    loss.backward()
    for shard, grad in zip(shards, model.sharded_grads()):
        shard.add_(grad, alpha=-lr)
    return loss.detach()


def main(hidden=4096, layers=24, steps=10):
    dist.init_process_group("nccl")
    device = torch.device("cuda", dist.get_rank())
    torch.cuda.set_device(device)
    ctx = FsdpContext(device, dist.group.WORLD)
    blocks = [
        nn.Sequential(nn.Linear(hidden, 4 * hidden), nn.GELU(), nn.Linear(4 * hidden, hidden))
        for _ in range(layers)
    ]
    model = FsdpModule(blocks, ctx).to(device)
    shards = [torch.zeros(g.shard_numel, device=device) for g in model.groups]
    for _ in range(steps):
        x = torch.randn(8, hidden, device=device)
        loss = train_step(model, x, torch.zeros_like(x), shards, lr=1e-4)
    print(loss.item())
