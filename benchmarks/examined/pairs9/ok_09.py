"""Packs gradients into one flat buffer with several streams, then reduces the buffer."""
import os

import torch
import torch.distributed as dist
from torch import nn


class FlatBucket:
    def __init__(self, params):
        self.params = list(params)
        self.buffer = torch.zeros(sum(p.numel() for p in self.params), device="cuda")
        self.views, offset = [], 0
        for p in self.params:
            self.views.append(self.buffer[offset:offset + p.numel()].view_as(p))
            offset += p.numel()
        self.writers = set()


class BucketReducer:
    def __init__(self, params, n_streams=2):
        self.bucket = FlatBucket(params)
        self.pack_streams = [torch.cuda.Stream() for _ in range(n_streams)]
        self.reduce_stream = torch.cuda.Stream()

    def _pack(self):
        main = torch.cuda.current_stream()
        for stream in self.pack_streams:
            stream.wait_stream(main)
        pairs = list(zip(self.bucket.params, self.bucket.views))
        for i, (p, view) in enumerate(pairs):
            with torch.cuda.stream(self.pack_streams[i % len(self.pack_streams)]):
                view.copy_(p.grad)
                self.bucket.writers.add(torch.cuda.current_stream())

    def _average(self):
        for stream in self.bucket.writers:
            self.reduce_stream.wait_stream(stream)
        self.bucket.writers.clear()
        with torch.cuda.stream(self.reduce_stream):
            self.bucket.buffer.div_(dist.get_world_size())
            dist.all_reduce(self.bucket.buffer)

    def reduce(self):
        self._pack()
        self._average()
        torch.cuda.current_stream().wait_stream(self.reduce_stream)
        for p, view in zip(self.bucket.params, self.bucket.views):
            p.grad.copy_(view)


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(6)]).cuda()
    reducer = BucketReducer(model.parameters())
    opt = torch.optim.SGD(model.parameters(), lr=1e-2)
    for _ in range(30):
        x = torch.randn(128, 1024, device="cuda")
        model(x).pow(2).mean().backward()
        reducer.reduce()
        opt.step()
        opt.zero_grad(set_to_none=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
