"""Process-group front end that runs collectives on an internal stream."""
from collections import deque

import torch
import torch.distributed as dist


class EventPool:
    def __init__(self):
        self._free = deque()

    def get(self):
        return self._free.popleft() if self._free else torch.cuda.Event()

    def put(self, event):
        self._free.append(event)


class WorkHandle:
    def __init__(self, tensor, event):
        self.tensor = tensor
        self.event = event

    def wait(self):
        torch.cuda.current_stream(self.tensor.device).wait_event(self.event)


class StreamedGroup:
    def __init__(self, device):
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.events = EventPool()
        self.pending = deque()

    def _reap(self):
        while self.pending and self.pending[0].event.query():
            self.events.put(self.pending.popleft().event)

    def all_reduce(self, tensor):
        self._reap()
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            dist.all_reduce(tensor)
            done = self.events.get()
            done.record(self.stream)
        tensor.record_stream(self.stream)
        work = WorkHandle(tensor, done)
        self.pending.append(work)
        return work

    def drain(self):
        for work in self.pending:
            work.event.synchronize()
        self._reap()


def train(rank, steps=20):
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(6)]).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    group = StreamedGroup(device)
    world = dist.get_world_size()
    for _ in range(steps):
        x = torch.randn(64, 1024, device=device)
        opt.zero_grad(set_to_none=True)
        model(x).square().mean().backward()
        works = [group.all_reduce(p.grad) for p in model.parameters()]
        for work in works:
            work.wait()
        for p in model.parameters():
            p.grad.div_(world)
        opt.step()
        works.clear()
    group.drain()


if __name__ == "__main__":
    dist.init_process_group("nccl")
    train(dist.get_rank())
    dist.destroy_process_group()
