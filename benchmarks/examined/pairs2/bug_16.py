"""Reduction bucket with two alternating IPG buffers."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class IndependentGradients:
    def __init__(self, numel, device, overlap_comm=True):
        self.ipg_buffer = [torch.empty(numel, device=device) for _ in range(2)]
        self.ipg_index = 0
        self.elements = 0
        self.params = []
        self.capacity = numel
        self.overlap_comm = overlap_comm
        self.reduction_stream = torch.cuda.Stream(device) if overlap_comm else torch.cuda.current_stream()

    def add(self, param):
        if self.elements + param.numel() > self.capacity:
            self.reduce()
        dest = self.ipg_buffer[self.ipg_index].narrow(0, self.elements, param.numel())
        dest.copy_(param.grad.view(-1))
        self.elements += param.numel()
        self.params.append(param)

    def reduce(self):
        stream = self.reduction_stream
        if self.overlap_comm:
            stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            flat = self.ipg_buffer[self.ipg_index].narrow(0, 0, self.elements)
            flat.div_(dist.get_world_size())
            dist.all_reduce(flat)
            start = 0
            for p in self.params:
                p.grad.view(-1).copy_(flat.narrow(0, start, p.numel()))
                start += p.numel()
        self.ipg_index = 1 - self.ipg_index
        self.elements = 0
        self.params = []

    def epilogue(self):
        if self.params:
            self.reduce()
        if self.overlap_comm:
            torch.cuda.current_stream().wait_stream(self.reduction_stream)


def main():
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    net = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(24)]).to(device)
    ipg = IndependentGradients(4 * 1024 * 1024, device)
    for p in net.parameters():
        p.register_post_accumulate_grad_hook(ipg.add)
    opt = torch.optim.Adam(net.parameters(), lr=1e-4)
    for _ in range(100):
        net.zero_grad(set_to_none=False)
        net(torch.randn(16, 1024, device=device)).square().mean().backward()
        ipg.epilogue()
        opt.step()


if __name__ == "__main__":
    main()
