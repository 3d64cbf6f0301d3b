"""Distillation against a frozen teacher whose weights are sharded over the ranks."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


class GatherBuffer:
    def __init__(self, numel):
        self.full = torch.empty(numel, device="cuda", dtype=torch.bfloat16)
        self.released = torch.cuda.Event()


class ShardedLinear:
    def __init__(self, dim, world):
        self.shape = (dim, dim)
        self.shard = torch.randn(dim * dim // world, device="cuda", dtype=torch.bfloat16) * 0.02
        self.ready = torch.cuda.Event()
        self.buffer = None


class ShardedTeacher:
    def __init__(self, depth, dim):
        world = dist.get_world_size()
        self.units = [ShardedLinear(dim, world) for _ in range(depth)]
        self.buffers = [GatherBuffer(dim * dim) for _ in range(2)]
        self.unshard_stream = torch.cuda.Stream()
        self.unshard_stream.wait_stream(torch.cuda.current_stream())

    def _unshard(self, index):
        if index >= len(self.units):
            return
        unit, buffer = self.units[index], self.buffers[index % 2]
        self.unshard_stream.wait_event(buffer.released)
        with torch.cuda.stream(self.unshard_stream):
            dist.all_gather_into_tensor(buffer.full, unit.shard)
            unit.ready.record()
        unit.buffer = buffer

    @torch.no_grad()
    def __call__(self, x):
        self._unshard(0)
        for i, unit in enumerate(self.units):
            self._unshard(i + 1)
            torch.cuda.current_stream().wait_event(unit.ready)
            x = F.gelu(x @ unit.buffer.full.view(unit.shape).t())
            unit.buffer.released.record()
        return x


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    teacher = ShardedTeacher(depth=24, dim=4096)
    student = nn.Sequential(nn.Linear(4096, 512), nn.GELU(), nn.Linear(512, 4096)).cuda().bfloat16()
    optimizer = torch.optim.AdamW(student.parameters(), lr=1e-4)
    for _ in range(1000):
        x = torch.randn(32, 4096, device="cuda", dtype=torch.bfloat16)
        loss = F.mse_loss(student(x), teacher(x))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
