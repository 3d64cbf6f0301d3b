"""Bucketed gradient averaging with one completion event for each of two flat buffers."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class FlatBuffer:
    def __init__(self, numel, device):
        self.data = torch.empty(numel, device=device)
        self.idle = None
        self.entries = []
        self.fill = 0

    def open(self):
        if self.idle is not None:
            torch.cuda.current_stream().wait_event(self.idle)
            self.idle = None
        self.entries, self.fill = [], 0

    def append(self, param):
        n = param.numel()
        self.data[self.fill:self.fill + n].copy_(param.grad.reshape(-1))
        self.entries.append((param, self.fill, n))
        self.fill += n


class Averager:
    def __init__(self, model, bucket_numel, world):
        device = next(model.parameters()).device
        self.buffers = [FlatBuffer(bucket_numel, device) for _ in range(2)]
        self.active = self.buffers[0]
        self.active.open()
        self.capacity = bucket_numel
        self.world = world
        self.side = torch.cuda.Stream(device=device)
        for p in model.parameters():
            p.register_post_accumulate_grad_hook(self.hook)

    def hook(self, param):
        if self.active.fill + param.numel() > self.capacity:
            self.launch()
        self.active.append(param)

    def launch(self):
        buf = self.active
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            flat = buf.data[: buf.fill]
            flat.mul_(1.0 / self.world)
            if self.world > 1:
                dist.all_reduce(flat)
            for param, off, n in buf.entries:
                param.grad.reshape(-1).copy_(flat[off:off + n])
                param.grad.record_stream(self.side)
            buf.idle = self.side.record_event()
        self.active = self.buffers[1] if buf is self.buffers[0] else self.buffers[0]
        self.active.open()

    def wait(self):
        if self.active.fill:
            self.launch()
        for buf in self.buffers:
            if buf.idle is not None:
                torch.cuda.current_stream().wait_event(buf.idle)


def make_model(width, depth):
    return nn.Sequential(*[m for _ in range(depth) for m in (nn.Linear(width, width), nn.SiLU())]).cuda()


def train(world, steps=12):
    torch.manual_seed(0)
    model = make_model(2048, 8)
    avg = Averager(model, 2 * (2048 * 2048 + 2048), world)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(steps):
        loss = model(torch.randn(128, 2048, device="cuda")).square().mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        avg.wait()
        opt.step()
    return loss.item()


def main():
    world = int(os.environ.get("WORLD_SIZE", 1))
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    if world > 1:
        dist.init_process_group("nccl")
    print(train(world))
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
