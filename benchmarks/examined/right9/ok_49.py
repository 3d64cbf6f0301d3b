from collections import deque

import torch
from torch import nn


class OverflowWatch:
    """Checks gradients for non-finite values and reports two steps late."""

    def __init__(self, lag=2):
        self.lag = lag
        self.queue = deque()
        self.flags = torch.zeros(lag + 1, dtype=torch.bool).pin_memory()
        self.count = 0

    def watch(self, step, params):
        grads = [p.grad for p in params if p.grad is not None]
        bad = torch.stack([~torch.isfinite(g).all() for g in grads]).any()
        slot = self.count % len(self.flags)
        self.count += 1
        self.flags[slot].copy_(bad, non_blocking=True)
        event = torch.cuda.Event()
        event.record()
        self.queue.append((step, slot, event))

    def poll(self, everything=False):
        while self.queue and (everything or len(self.queue) > self.lag):
            step, slot, event = self.queue.popleft()
            event.synchronize()
            if self.flags[slot].item():
                yield step


class Scaler:
    def __init__(self, start=2.0**16):
        self.scale = start

    def back_off(self, steps):
        for _ in steps:
            self.scale = max(self.scale / 2, 1.0)


def main():
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1)).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    watch, scaler = OverflowWatch(), Scaler()
    params = list(model.parameters())
    for step in range(200):
        x = torch.randn(256, 64, device="cuda")
        loss = model(x).square().mean()
        opt.zero_grad(set_to_none=True)
        (loss * scaler.scale).backward()
        watch.watch(step, params)
        scaler.back_off(watch.poll())
        for p in params:
            p.grad.div_(scaler.scale).nan_to_num_(0.0, 0.0, 0.0)
        opt.step()
    scaler.back_off(watch.poll(everything=True))
    print(scaler.scale)


if __name__ == "__main__":
    main()
