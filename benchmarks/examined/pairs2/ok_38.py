"""Gradient reduction for a trainer which lives on its own stream."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class GradReducer:
    def __init__(self, params, device):
        self.params = list(params)
        self.world = dist.get_world_size()
        self.reduce_stream = torch.cuda.Stream(device)

    @torch.no_grad()
    def __call__(self):
        current = torch.cuda.current_stream()
        self.reduce_stream.wait_stream(current)
        with torch.cuda.stream(self.reduce_stream):
            flat = torch.cat([p.grad.reshape(-1) for p in self.params])
            flat.div_(self.world)
            dist.all_reduce(flat)
            for p, chunk in zip(self.params, flat.split([p.numel() for p in self.params])):
                p.grad.copy_(chunk.view_as(p))
        current.wait_stream(self.reduce_stream)


class StreamTrainer:
    def __init__(self, model, device):
        self.model, self.device = model, device
        self.reducer = GradReducer(model.parameters(), device)
        self.opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
        self.stream = torch.cuda.Stream(device)
        self.stream.wait_stream(torch.cuda.default_stream(device))

    def fit(self, steps):
        with torch.cuda.stream(self.stream):
            for _ in range(steps):
                x = torch.randn(64, 1024, device=self.device)
                self.opt.zero_grad()
                loss = self.model(x).pow(2).mean()
                loss.backward()
                self.reducer()
                self.opt.step()
            return loss.item()


def main():
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    model = nn.Sequential(nn.Linear(1024, 1024), nn.SiLU(), nn.Linear(1024, 1024)).to(device)
    print(StreamTrainer(model, device).fit(100))


if __name__ == "__main__":
    main()
