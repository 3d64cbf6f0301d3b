"""Sharded data parallel with the optimizer run on the CPU as gradients become ready."""
from __future__ import annotations

from functools import partial

import torch
import torch.distributed as dist
from torch import nn


class FlatHandle:
    """One module's flattened, padded parameters and this rank's CPU shard of them."""

    def __init__(self, module: nn.Module, rank: int, world_size: int) -> None:
        self.module = module
        self.params = [p for p in module.parameters() if p.requires_grad]
        numel = sum(p.numel() for p in self.params)
        self.padded = numel + (-numel) % world_size
        self.shard_numel = self.padded // world_size
        flat = torch.cat([p.detach().flatten() for p in self.params])
        flat = torch.cat([flat, flat.new_zeros(self.padded - numel)])
        shard = flat.chunk(world_size)[rank].cpu()
        self.cpu_param = nn.Parameter(shard.pin_memory())
        self.cpu_grad = torch.zeros(self.shard_numel, pin_memory=True)
        self.ready = 0

    def flat_grad(self) -> torch.Tensor:
        grad = torch.cat([p.grad.flatten() for p in self.params])
        return torch.cat([grad, grad.new_zeros(self.padded - grad.numel())])

    @torch.no_grad()
    def write_back(self, full: torch.Tensor) -> None:
        offset = 0
        for p in self.params:
            p.copy_(full[offset : offset + p.numel()].view_as(p))
            offset += p.numel()


class OptimizerOverlap:
    def __init__(self, model: nn.Sequential, lr: float) -> None:
        rank, world_size = dist.get_rank(), dist.get_world_size()
        self.post_backward_stream = torch.cuda.Stream()
        self.handles = [FlatHandle(m, rank, world_size) for m in model]
        self.optimizers = {
            id(h): torch.optim.AdamW([h.cpu_param], lr=lr) for h in self.handles
        }
        for handle in self.handles:
            for p in handle.params:
                p.register_post_accumulate_grad_hook(partial(self._grad_ready, handle))

    def _grad_ready(self, handle: FlatHandle, _param: nn.Parameter) -> None:
        handle.ready += 1
        if handle.ready == len(handle.params):
            handle.ready = 0
            self._post_backward(handle)

    @torch.no_grad()
    def _post_backward(self, handle: FlatHandle) -> None:
        self.post_backward_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.post_backward_stream):
            flat = handle.flat_grad()
            shard = torch.empty(handle.shard_numel, device=flat.device)
            dist.reduce_scatter_tensor(shard, flat, op=dist.ReduceOp.AVG)
            handle.cpu_grad.copy_(shard, non_blocking=True)
            handle.cpu_param.grad = handle.cpu_grad
            self._step(handle)
        for p in handle.params:
            p.grad.record_stream(self.post_backward_stream)
            p.grad = None

    def _step(self, handle: FlatHandle) -> None:
        self.optimizers[id(handle)].step()

    @torch.no_grad()
    def refresh(self) -> None:
        torch.cuda.current_stream().wait_stream(self.post_backward_stream)
        for handle in self.handles:
            shard = handle.cpu_param.detach().to("cuda")
            full = torch.empty(handle.padded, device="cuda")
            dist.all_gather_into_tensor(full, shard)
            handle.write_back(full)


def main() -> None:
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(8)]).cuda()
    overlap = OptimizerOverlap(model, lr=1e-4)
    for _ in range(20):
        loss = model(torch.randn(256, 2048, device="cuda")).square().mean()
        loss.backward()
        overlap.refresh()
    print(loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
