"""Thread-per-rank process group for testing collectives on one device."""
import threading

import torch
import torch.nn as nn


class ThreadedAllReduce:
    def __init__(self, world_size):
        self.world_size = world_size
        self.slots = [None] * world_size
        self.ready = [None] * world_size
        self.done = None
        self.barrier = threading.Barrier(world_size)

    def all_reduce(self, rank, tensor):
        self.slots[rank] = tensor
        self.ready[rank] = torch.cuda.current_stream().record_event()
        self.barrier.wait()
        if rank == 0:
            stream = torch.cuda.current_stream()
            for event in self.ready[1:]:
                stream.wait_event(event)
            total = self.slots[0].clone()
            for other in self.slots[1:]:
                total.add_(other)
            for dst in self.slots:
                dst.copy_(total)
            self.done = stream.record_event()
        self.barrier.wait()
        if rank != 0:
            torch.cuda.current_stream().wait_event(self.done)
        self.barrier.wait()


class Rank(threading.Thread):
    def __init__(self, rank, group, steps):
        super().__init__()
        self.rank, self.group, self.steps = rank, group, steps
        self.loss = None

    def run(self):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            torch.manual_seed(0)
            model = nn.Linear(512, 512, device="cuda")
            for step in range(self.steps):
                x = torch.randn(64, 512, device="cuda")
                model.zero_grad(set_to_none=False)
                loss = model(x).pow(2).mean()
                loss.backward()
                with torch.no_grad():
                    for p in model.parameters():
                        self.group.all_reduce(self.rank, p.grad)
                        p.sub_(p.grad, alpha=0.1 / self.group.world_size)
            self.loss = loss.item()


def main():
    group = ThreadedAllReduce(4)
    ranks = [Rank(r, group, steps=20) for r in range(4)]
    for r in ranks:
        r.start()
    for r in ranks:
        r.join()
    print([r.loss for r in ranks])


if __name__ == "__main__":
    main()
