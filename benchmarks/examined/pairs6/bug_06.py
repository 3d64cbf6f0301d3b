"""Sharded SGD where the updated weights are collected while the next batch is prepared."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class WeightCollector:
    def __init__(self, flat, mine):
        self.flat, self.mine = flat, mine
        self.stream = torch.cuda.Stream(priority=-1)
        self.stream.wait_stream(torch.cuda.current_stream())
        self.finished = torch.cuda.Event()

    def launch(self):
        with torch.cuda.stream(self.stream):
            dist.all_gather_into_tensor(self.flat, self.mine)
            self.finished.record(self.stream)

    def wait(self, *unused):
        torch.cuda.current_stream().wait_event(self.finished)


class ShardedSGD:
    def __init__(self, module, lr=0.05, momentum=0.9):
        world, rank = dist.get_world_size(), dist.get_rank()
        params = list(module.parameters())
        total = sum(p.numel() for p in params)
        total += -total % world
        self.weights = torch.empty(total, device="cuda").zero_()
        self.grads = torch.zeros_like(self.weights)
        at = 0
        for p in params:
            view = self.weights.narrow(0, at, p.numel()).view_as(p)
            view.copy_(p.detach())
            p.data = view
            p.grad = self.grads.narrow(0, at, p.numel()).view_as(p)
            at += p.numel()
        self.my_weights = self.weights.chunk(world)[rank]
        self.my_grads = torch.empty_like(self.my_weights)
        self.velocity = torch.zeros_like(self.my_weights)
        self.lr, self.momentum = lr, momentum
        self.collector = WeightCollector(self.weights, self.my_weights)
        module.register_forward_pre_hook(self.collector.wait)

    @torch.no_grad()
    def step(self):
        dist.reduce_scatter_tensor(self.my_grads, self.grads, op=dist.ReduceOp.AVG)
        self.velocity.mul_(self.momentum).add_(self.my_grads)
        self.my_weights.sub_(self.velocity, alpha=self.lr)
        self.collector.launch()
        self.grads.zero_()


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(784, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 10)).cuda()
    sgd = ShardedSGD(net)
    criterion = nn.CrossEntropyLoss()
    for _ in range(500):
        x = torch.randn(256, 784, device="cuda")
        y = torch.randint(0, 10, (256,), device="cuda")
        criterion(net(x), y).backward()
        sgd.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
