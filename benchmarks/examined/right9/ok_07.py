import csv
import sys

import torch
from torch import nn


class ScalarLog:
    """Writes device scalars to CSV a few steps late."""

    def __init__(self, names, depth=4, out=sys.stdout):
        self.depth = depth
        self.host = torch.empty(depth, len(names), pin_memory=True)
        self.events = [None] * depth
        self.steps = [0] * depth
        self.head = 0
        self.writer = csv.writer(out)
        self.writer.writerow(["step", *names])

    def push(self, step, *values):
        slot = self.head % self.depth
        self._drain(slot)
        stacked = torch.stack([v.detach().float() for v in values])
        self.host[slot].copy_(stacked, non_blocking=True)
        event = torch.cuda.Event()
        event.record()
        self.events[slot] = event
        self.steps[slot] = step
        self.head += 1

    def _drain(self, slot):
        event = self.events[slot]
        if event is None:
            return
        event.synchronize()
        self.writer.writerow([self.steps[slot], *self.host[slot].tolist()])
        self.events[slot] = None

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for k in range(self.depth):
            self._drain((self.head + k) % self.depth)
        return False


def grad_norm(params):
    return torch.linalg.vector_norm(torch.stack([p.grad.norm() for p in params if p.grad is not None]))


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(128, 512), nn.Tanh(), nn.Linear(512, 1)).cuda()
    params = list(model.parameters())
    opt = torch.optim.SGD(params, lr=1e-2)
    with ScalarLog(["loss", "grad_norm", "weight_max"]) as log:
        for step in range(200):
            x = torch.randn(1024, 128, device="cuda")
            loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
            opt.zero_grad(set_to_none=True)
            loss.backward()
            norm = grad_norm(params)
            opt.step()
            log.push(step, loss, norm, params[0].abs().max())


if __name__ == "__main__":
    main()
