"""Double-buffered reduction bucket."""
import os
from contextlib import contextmanager

import torch
import torch.distributed as dist
import torch.nn as nn


class BufferPair:
    def __init__(self, numel, device):
        self.buffers = [torch.empty(numel, device=device) for _ in range(2)]
        self.idle = [torch.cuda.Event(), torch.cuda.Event()]
        self.index = 0
        self.used = 0
        self.members = []

    @property
    def active(self):
        return self.buffers[self.index]

    @contextmanager
    def handover(self, stream):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            yield self.active.narrow(0, 0, self.used), list(self.members)
            self.idle[self.index].record()
        self.index ^= 1
        self.used = 0
        self.members.clear()
        torch.cuda.current_stream().wait_event(self.idle[self.index])


class OverlappedZero1:
    def __init__(self, model, bucket_numel, device):
        self.stream = torch.cuda.Stream(device)
        self.pair = BufferPair(bucket_numel, device)
        self.bucket_numel = bucket_numel
        for p in model.parameters():
            p.register_post_accumulate_grad_hook(self._hook)

    def _hook(self, p):
        n = p.numel()
        if self.pair.used + n > self.bucket_numel:
            self._reduce()
        view = self.pair.active.narrow(0, self.pair.used, n)
        view.copy_(p.grad.view(-1))
        self.pair.used += n
        self.pair.members.append(p)

    def _reduce(self):
        with self.pair.handover(self.stream) as (flat, members):
            flat.div_(dist.get_world_size())
            dist.all_reduce(flat)
            offset = 0
            for p in members:
                p.grad.view(-1).copy_(flat.narrow(0, offset, p.numel()))
                offset += p.numel()

    def finish(self):
        if self.pair.members:
            self._reduce()
        torch.cuda.current_stream().wait_stream(self.stream)


def main():
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    model = nn.Sequential(*[nn.Linear(512, 512) for _ in range(16)]).to(device)
    zero = OverlappedZero1(model, 1 << 20, device)
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(100):
        opt.zero_grad(set_to_none=False)
        model(torch.randn(64, 512, device=device)).pow(2).mean().backward()
        zero.finish()
        opt.step()


if __name__ == "__main__":
    main()
