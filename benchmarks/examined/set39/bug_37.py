"""Data-parallel training with the optimizer fused into backward hooks."""
import os

import torch
import torch.distributed as dist
from torch import nn


class HookedSGD:
    """Reduces each gradient when it is ready and applies it at once."""

    def __init__(self, module, lr=0.05, momentum=0.9):
        self.lr = lr
        self.momentum = momentum
        self.world = dist.get_world_size()
        self.comm = torch.cuda.Stream()
        self.velocity = {}
        self.handles = []
        for p in module.parameters():
            if p.requires_grad:
                self.velocity[p] = torch.zeros_like(p)
                self.handles.append(p.register_post_accumulate_grad_hook(self._on_grad))

    @torch.no_grad()
    def _reduce(self, grad):
        self.comm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.comm):
            dist.all_reduce(grad)
            grad.div_(self.world)
        grad.record_stream(self.comm)

    @torch.no_grad()
    def _apply(self, p):
        v = self.velocity[p]
        v.mul_(self.momentum).add_(p.grad)
        p.add_(v, alpha=-self.lr)

    def _on_grad(self, p):
        self._reduce(p.grad)
        self._apply(p)
        p.grad = None

    def close(self):
        for h in self.handles:
            h.remove()


class Net(nn.Module):
    def __init__(self, width=2048, depth=6):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.relu(layer(x))
        return x


def main(steps=30, batch=512, width=2048):
    rank = int(os.environ.get("RANK", 0))
    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group("nccl")
    torch.manual_seed(0)
    net = Net(width).cuda()
    opt = HookedSGD(net)
    torch.cuda.synchronize()

    torch.manual_seed(1 + rank)
    for step in range(steps):
        x = torch.randn(batch, width, device="cuda")
        loss = (net(x) - 2 * x).square().mean()
        loss.backward()
        if step % 10 == 0 and rank == 0:
            print(step, loss.item())
    opt.close()
    torch.cuda.synchronize()

    norm = torch.stack([p.detach().norm() for p in net.parameters()]).norm()
    gathered = [torch.zeros_like(norm) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, norm)
    if rank == 0:
        print("norms", [round(g.item(), 4) for g in gathered])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
