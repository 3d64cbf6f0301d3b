"""Send model weights to inference ranks in packed buckets."""
import os

import torch
import torch.distributed as dist
from torch import nn


def bucketize(tensors, limit):
    group, size = [], 0
    for t in tensors:
        if group and size + t.numel() > limit:
            yield group
            group, size = [], 0
        group.append(t)
        size += t.numel()
    if group:
        yield group


class PackedSender:
    def __init__(self, limit, slots=2, dtype=torch.bfloat16):
        self.limit = limit
        self.slots = [torch.empty(limit, dtype=dtype, device="cuda") for _ in range(slots)]
        self.streams = [torch.cuda.Stream() for _ in range(slots)]

    def _pack(self, index, group):
        stream = self.streams[index]
        stream.synchronize()
        used = sum(t.numel() for t in group)
        view = self.slots[index][:used]
        with torch.cuda.stream(stream):
            torch.cat([t.reshape(-1) for t in group], out=view)
        return view

    @torch.no_grad()
    def send(self, tensors, src=0):
        torch.cuda.synchronize()
        main = torch.cuda.current_stream()
        layout = []
        for k, group in enumerate(bucketize(tensors, self.limit)):
            index = k % len(self.slots)
            view = self._pack(index, group)
            main.wait_stream(self.streams[index])
            dist.broadcast(view, src=src)
            layout.append([tuple(t.shape) for t in group])
        return layout

    def drain(self):
        torch.cuda.synchronize()


class Policy(nn.Module):
    def __init__(self, width=2048, depth=12):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))


def main():
    rank = int(os.environ.get("RANK", 0))
    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group("nccl")
    policy = Policy().to("cuda", torch.bfloat16)
    sender = PackedSender(limit=2 * 2048 * 2048 + 8192)
    for version in range(3):
        layout = sender.send(list(policy.parameters()))
        sender.drain()
        if rank == 0:
            print("version", version, "buckets", len(layout))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
