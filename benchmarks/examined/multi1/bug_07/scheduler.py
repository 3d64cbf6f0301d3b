import torch

from blocks import BlockCache
from lane import Lane


class Scheduler:
    def __init__(self, cache):
        self.cache = cache
        self.tables = {}

    def admit(self, name, need):
        ids = [self.cache.free.pop() for _ in range(need)]
        for idx in ids:
            self.cache.write(idx, torch.randn(2, 16, 64, 128, device="cuda").half())
        self.tables[name] = ids

    def preempt(self, name):
        self.cache.swap_out_many(self.tables[name])

    def resume(self, name):
        return [self.cache.swap_in(idx) for idx in self.tables[name]]


def main():
    lane = Lane()
    sched = Scheduler(BlockCache(lane, 64, 16, 64, 128))
    sched.admit("a", 24)
    sched.admit("b", 16)
    sched.preempt("a")
    views = sched.resume("a")
    energy = sum(v.float().pow(2).sum() for v in views)
    print(energy.item())
    lane.drain()


if __name__ == "__main__":
    main()
