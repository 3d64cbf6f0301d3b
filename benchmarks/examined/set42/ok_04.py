"""Forward pipeline whose receives are completed lazily, at first use."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class PendingTensor:
    """A received activation together with the work that fills it."""

    def __init__(self, tensor, work):
        self._tensor = tensor
        self._work = work

    def materialize(self):
        if self._work is not None:
            self._work.wait()
            self._work = None
        return self._tensor


class Channel:
    def __init__(self, rank, world, shape, device):
        self.rank, self.world = rank, world
        self.shape, self.device = shape, device
        self._outbox = []

    def post_recv(self):
        if self.rank == 0:
            return None
        buf = torch.empty(self.shape, device=self.device)
        return PendingTensor(buf, dist.irecv(buf, src=self.rank - 1))

    def send(self, tensor):
        if self.rank + 1 == self.world:
            return
        self._outbox.append((dist.isend(tensor, dst=self.rank + 1), tensor))
        if len(self._outbox) > 2:
            work, _ = self._outbox.pop(0)
            work.wait()

    def close(self):
        for work, _ in self._outbox:
            work.wait()
        self._outbox.clear()


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        return x + torch.relu(self.fc(self.norm(x)))


class StageRunner:
    def __init__(self, model, channel):
        self.model = model
        self.channel = channel

    @torch.no_grad()
    def run(self, n, source=None):
        results = []
        upcoming = self.channel.post_recv()
        for i in range(n):
            ready = upcoming
            x = source[i] if source is not None else ready.materialize()
            y = self.model(x)
            upcoming = self.channel.post_recv() if i + 1 < n else None
            self.channel.send(y)
            results.append(y)
        self.channel.close()
        return results


def main():
    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    torch.cuda.set_device(device)
    width = 512
    model = nn.Sequential(*[Block(width) for _ in range(3)]).to(device)
    runner = StageRunner(model, Channel(rank, world, (16, width), device))
    source = [torch.randn(16, width, device=device) for _ in range(8)] if rank == 0 else None
    out = runner.run(8, source)
    if rank + 1 == world:
        print(sum(o.mean().item() for o in out))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
