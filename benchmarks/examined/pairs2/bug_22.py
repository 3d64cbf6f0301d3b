"""In-process collectives used by the unit tests of the sharding code."""
import threading

import torch


class Collective:
    def __init__(self, world_size):
        self.world_size = world_size
        self.inputs = [None] * world_size
        self.outputs = [None] * world_size
        self.start = threading.Barrier(world_size)
        self.finish = threading.Barrier(world_size)

    def join(self, rank, output, shard):
        self.inputs[rank] = shard
        self.outputs[rank] = output
        self.start.wait()
        if rank == 0:
            self.work()
        self.finish.wait()

    def work(self):
        raise NotImplementedError


class AllGather(Collective):
    def work(self):
        full = torch.cat(self.inputs)
        for out in self.outputs:
            out.copy_(full)


class ShardWorker(threading.Thread):
    def __init__(self, rank, collective, numel):
        super().__init__(name=f"rank-{rank}")
        self.rank = rank
        self.collective = collective
        self.numel = numel
        self.norms = []

    def run(self):
        self.all_gather_stream = torch.cuda.Stream()
        with torch.cuda.stream(self.all_gather_stream):
            shard = torch.zeros(self.numel, device="cuda")
            full = torch.empty(self.numel * self.collective.world_size, device="cuda")
            for step in range(10):
                shard.normal_().mul_(step + 1)
                self.collective.join(self.rank, full, shard)
                self.norms.append(full.norm())
            self.all_gather_stream.synchronize()


def test_gather_parity():
    collective = AllGather(4)
    workers = [ShardWorker(r, collective, 1 << 22) for r in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    reference = torch.stack(workers[0].norms).cpu()
    for w in workers[1:]:
        assert torch.allclose(torch.stack(w.norms).cpu(), reference)


if __name__ == "__main__":
    test_gather_parity()
