"""Gradient bucket filled from several streams."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class IpgBucket:
    def __init__(self, numel, device):
        self.buffer = torch.empty(numel, device=device)
        self.elements = 0
        self.copy_streams = set()

    def add(self, grad):
        n = grad.numel()
        self.buffer.narrow(0, self.elements, n).copy_(grad.reshape(-1))
        self.elements += n
        self.copy_streams.add(torch.cuda.current_stream())

    def clear(self):
        self.elements = 0
        self.copy_streams.clear()


class TwoTower(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.left, self.right = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.side = torch.cuda.Stream()

    def forward(self, x):
        main = torch.cuda.current_stream()
        self.side.wait_stream(main)
        with torch.cuda.stream(self.side):
            r = self.right(x)
        l = self.left(x)
        main.wait_stream(self.side)
        r.record_stream(main)
        return l + r


class Reducer:
    def __init__(self, model, device):
        self.params = list(model.parameters())
        self.bucket = IpgBucket(sum(p.numel() for p in self.params), device)
        self.reduction_stream = torch.cuda.Stream(device)
        for p in self.params:
            p.register_post_accumulate_grad_hook(lambda q: self.bucket.add(q.grad))

    def average(self):
        for stream in self.bucket.copy_streams:
            self.reduction_stream.wait_stream(stream)
        with torch.cuda.stream(self.reduction_stream):
            dist.all_reduce(self.bucket.buffer)
            self.bucket.buffer.div_(dist.get_world_size())
        main = torch.cuda.current_stream()
        main.wait_stream(self.reduction_stream)
        result = self.bucket.buffer.norm()
        for stream in self.bucket.copy_streams:
            stream.wait_stream(main)
        self.bucket.clear()
        return result


def main():
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    model = TwoTower(2048).to(device)
    reducer = Reducer(model, device)
    for _ in range(50):
        x = torch.randn(64, 2048, device=device)
        model.zero_grad(set_to_none=False)
        model(x).pow(2).mean().backward()
        norm = reducer.average()
    print(norm.item())


if __name__ == "__main__":
    main()
