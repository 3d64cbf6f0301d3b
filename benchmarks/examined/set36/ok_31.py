"""Global batch statistics: the reduction is issued on a side stream while the features are computed."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


class GlobalMoments:
    """Mean and variance over all ranks."""

    def __init__(self):
        self.stream = torch.cuda.Stream()
        self.pending = None

    def start(self, x):
        self.stream.wait_stream(torch.cuda.current_stream())
        x.record_stream(self.stream)
        with torch.cuda.stream(self.stream):
            flat = x.flatten(0, -2).float()
            packed = torch.cat([flat.sum(0), flat.square().sum(0), flat.new_full((1,), flat.shape[0])])
            dist.all_reduce(packed)
            count = packed[-1]
            dim = flat.shape[1]
            mean = packed[:dim] / count
            var = packed[dim:2 * dim] / count - mean.square()
        self.pending = (mean, var)

    def finish(self):
        stream = torch.cuda.current_stream()
        stream.wait_stream(self.stream)
        mean, var = self.pending
        mean.record_stream(stream)
        var.record_stream(stream)
        self.pending = None
        return mean, var


class WhitenedHead(nn.Module):
    def __init__(self, dim, classes):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.scale = nn.Parameter(torch.ones(dim))
        self.head = nn.Linear(dim, classes)
        self.moments = GlobalMoments()

    def forward(self, x):
        self.moments.start(x.detach())
        h = self.features(x)
        mean, var = self.moments.finish()
        skip = (x - mean) * torch.rsqrt(var + 1e-5) * self.scale
        return self.head(h + skip)


class Trainer:
    def __init__(self, dim=1024, classes=1000):
        torch.manual_seed(0)
        self.model = WhitenedHead(dim, classes).cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.world = dist.get_world_size()

    def step(self, x, y):
        loss = F.cross_entropy(self.model(x), y)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        for p in self.model.parameters():
            dist.all_reduce(p.grad)
            p.grad.div_(self.world)
        self.optimizer.step()
        return loss.detach()


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    trainer = Trainer()
    losses = []
    for _ in range(100):
        x = torch.randn(512, 1024, device="cuda")
        y = torch.randint(0, 1000, (512,), device="cuda")
        losses.append(trainer.step(x, y))
    print(float(torch.stack(losses).mean()))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
