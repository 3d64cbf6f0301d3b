"""Broadcast flattened weights through a ring of slots, one stream per slot."""
import os

import torch
import torch.distributed as dist
from torch import nn


class SlotRing:
    def __init__(self, numel, count=3, dtype=torch.bfloat16):
        self.buffers = [torch.empty(numel, dtype=dtype, device="cuda") for _ in range(count)]
        self.streams = [torch.cuda.Stream() for _ in range(count)]
        self.cursor = 0

    def next(self):
        i = self.cursor
        self.cursor = (i + 1) % len(self.buffers)
        return self.buffers[i], self.streams[i]


class RingBroadcaster:
    def __init__(self, numel, group=None):
        self.ring = SlotRing(numel)
        self.group = group
        torch.cuda.synchronize()

    @torch.no_grad()
    def publish(self, params, src=0):
        caller = torch.cuda.current_stream()
        for s in self.ring.streams:
            s.wait_stream(caller)
        sent = 0
        for p in params:
            buf, stream = self.ring.next()
            view = buf[: p.numel()]
            with torch.cuda.stream(stream):
                view.copy_(p.reshape(-1), non_blocking=True)
                dist.broadcast(view, src=src, group=self.group)
                if dist.get_rank() != src:
                    p.copy_(view.view_as(p))
            sent += p.numel()
        for s in self.ring.streams:
            caller.wait_stream(s)
        return sent


def build(width=2048, depth=8):
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width, bias=False), nn.GELU()]
    return nn.Sequential(*layers).to("cuda", torch.bfloat16)


def main():
    rank = int(os.environ.get("RANK", 0))
    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group("nccl")
    model = build()
    caster = RingBroadcaster(2048 * 2048)
    probe = torch.randn(64, 2048, device="cuda", dtype=torch.bfloat16)
    for step in range(4):
        if rank == 0:
            with torch.no_grad():
                for p in model.parameters():
                    p.add_(torch.randn_like(p), alpha=1e-3)
        n = caster.publish(list(model.parameters()))
        out = model(probe).float().norm()
        if rank == 0:
            print(step, n, float(out))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
