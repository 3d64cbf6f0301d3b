"""Contiguous gradient buffers used in turns while the previous one is being reduced."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class IpgBuffers:
    def __init__(self, numel, count=2):
        self.data = [torch.empty(numel, device="cuda") for _ in range(count)]
        self.drained = [torch.cuda.Event() for _ in range(count)]
        self.index, self.used, self.members = 0, 0, []

    @property
    def current(self):
        return self.data[self.index]

    def advance(self):
        self.index = (self.index + 1) % len(self.data)
        self.used, self.members = 0, []
        torch.cuda.current_stream().wait_event(self.drained[self.index])


class OverlappedReducer:
    def __init__(self, module, bucket_numel):
        self.params = list(module.parameters())
        self.averaged = {p: torch.zeros_like(p) for p in self.params}
        self.buffers = IpgBuffers(bucket_numel)
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        for p in self.params:
            p.register_post_accumulate_grad_hook(self._collect)

    def _collect(self, p):
        if self.buffers.used + p.numel() > self.buffers.current.numel():
            self._flush()
        view = self.buffers.current[self.buffers.used:self.buffers.used + p.numel()]
        view.copy_(p.grad.reshape(-1))
        self.buffers.members.append((p, view))
        self.buffers.used += p.numel()
        p.grad = None

    def _flush(self):
        buffers = self.buffers
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            dist.all_reduce(buffers.current[:buffers.used], op=dist.ReduceOp.AVG)
            for p, view in buffers.members:
                self.averaged[p].copy_(view.view_as(p))
            buffers.drained[buffers.index].record()
        buffers.advance()

    def finish(self):
        self._flush()
        torch.cuda.current_stream().wait_stream(self.stream)
        for p in self.params:
            p.grad = self.averaged[p]


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(32)]).cuda()
    reducer = OverlappedReducer(model, bucket_numel=5_000_000)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(200):
        model(torch.randn(64, 1024, device="cuda")).square().mean().backward()
        reducer.finish()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
