"""Sharded data parallel wrapper with gradient reduction overlapped with the backward pass."""
import torch
import torch.distributed as dist
from torch import nn


class ShardedUnit(nn.Module):
    def __init__(self, module, group=None):
        super().__init__()
        self.module = module
        self.group = group
        self.world = dist.get_world_size(group)
        self.reduce_stream = torch.cuda.Stream()
        self.shards = {}
        self._in_flight = []
        for param in module.parameters():
            param.register_post_accumulate_grad_hook(self._post_backward)

    def forward(self, x):
        return self.module(x)

    def _flat(self, grad):
        pad = -grad.numel() % self.world
        flat = grad.reshape(-1)
        return nn.functional.pad(flat, (0, pad)) if pad else flat

    @torch.no_grad()
    def _post_backward(self, param):
        self.reduce_stream.wait_stream(torch.cuda.current_stream())
        grad = param.grad
        with torch.cuda.stream(self.reduce_stream):
            flat = self._flat(grad) / self.world
            out = flat.new_empty(flat.numel() // self.world)
            dist.reduce_scatter_tensor(out, flat, group=self.group)
            self.shards[param] = out
        self._in_flight.append(grad)
        grad.record_stream(self.reduce_stream)

    def finish(self):
        torch.cuda.current_stream().wait_stream(self.reduce_stream)
        self._in_flight.clear()
        shards, self.shards = self.shards, {}
        for shard in shards.values():
            shard.record_stream(torch.cuda.current_stream())
        return shards


class TwinTower(nn.Module):
    """The encoder is applied to both views; its parameters see two backward passes a step."""

    def __init__(self, width, depth):
        super().__init__()
        layers = []
        for _ in range(depth):
            layers += [nn.Linear(width, width), nn.GELU()]
        self.encoder = ShardedUnit(nn.Sequential(*layers))

    def losses(self, left, right):
        a = self.encoder(left)
        b = self.encoder(right)
        yield nn.functional.mse_loss(a, b.detach())
        yield nn.functional.mse_loss(b, a.detach())


class ShardedSGD:
    def __init__(self, model, lr, rank, world):
        self.lr, self.rank, self.world = lr, rank, world
        self.model = model

    @torch.no_grad()
    def step(self):
        for param, shard in self.model.encoder.finish().items():
            pad = -param.numel() % self.world
            flat = nn.functional.pad(param.reshape(-1), (0, pad))
            mine = flat.chunk(self.world)[self.rank] - self.lr * shard
            full = torch.empty_like(flat)
            dist.all_gather_into_tensor(full, mine.contiguous())
            param.copy_(full[:param.numel()].view_as(param))


def train(loader, steps, width=2048):
    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.cuda.set_device(rank % torch.cuda.device_count())
    model = TwinTower(width, 8).cuda()
    opt = ShardedSGD(model, 1e-3, rank, world)
    for _, (left, right) in zip(range(steps), loader):
        for loss in model.losses(left.cuda(), right.cuda()):
            loss.backward()
        opt.step()
        model.zero_grad(set_to_none=True)
    dist.destroy_process_group()
