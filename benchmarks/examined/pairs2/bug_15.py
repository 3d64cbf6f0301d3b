"""Contiguous gradient bucket with copies issued by helper streams."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class ContiguousBucket:
    def __init__(self, params, device):
        self.params = params
        self.buffer = torch.zeros(sum(p.numel() for p in params), device=device)

    def slices(self):
        start = 0
        for p in self.params:
            yield p, self.buffer.narrow(0, start, p.numel())
            start += p.numel()


class ZeroReducer:
    def __init__(self, model, device, num_copy_streams=2):
        self.bucket = ContiguousBucket([p for p in model.parameters()], device)
        self.copy_streams = [torch.cuda.Stream(device) for _ in range(num_copy_streams)]
        self.reduction_stream = torch.cuda.Stream(device)

    def fill(self):
        main = torch.cuda.current_stream()
        for s in self.copy_streams:
            s.wait_stream(main)
        for i, (p, view) in enumerate(self.bucket.slices()):
            stream = self.copy_streams[i % len(self.copy_streams)]
            with torch.cuda.stream(stream):
                view.copy_(p.grad.reshape(-1))
        return stream

    def average_tensor(self):
        stream = self.fill()
        self.reduction_stream.wait_stream(stream)
        with torch.cuda.stream(self.reduction_stream):
            self.bucket.buffer.div_(dist.get_world_size())
            dist.all_reduce(self.bucket.buffer)
        main = torch.cuda.current_stream()
        main.wait_stream(self.reduction_stream)
        for s in self.copy_streams:
            main.wait_stream(s)
        for p, view in self.bucket.slices():
            p.grad.copy_(view.view_as(p))


def main():
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    model = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(6)]).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    reducer = ZeroReducer(model, device)
    for _ in range(100):
        x = torch.randn(32, 1024, device=device)
        opt.zero_grad(set_to_none=False)
        model(x).pow(2).mean().backward()
        reducer.average_tensor()
        opt.step()


if __name__ == "__main__":
    main()
