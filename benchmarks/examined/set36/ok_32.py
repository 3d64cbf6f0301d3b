"""Gradient compression from autograd hooks, reduced on a communication stream."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


class CompressedReducer:
    """bf16 all-reduce of every gradient as soon as it has been accumulated."""

    def __init__(self, model: nn.Module):
        self.world = dist.get_world_size()
        self.stream = torch.cuda.Stream()
        self.params = [p for p in model.parameters() if p.requires_grad]
        self.packed = {}
        self.hooks = [p.register_post_accumulate_grad_hook(self._on_grad) for p in self.params]
        torch.cuda.synchronize()

    @torch.no_grad()
    def _on_grad(self, p):
        packed = p.grad.to(torch.bfloat16).div_(self.world)
        self.stream.wait_event(torch.cuda.current_stream().record_event())
        packed.record_stream(self.stream)
        with torch.cuda.stream(self.stream):
            dist.all_reduce(packed)
        self.packed[p] = packed

    @torch.no_grad()
    def finish(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        for p, packed in self.packed.items():
            p.grad.copy_(packed)
        self.packed.clear()

    def close(self):
        for h in self.hooks:
            h.remove()


class Net(nn.Module):
    def __init__(self, dim=2048, depth=6):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        for layer in self.layers:
            x = x + F.gelu(layer(self.norm(x)))
        return x


class Trainer:
    def __init__(self):
        torch.manual_seed(0)
        self.net = Net().cuda()
        self.reducer = CompressedReducer(self.net)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=1e-4)
        self.clip = 1.0

    def step(self, x, y):
        loss = F.mse_loss(self.net(x), y)
        loss.backward()
        self.reducer.finish()
        nn.utils.clip_grad_norm_(self.net.parameters(), self.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    trainer = Trainer()
    total = torch.zeros((), device="cuda")
    for _ in range(100):
        x = torch.randn(1024, 2048, device="cuda")
        total += trainer.step(x, torch.roll(x, 1, dims=1))
    print(float(total))
    trainer.reducer.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
