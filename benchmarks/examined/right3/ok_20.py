"""AdamW whose moments live in pinned host memory and pass through device slots."""
import math

import torch
from torch import nn


class StagingSlot:
    def __init__(self, numel: int, device: torch.device):
        self.master = torch.empty(numel, device=device)
        self.exp_avg = torch.empty(numel, device=device)
        self.exp_avg_sq = torch.empty(numel, device=device)
        self.loaded = torch.cuda.Event()
        self.updated = torch.cuda.Event()
        self.stored = torch.cuda.Event()

    def views(self, n: int):
        return self.master[:n], self.exp_avg[:n], self.exp_avg_sq[:n]


class HostStagedAdamW:
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, num_slots=3):
        self.params = [p for p in params if p.requires_grad]
        self.lr, self.betas, self.eps = lr, betas, eps
        device = self.params[0].device
        self.state = [
            tuple(t.reshape(-1).pin_memory() for t in (p.detach().float().cpu(), torch.zeros(p.numel()), torch.zeros(p.numel())))
            for p in self.params
        ]
        biggest = max(p.numel() for p in self.params)
        self.slots = [StagingSlot(biggest, device) for _ in range(num_slots)]
        self.h2d = torch.cuda.Stream(device)
        self.d2h = torch.cuda.Stream(device)
        self.h2d.wait_stream(torch.cuda.current_stream(device))
        self.t = 0

    def _load(self, slot: StagingSlot, i: int) -> None:
        with torch.cuda.stream(self.h2d):
            self.h2d.wait_event(slot.stored)
            for dev, host in zip(slot.views(self.params[i].numel()), self.state[i]):
                dev.copy_(host, non_blocking=True)
            slot.loaded.record()

    def _store(self, slot: StagingSlot, i: int) -> None:
        with torch.cuda.stream(self.d2h):
            self.d2h.wait_event(slot.updated)
            for dev, host in zip(slot.views(self.params[i].numel()), self.state[i]):
                host.copy_(dev, non_blocking=True)
            slot.stored.record()

    @torch.no_grad()
    def step(self) -> None:
        self.t += 1
        b1, b2 = self.betas
        scale = math.sqrt(1 - b2 ** self.t) / (1 - b1 ** self.t)
        compute = torch.cuda.current_stream()
        for i, p in enumerate(self.params):
            slot = self.slots[i % len(self.slots)]
            self._load(slot, i)
            compute.wait_event(slot.loaded)
            master, m, v = slot.views(p.numel())
            g = p.grad.reshape(-1).float()
            m.lerp_(g, 1 - b1)
            v.mul_(b2).addcmul_(g, g, value=1 - b2)
            master.addcdiv_(m, v.sqrt().add_(self.eps), value=-self.lr * scale)
            p.copy_(master.view_as(p))
            slot.updated.record(compute)
            self._store(slot, i)

    def state_dict(self) -> list[dict]:
        self.d2h.synchronize()
        return [
            {"master": w.clone(), "exp_avg": m.clone(), "exp_avg_sq": v.clone()} for w, m, v in self.state
        ]


def main():
    model = nn.Sequential(*[nn.Linear(512, 512) for _ in range(7)]).cuda()
    opt = HostStagedAdamW(model.parameters())
    for step in range(40):
        x = torch.randn(32, 512, device="cuda")
        (model(x) - x).square().mean().backward()
        opt.step()
        for p in model.parameters():
            p.grad = None
        if step % 10 == 9:
            print(step, opt.state_dict()[0]["exp_avg"].abs().max().item())


if __name__ == "__main__":
    main()
