"""Asynchronous scalar recorder used by a reinforcement learning runner."""
import json
from collections import deque
from dataclasses import dataclass

import torch


@dataclass
class Entry:
    tag: str
    step: int
    host: torch.Tensor
    arrived: torch.cuda.Event


class ScalarRecorder:
    def __init__(self, path):
        self.path = path
        self.entries = deque()
        self.lines = []

    def add(self, tag, step, value):
        host = torch.empty((), pin_memory=True)
        host.copy_(value.detach(), non_blocking=True)
        arrived = torch.cuda.Event()
        arrived.record()
        self.entries.append(Entry(tag, step, host, arrived))
        self.collect()

    def collect(self, final=False):
        while self.entries and (final or self.entries[0].arrived.query()):
            e = self.entries.popleft()
            self.lines.append({"tag": e.tag, "step": e.step, "value": e.host.item()})

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.collect(final=True)
        with open(self.path, "w") as f:
            for line in self.lines:
                f.write(json.dumps(line) + "\n")


class PointMass:
    def __init__(self, n):
        self.pos = torch.randn(n, 3, device="cuda")
        self.vel = torch.zeros(n, 3, device="cuda")

    def step(self, force, dt=0.01):
        self.vel += dt * (force - 0.1 * self.vel)
        self.pos += dt * self.vel
        return -self.pos.norm(dim=1)


def main():
    env = PointMass(1 << 20)
    with ScalarRecorder("run.jsonl") as rec:
        for step in range(500):
            reward = env.step(-env.pos)
            rec.add("reward/mean", step, reward.mean())
            rec.add("reward/min", step, reward.min())


if __name__ == "__main__":
    main()
