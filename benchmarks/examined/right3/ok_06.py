"""Gradient reduce-scatter on its own stream, one bucket behind the backward."""
from typing import NamedTuple, Optional

import torch
import torch.distributed as dist
from torch import nn


class ReduceScatterState(NamedTuple):
    reduce_scatter_input: torch.Tensor
    event: torch.cuda.Event


class ShardReducer:
    def __init__(self, group):
        self.group = group
        self.world = dist.get_world_size(group)
        self.rank = dist.get_rank(group)
        self.stream = torch.cuda.Stream()
        self.state: Optional[ReduceScatterState] = None
        self.shards: dict[nn.Module, torch.Tensor] = {}

    def post_backward(self, module: nn.Module) -> None:
        compute = torch.cuda.current_stream()
        if self.state is not None:
            compute.wait_event(self.state.event)
            self.state = None
        flat = torch.cat([p.grad.reshape(-1) for p in module.parameters()])
        pad = -flat.numel() % self.world
        flat = torch.nn.functional.pad(flat, (0, pad))
        for p in module.parameters():
            p.grad = None
        self.stream.wait_stream(compute)
        with torch.cuda.stream(self.stream):
            out = torch.empty(flat.numel() // self.world, device=flat.device, dtype=flat.dtype)
            dist.reduce_scatter_tensor(out, flat, group=self.group)
            out.div_(self.world)
            event = self.stream.record_event()
        self.shards[module] = out
        self.state = ReduceScatterState(flat, event)

    def finalize(self) -> dict[nn.Module, torch.Tensor]:
        torch.cuda.current_stream().wait_stream(self.stream)
        self.state = None
        return self.shards


def apply_shards(reducer: ShardReducer, lr: float) -> None:
    for module, grad in reducer.finalize().items():
        flat = torch.cat([p.detach().reshape(-1) for p in module.parameters()])
        flat = torch.nn.functional.pad(flat, (0, grad.numel() * reducer.world - flat.numel()))
        mine = flat.chunk(reducer.world)[reducer.rank].clone().sub_(grad, alpha=lr)
        dist.all_gather_into_tensor(flat, mine, group=reducer.group)
        offset = 0
        with torch.no_grad():
            for p in module.parameters():
                p.copy_(flat[offset:offset + p.numel()].view_as(p))
                offset += p.numel()
    reducer.shards.clear()


def train():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    layers = [nn.Linear(512, 512).cuda() for _ in range(6)]
    reducer = ShardReducer(dist.group.WORLD)
    for _ in range(20):
        x = torch.randn(16, 512, device="cuda")
        acts = [x]
        for layer in layers:
            inp = acts[-1].detach().requires_grad_()
            acts[-1] = inp
            acts.append(torch.relu(layer(inp)))
        grad = torch.ones_like(acts[-1]) / acts[-1].numel()
        for i in reversed(range(len(layers))):
            acts[i + 1].backward(grad) if i == len(layers) - 1 else torch.relu(layers[i](acts[i])).backward(grad)
            grad = acts[i].grad
            reducer.post_backward(layers[i])
        apply_shards(reducer, lr=1e-2)
    dist.destroy_process_group()


if __name__ == "__main__":
    train()
