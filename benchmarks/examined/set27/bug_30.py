"""Sharded data parallel wrapper whose parameter shards and optimizer live on the CPU."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class ShardState:
    def __init__(self, param, rank, world):
        flat = param.detach().reshape(-1)
        self.pad = (-flat.numel()) % world
        padded = nn.functional.pad(flat, (0, self.pad))
        self.size = padded.numel() // world
        shard = padded[rank * self.size:(rank + 1) * self.size].float()
        self.cpu = nn.Parameter(shard.cpu().pin_memory())
        self.cpu_grad = torch.zeros(self.size, dtype=torch.float32).pin_memory()
        self.cpu.grad = self.cpu_grad


class FullyShardedOffload(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.streams = {"post_backward": torch.cuda.Stream()}
        self.shards = {p: ShardState(p, self.rank, self.world) for p in module.parameters()}
        for p in module.parameters():
            p.register_post_accumulate_grad_hook(self._post_backward_hook)

    def cpu_parameters(self):
        return [s.cpu for s in self.shards.values()]

    def forward(self, *args):
        return self.module(*args)

    @torch.no_grad()
    def _post_backward_hook(self, param):
        state = self.shards[param]
        stream = self.streams["post_backward"]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            grad = nn.functional.pad(param.grad.reshape(-1).float(), (0, state.pad))
            grad.div_(self.world)
            shard = torch.empty(state.size, dtype=torch.float32, device=grad.device)
            dist.reduce_scatter_tensor(shard, grad)
            state.cpu_grad.copy_(shard, non_blocking=True)
        param.grad.record_stream(stream)
        param.grad = None

    def _wait_for_post_backward(self):
        torch.cuda.current_stream().wait_stream(self.streams["post_backward"])

    def backward(self, loss):
        loss.backward()
        self._wait_for_post_backward()

    @torch.no_grad()
    def rebuild_full_params(self):
        for param, state in self.shards.items():
            local = state.cpu.detach().cuda()
            full = torch.empty(state.size * self.world, dtype=torch.float32, device="cuda")
            dist.all_gather_into_tensor(full, local)
            param.copy_(full[:param.numel()].view_as(param))


def clip_cpu_grads(params, max_norm):
    total = torch.linalg.vector_norm(torch.stack([p.grad.norm() for p in params]))
    squared = total.square().cuda()
    dist.all_reduce(squared)
    coef = (max_norm / (squared.sqrt().item() + 1e-6))
    if coef < 1.0:
        for p in params:
            p.grad.mul_(coef)


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.manual_seed(0)
    net = nn.Sequential(*[m for _ in range(12) for m in (nn.Linear(4096, 4096), nn.GELU())]).cuda()
    model = FullyShardedOffload(net)
    optimizer = torch.optim.AdamW(model.cpu_parameters(), lr=1e-4)
    for step in range(100):
        x = torch.randn(64, 4096, device="cuda")
        loss = model(x).square().mean()
        model.backward(loss)
        if step % 10 == 0:
            clip_cpu_grads(model.cpu_parameters(), 1.0)
        optimizer.step()
        model.rebuild_full_params()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
