"""Bucketed half-precision gradient reduction with buffers from a small arena."""
import os

import torch
import torch.distributed as dist
from torch import nn


class BufferArena:
    """Reusable flat device buffers; keeps the working set of the reducer constant."""

    def __init__(self, numel, count, dtype, device):
        self._free = [torch.empty(numel, dtype=dtype, device=device) for _ in range(count)]
        self.numel = numel
        self.high_water = 0
        self._out = 0

    def allocate(self):
        self._out += 1
        self.high_water = max(self.high_water, self._out)
        return self._free.pop()

    def deallocate(self, buffer):
        self._out -= 1
        self._free.append(buffer)


class BucketReducer:
    def __init__(self, module, bucket_numel=1 << 22, group=None):
        device = next(module.parameters()).device
        self.group = group
        self.world = dist.get_world_size(group)
        self.comm_stream = torch.cuda.Stream()
        self.arena = BufferArena(bucket_numel, 4, torch.bfloat16, device)
        self.comm_stream.wait_stream(torch.cuda.current_stream())
        self.open_bucket = []
        self.open_numel = 0
        for p in module.parameters():
            p.register_post_accumulate_grad_hook(self._on_grad)

    def _on_grad(self, param):
        if self.open_numel + param.numel() > self.arena.numel:
            self._launch()
        self.open_bucket.append(param.grad)
        self.open_numel += param.numel()

    def _pack(self, buffer, grads):
        offset = 0
        views = []
        for grad in grads:
            view = buffer[offset:offset + grad.numel()].view_as(grad)
            view.copy_(grad)
            views.append(view)
            offset += grad.numel()
        return views, offset

    def _launch(self):
        grads, self.open_bucket, self.open_numel = self.open_bucket, [], 0
        if not grads:
            return
        buffer = self.arena.allocate()
        views, used = self._pack(buffer, grads)
        self.comm_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.comm_stream):
            dist.all_reduce(buffer[:used], group=self.group)
            for grad, view in zip(grads, views):
                grad.copy_(view)
                grad.div_(self.world)
        self.arena.deallocate(buffer)

    def finish(self):
        self._launch()
        torch.cuda.current_stream().wait_stream(self.comm_stream)


def build(width, depth):
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.GELU()]
    return nn.Sequential(*layers).cuda()


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.manual_seed(0)
    model = build(1536, 12)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    reducer = BucketReducer(model)
    torch.manual_seed(dist.get_rank() + 1)
    for step in range(50):
        x = torch.randn(1024, 1536, device="cuda")
        loss = (model(x) - x).square().mean()
        loss.backward()
        reducer.finish()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        if step % 10 == 0 and dist.get_rank() == 0:
            print(step, loss.item(), reducer.arena.high_water)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
