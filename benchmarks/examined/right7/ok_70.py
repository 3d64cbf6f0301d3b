"""Gradient clipping whose norm reduction hides behind weight decay."""
import torch
import torch.distributed as dist
from torch import nn


class ShardedClip:
    def __init__(self, params, max_norm: float):
        self.params = list(params)
        self.max_norm = max_norm
        self.sq = torch.zeros((), device="cuda")
        self.work = None

    def begin(self):
        norms = torch._foreach_norm([p.grad for p in self.params])
        torch.sum(torch.stack(norms).square(), dim=0, out=self.sq)
        self.work = dist.all_reduce(self.sq, async_op=True)

    def finish(self):
        self.work.wait()
        scale = (self.max_norm / (self.sq.sqrt() + 1e-6)).clamp(max=1.0)
        torch._foreach_mul_([p.grad for p in self.params], scale)
        self.work = None


class DecayedSGD(torch.optim.Optimizer):
    def __init__(self, params, lr, decay, clip):
        super().__init__(params, dict(lr=lr, decay=decay))
        self.clip = clip

    @torch.no_grad()
    def step(self):
        self.clip.begin()
        for g in self.param_groups:
            torch._foreach_mul_(g["params"], 1 - g["lr"] * g["decay"])
        self.clip.finish()
        for g in self.param_groups:
            torch._foreach_add_(g["params"], [p.grad for p in g["params"]], alpha=-g["lr"])


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512)).cuda()
    opt = DecayedSGD(model.parameters(), 0.1, 0.01, ShardedClip(model.parameters(), 1.0))
    for _ in range(10):
        model(torch.randn(16, 512, device="cuda")).square().mean().backward()
        opt.step()
        opt.zero_grad()
    print(next(model.parameters()).norm().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
