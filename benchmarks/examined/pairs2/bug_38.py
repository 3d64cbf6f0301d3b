"""ZeRO-style partitioned gradient reduction."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class PartitionedGradients:
    def __init__(self, params, device):
        self.device = device
        self.params = list(params)
        self.world = dist.get_world_size()
        self.numel = sum(p.numel() for p in self.params)
        padded = -(-self.numel // self.world) * self.world
        self.reduce_and_partition_stream = torch.cuda.Stream(device)
        self.ipg = torch.zeros(padded, device=device)
        self.partition = torch.zeros(padded // self.world, device=device)
        torch.cuda.synchronize(device)

    @torch.no_grad()
    def reduce(self):
        stream = self.reduce_and_partition_stream
        stream.wait_stream(torch.cuda.default_stream(self.device))
        with torch.cuda.stream(stream):
            offset = 0
            for p in self.params:
                self.ipg.narrow(0, offset, p.numel()).copy_(p.grad.view(-1))
                offset += p.numel()
            dist.reduce_scatter_tensor(self.partition, self.ipg)
            self.partition.div_(self.world)
        torch.cuda.current_stream().wait_stream(stream)
        return self.partition


class Engine:
    def __init__(self, model, device):
        self.model = model
        self.grads = PartitionedGradients(model.parameters(), device)
        self.compute = torch.cuda.Stream(device)
        self.norms = []

    def train_batch(self, batch):
        with torch.cuda.stream(self.compute):
            self.model.zero_grad(set_to_none=False)
            x = batch.to(self.compute.device, non_blocking=True)
            self.model(x).square().mean().backward()
            self.norms.append(self.grads.reduce().norm())

    def report(self):
        self.compute.synchronize()
        return [n.item() for n in self.norms]


def main():
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    engine = Engine(nn.Sequential(nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 64)).to(device), device)
    for _ in range(50):
        engine.train_batch(torch.randn(128, 2048))
    print(engine.report()[-1])


main()
