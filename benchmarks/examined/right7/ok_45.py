"""Replay memory shared by a collecting and a training thread."""
import threading

import torch
from torch import nn


class ReplayMemory:
    def __init__(self, capacity: int, dim: int):
        self.data = torch.zeros(capacity, dim, device="cuda")
        self.capacity, self.cursor, self.size = capacity, 0, 0
        self.cond = threading.Condition()
        self.tail = torch.cuda.current_stream().record_event()

    def _enter(self):
        stream = torch.cuda.current_stream()
        stream.wait_event(self.tail)
        return stream

    def add(self, rows: torch.Tensor):
        n = rows.shape[0]
        with self.cond:
            stream = self._enter()
            self.data[self.cursor:self.cursor + n].copy_(rows)
            self.tail = stream.record_event()
            self.cursor = (self.cursor + n) % self.capacity
            self.size = min(self.size + n, self.capacity)
            self.cond.notify_all()

    def sample(self, n: int) -> torch.Tensor:
        with self.cond:
            self.cond.wait_for(lambda: self.size >= n)
            stream = self._enter()
            idx = torch.randint(self.size, (n,), device="cuda")
            batch = self.data.index_select(0, idx)
            self.tail = stream.record_event()
        return batch


def collect(memory: ReplayMemory, rounds: int):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(rounds):
            memory.add(torch.randn(64, 32, device="cuda"))
    stream.synchronize()


def main():
    memory = ReplayMemory(4096, 32)
    t = threading.Thread(target=collect, args=(memory, 200))
    t.start()
    critic = nn.Linear(32, 1).cuda()
    opt = torch.optim.Adam(critic.parameters())
    for _ in range(100):
        loss = critic(memory.sample(128)).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
    t.join()
    print(loss.item())


if __name__ == "__main__":
    main()
