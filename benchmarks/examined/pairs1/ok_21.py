"""Rollout worker of an RL job: new policy weights arrive by broadcast between generations."""
import os

import torch
import torch.distributed as dist
from torch import nn


class WeightReceiver:
    def __init__(self, model, src=0):
        self.model = model
        self.src = src
        self.stream = torch.cuda.Stream()

    def __enter__(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        return self

    def __exit__(self, *exc):
        torch.cuda.current_stream().wait_stream(self.stream)
        return False

    @torch.no_grad()
    def receive(self):
        with torch.cuda.stream(self.stream):
            for p in self.model.parameters():
                buf = torch.empty_like(p)
                dist.broadcast(buf, self.src)
                p.copy_(buf)


@torch.no_grad()
def rollout(model, x, steps):
    for _ in range(steps):
        x = torch.tanh(model(x))
    return x


@torch.no_grad()
def publish(model):
    for p in model.parameters():
        p.mul_(1.01)
        dist.broadcast(p.clone(), 0)


def main(updates=20):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(8)]).cuda()
    if dist.get_rank() == 0:
        for _ in range(updates):
            publish(model)
    else:
        receiver = WeightReceiver(model)
        x = torch.randn(64, 1024, device="cuda")
        for _ in range(updates):
            x = rollout(model, x, 16)
            with receiver:
                receiver.receive()
        print(x.norm().item())
    torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
