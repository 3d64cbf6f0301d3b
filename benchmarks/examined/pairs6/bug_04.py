"""Gradient synchronisation for replicated towers, overlapped with the backward pass."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class FlatGradients:
    """One contiguous buffer per layer; param.grad are views into it."""

    def __init__(self, layer):
        params = list(layer.parameters())
        self.buffer = torch.zeros(sum(p.numel() for p in params), device="cuda")
        start = 0
        for p in params:
            p.grad = self.buffer[start:start + p.numel()].view_as(p)
            start += p.numel()
        self.expected = self.missing = len(params)


class Reducer:
    def __init__(self, layers):
        self.world = dist.get_world_size()
        self.reduce_stream = torch.cuda.Stream()
        self.entries = []
        for layer in layers:
            entry = FlatGradients(layer)
            self.entries.append(entry)
            for p in layer.parameters():
                p.register_post_accumulate_grad_hook(self._make_hook(entry))

    def _make_hook(self, entry):
        def hook(_):
            entry.missing -= 1
            if entry.missing:
                return
            self.reduce_stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.reduce_stream):
                entry.buffer.div_(self.world)
                dist.all_reduce(entry.buffer)
        return hook

    def join(self):
        self.reduce_stream.wait_stream(torch.cuda.current_stream())
        for entry in self.entries:
            entry.missing = entry.expected


def run(steps=200):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    layers = [nn.Linear(4096, 4096) for _ in range(8)]
    tower = nn.Sequential(*layers).cuda()
    reducer = Reducer(layers)
    optimizer = torch.optim.Adam(tower.parameters(), lr=1e-4)
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=False)
        tower(torch.randn(128, 4096, device="cuda")).pow(2).mean().backward()
        reducer.join()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    run()
