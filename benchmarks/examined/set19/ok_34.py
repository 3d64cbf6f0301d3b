"""Sharded gradients reduced during backward, clipped by their global norm after it."""
import os

import torch
import torch.distributed as dist
from torch import nn


class ShardedParameter:
    """A replicated parameter whose gradient is kept only for the local shard."""

    def __init__(self, param, world):
        self.param = param
        padded = (param.numel() + world - 1) // world * world
        self.padded = padded
        self.shard_grad = torch.zeros(padded // world, device=param.device)


class ShardedGradients:
    def __init__(self, module, group=None):
        self.group = group
        self.world = dist.get_world_size(group)
        self.post_backward_stream = torch.cuda.Stream()
        self.handles = {}
        for p in module.parameters():
            self.handles[p] = ShardedParameter(p, self.world)
            p.register_post_accumulate_grad_hook(self._post_backward)

    def _post_backward(self, param):
        handle = self.handles[param]
        current = torch.cuda.current_stream()
        flat = torch.zeros(handle.padded, device=param.device)
        flat[:param.numel()].copy_(param.grad.reshape(-1))
        self.post_backward_stream.wait_stream(current)
        with torch.cuda.stream(self.post_backward_stream):
            dist.reduce_scatter_tensor(handle.shard_grad, flat, group=self.group)
            handle.shard_grad.div_(self.world)
        flat.record_stream(self.post_backward_stream)
        param.grad = None

    def wait_for_post_backward(self):
        torch.cuda.current_stream().wait_stream(self.post_backward_stream)

    def clip_grad_norm_(self, max_norm):
        grads = [h.shard_grad for h in self.handles.values()]
        local = torch.linalg.vector_norm(
            torch.stack([torch.linalg.vector_norm(g) for g in grads]))
        total = local.pow(2)
        dist.all_reduce(total, group=self.group)
        total = total.sqrt()
        coef = (max_norm / (total + 1e-6)).clamp(max=1.0)
        torch._foreach_mul_(grads, coef)
        return total

    @torch.no_grad()
    def apply(self, lr):
        for param, handle in self.handles.items():
            full = torch.empty(handle.padded, device=param.device)
            dist.all_gather_into_tensor(full, handle.shard_grad, group=self.group)
            param.sub_(full[:param.numel()].view_as(param), alpha=lr)


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)).cuda()
    grads = ShardedGradients(model)
    torch.manual_seed(dist.get_rank())
    for step in range(30):
        x = torch.randn(512, 1024, device="cuda")
        model(x).sub(x).square().mean().backward()
        grads.wait_for_post_backward()
        norm = grads.clip_grad_norm_(1.0)
        grads.apply(0.1)
        if step % 10 == 0 and dist.get_rank() == 0:
            print(step, norm.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
