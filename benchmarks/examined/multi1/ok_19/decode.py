import random

import torch

from scheduler import Scheduler


class Sequence:
    def __init__(self, key, length):
        self.key = key
        self.length = length
        self.pos = 0

    def step(self, sched, table):
        kv = sched.block(self.key)
        q = table[self.pos % table.shape[0]]
        kv[self.pos].copy_(q)
        att = torch.softmax((kv[: self.pos + 1] @ q).float(), dim=0)
        self.pos += 1
        return att.max()

    @property
    def done(self):
        return self.pos >= self.length


def main(sequences=24, blocks=8, length=64, dim=256):
    rnd = random.Random(0)
    table = torch.randn(97, dim, device="cuda", dtype=torch.float16)
    sched = Scheduler(blocks, (length, dim))
    active = [Sequence(f"s{i}", rnd.randint(16, length)) for i in range(sequences)]
    peak = torch.zeros((), device="cuda")
    while active:
        s = rnd.choice(active)
        peak = torch.maximum(peak, s.step(sched, table))
        if s.done:
            sched.drop(s.key)
            active.remove(s)
    print("swaps", sched.swaps, "peak", peak.item())


if __name__ == "__main__":
    main()
