"""ZeRO-style partition step: gradients of two towers are copied into a shared IPG buffer."""
import os

import torch
import torch.distributed as dist
from torch import nn


class IPGBucket:
    def __init__(self, numel):
        self.buffer = torch.empty(numel, device="cuda")
        self.clear()

    def clear(self):
        self.elements = 0
        self.entries = []

    def reserve(self, grad):
        view = self.buffer.narrow(0, self.elements, grad.numel())
        self.elements += grad.numel()
        return view


class PartitionedOptimizer:
    def __init__(self, towers, lr):
        self.towers = towers
        self.streams = [torch.cuda.Stream() for _ in towers]
        self.reduction_stream = torch.cuda.Stream()
        numel = sum(p.numel() for t in towers for p in t.parameters())
        self.ipg = IPGBucket(numel)
        self.lr = lr

    def collect(self):
        current = torch.cuda.current_stream()
        for tower, stream in zip(self.towers, self.streams):
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                for p in tower.parameters():
                    view = self.ipg.reserve(p.grad)
                    view.copy_(p.grad.flatten())
                    self.ipg.entries.append((p, view))

    def average_tensor(self):
        stream = self.reduction_stream
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            dist.all_reduce(self.ipg.buffer)
            self.ipg.buffer.div_(dist.get_world_size())

    @torch.no_grad()
    def step(self):
        self.collect()
        self.average_tensor()
        current = torch.cuda.current_stream()
        current.wait_stream(self.reduction_stream)
        for p, view in self.ipg.entries:
            p.add_(view.view_as(p), alpha=-self.lr)
        for stream in self.streams:
            current.wait_stream(stream)
        self.ipg.clear()


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    image = nn.Sequential(nn.Linear(768, 4096), nn.GELU(), nn.Linear(4096, 256)).cuda()
    text = nn.Sequential(nn.Linear(512, 4096), nn.GELU(), nn.Linear(4096, 256)).cuda()
    opt = PartitionedOptimizer([image, text], lr=1e-3)
    for _ in range(40):
        a = image(torch.randn(256, 768, device="cuda"))
        b = text(torch.randn(256, 512, device="cuda"))
        (a - b).pow(2).mean().backward()
        opt.step()
        for p in [*image.parameters(), *text.parameters()]:
            p.grad = None
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
