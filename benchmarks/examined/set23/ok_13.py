"""CPU-staged AdamW: master weights and moments live in pinned memory."""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class ManagedParam:
    param: torch.nn.Parameter
    master: torch.Tensor
    exp_avg: torch.Tensor
    exp_avg_sq: torch.Tensor
    written: torch.cuda.Event


class CudaSlot:
    def __init__(self, numel):
        self.master = torch.empty(numel, device="cuda")
        self.exp_avg = torch.empty(numel, device="cuda")
        self.exp_avg_sq = torch.empty(numel, device="cuda")
        self.loaded = torch.cuda.Event()
        self.computed = torch.cuda.Event()
        self.drained = torch.cuda.Event()


class CPUStagedAdamW:
    def __init__(self, params, lr=1e-4, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, num_slots=3):
        self.lr, self.betas, self.eps, self.weight_decay = lr, betas, eps, weight_decay
        self.managed = []
        for p in params:
            master = torch.empty(p.numel(), pin_memory=True)
            master.copy_(p.detach().float().reshape(-1))
            zeros = [torch.zeros(p.numel(), pin_memory=True) for _ in range(2)]
            self.managed.append(ManagedParam(p, master, *zeros, torch.cuda.Event()))
        largest = max(m.master.numel() for m in self.managed)
        self.slots = [CudaSlot(largest) for _ in range(num_slots)]
        self.h2d = torch.cuda.Stream()
        self.d2h = torch.cuda.Stream()
        self.step_count = 0

    def _load(self, item, slot):
        n = item.master.numel()
        with torch.cuda.stream(self.h2d):
            self.h2d.wait_event(slot.drained)
            self.h2d.wait_event(item.written)
            slot.master[:n].copy_(item.master, non_blocking=True)
            slot.exp_avg[:n].copy_(item.exp_avg, non_blocking=True)
            slot.exp_avg_sq[:n].copy_(item.exp_avg_sq, non_blocking=True)
            slot.loaded.record()

    def _update(self, item, slot):
        n = item.master.numel()
        torch.cuda.current_stream().wait_event(slot.loaded)
        grad = item.param.grad.reshape(-1).float()
        master, m, v = slot.master[:n], slot.exp_avg[:n], slot.exp_avg_sq[:n]
        b1, b2 = self.betas
        master.mul_(1 - self.lr * self.weight_decay)
        m.lerp_(grad, 1 - b1)
        v.mul_(b2).addcmul_(grad, grad, value=1 - b2)
        denom = (v / (1 - b2 ** self.step_count)).sqrt_().add_(self.eps)
        master.addcdiv_(m, denom, value=-self.lr / (1 - b1 ** self.step_count))
        item.param.copy_(master.view_as(item.param))
        slot.computed.record()

    def _store(self, item, slot):
        n = item.master.numel()
        with torch.cuda.stream(self.d2h):
            self.d2h.wait_event(slot.computed)
            item.master.copy_(slot.master[:n], non_blocking=True)
            item.exp_avg.copy_(slot.exp_avg[:n], non_blocking=True)
            item.exp_avg_sq.copy_(slot.exp_avg_sq[:n], non_blocking=True)
            slot.drained.record()
            item.written.record()

    @torch.no_grad()
    def step(self):
        self.step_count += 1
        depth = len(self.slots)
        for i in range(min(depth - 1, len(self.managed))):
            self._load(self.managed[i], self.slots[i % depth])
        for i, item in enumerate(self.managed):
            ahead = i + depth - 1
            if ahead < len(self.managed):
                self._load(self.managed[ahead], self.slots[ahead % depth])
            slot = self.slots[i % depth]
            self._update(item, slot)
            self._store(item, slot)

    def zero_grad(self):
        for item in self.managed:
            item.param.grad = None

    def state_dict(self):
        self.d2h.synchronize()
        return {
            "step": self.step_count,
            "state": [(m.master.clone(), m.exp_avg.clone(), m.exp_avg_sq.clone()) for m in self.managed],
        }


def main(width=2048, depth=12, steps=20):
    model = nn.Sequential(*[nn.Linear(width, width, bias=False) for _ in range(depth)]).cuda().bfloat16()
    optimizer = CPUStagedAdamW(list(model.parameters()))
    for step in range(steps):
        x = torch.randn(64, width, device="cuda", dtype=torch.bfloat16)
        loss = (model(x) - x).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 10 == 9:
            state = optimizer.state_dict()
            print(step, loss.item(), state["state"][0][0].abs().mean().item())


if __name__ == "__main__":
    main()
