"""Outer-loop averaging that stays one round behind."""
import torch
import torch.distributed as dist
from torch import nn


class DelayedAverager:
    def __init__(self, model: nn.Module, every: int):
        self.params = list(model.parameters())
        self.anchor = [p.detach().clone() for p in self.params]
        self.delta = [torch.empty_like(p) for p in self.anchor]
        self.every = every
        self.works = []
        self.count = 0

    @torch.no_grad()
    def _apply(self):
        for w in self.works:
            w.wait()
        world = dist.get_world_size()
        for p, a, d in zip(self.params, self.anchor, self.delta):
            correction = d / world
            a.add_(correction)
            p.add_(a - p, alpha=0.5)
        self.works = []

    @torch.no_grad()
    def step(self):
        self.count += 1
        if self.count % self.every:
            return
        if self.works:
            self._apply()
        for p, a, d in zip(self.params, self.anchor, self.delta):
            torch.sub(p, a, out=d)
            self.works.append(dist.all_reduce(d, async_op=True))

    def finish(self):
        if self.works:
            self._apply()


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    torch.manual_seed(0)
    model = nn.Linear(512, 512).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    outer = DelayedAverager(model, every=5)
    for _ in range(50):
        model(torch.randn(16, 512, device="cuda")).square().mean().backward()
        opt.step()
        opt.zero_grad()
        outer.step()
    outer.finish()
    print(model.weight.norm().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
