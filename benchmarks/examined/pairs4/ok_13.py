"""Recommender with host-resident embedding rows and delayed write-back."""
from collections import deque

import torch
from torch import nn


class HostTable:
    def __init__(self, rows, dim, delay=2):
        self.weight = torch.randn(rows, dim) * 0.01
        self.side = torch.cuda.Stream()
        self.delay = delay
        self.outgoing = deque()

    def lookup(self, ids):
        self._settle(self.delay)
        staged = self.weight[ids].pin_memory()
        return staged.cuda(non_blocking=True)

    def write_back(self, ids, rows):
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            host = torch.empty(rows.shape, pin_memory=True)
            host.copy_(rows, non_blocking=True)
            landed = torch.cuda.Event()
            landed.record()
        self.outgoing.append((ids, host, rows, landed))

    def _settle(self, keep):
        while len(self.outgoing) > keep:
            ids, host, _, landed = self.outgoing.popleft()
            landed.synchronize()
            self.weight[ids] = host

    def flush(self):
        self._settle(0)
        return self.weight


class Tower(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(dim, 512), nn.ReLU(), nn.Linear(512, 1))

    def forward(self, x):
        return self.mlp(x).squeeze(-1)


def main():
    table = HostTable(1_000_000, 64)
    tower = Tower(64).cuda()
    opt = torch.optim.Adagrad(tower.parameters(), 0.05)
    for _ in range(300):
        ids = torch.randperm(1_000_000)[:8192]
        rows = table.lookup(ids).requires_grad_()
        click = torch.randint(0, 2, (8192,), device="cuda").float()
        loss = nn.functional.binary_cross_entropy_with_logits(tower(rows), click)
        opt.zero_grad()
        loss.backward()
        opt.step()
        table.write_back(ids, rows.detach() - 0.05 * rows.grad)
    print(table.flush().norm())


if __name__ == "__main__":
    main()
