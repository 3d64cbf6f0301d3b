"""Off-policy learner with two host staging areas."""
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn as nn


@dataclass
class Staging:
    rows: int
    width: int
    data: torch.Tensor = field(init=False)
    sent: torch.cuda.Event = field(init=False)

    def __post_init__(self):
        self.data = torch.empty(self.rows, self.width, pin_memory=True)
        self.sent = torch.cuda.Event()


class TransitionStore:
    def __init__(self, size, width, rows):
        self.table = np.random.standard_normal((size, width)).astype(np.float32)
        self.front, self.back = Staging(rows, width), Staging(rows, width)
        self.rows = rows

    def minibatch(self):
        picks = np.random.randint(0, len(self.table), self.rows)
        self.front.data.numpy()[...] = self.table[picks]
        self.front.sent.synchronize()
        batch = self.front.data.to("cuda", non_blocking=True)
        self.front.sent.record()
        self.front, self.back = self.back, self.front
        return batch

    def extend(self, rows):
        self.table = np.concatenate([self.table[len(rows):], rows])


class Learner:
    def __init__(self, store):
        self.store = store
        self.q = nn.Sequential(nn.Linear(32, 512), nn.ReLU(), nn.Linear(512, 4)).cuda()
        self.opt = torch.optim.Adam(self.q.parameters(), lr=1e-4)

    def update(self):
        batch = self.store.minibatch()
        loss = self.q(batch).logsumexp(-1).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()


if __name__ == "__main__":
    learner = Learner(TransitionStore(200_000, 32, rows=4096))
    for _ in range(10_000):
        learner.update()
