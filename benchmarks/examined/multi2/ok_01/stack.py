from contextlib import contextmanager

import torch
from torch import nn


class BorrowedLinear(nn.Module):
    def __init__(self, index, ferry):
        super().__init__()
        self.index = index
        self.ferry = ferry

    @contextmanager
    def weight(self):
        w = self.ferry.land(self.index)
        try:
            yield w
        finally:
            self.ferry.leave(self.index)

    def forward(self, x):
        with self.weight() as w:
            y = x @ w
            y = torch.relu_(y)
        return y


class Stack(nn.Module):
    def __init__(self, n, ferry):
        super().__init__()
        self.ferry = ferry
        self.layers = nn.ModuleList(BorrowedLinear(i, ferry) for i in range(n))

    def forward(self, x):
        n = len(self.layers)
        self.ferry.send(0)
        for i, layer in enumerate(self.layers):
            if i + 1 < n:
                self.ferry.send(i + 1)
            x = layer(x)
        return x
