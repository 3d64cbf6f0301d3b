"""Stage 3 style gradient partitioning; the engine may run the model on its own stream."""
import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn as nn


@dataclass
class EngineConfig:
    lr: float = 0.01
    micro_steps: int = 200
    own_stream: bool = True


class GradPartitioner:
    def __init__(self, params):
        self.params = params
        self.world, self.rank = dist.get_world_size(), dist.get_rank()
        numel = sum(p.numel() for p in params)
        self.padded = numel + (-numel) % self.world
        self.bucket = torch.zeros(self.padded, device="cuda")
        self.partition = torch.zeros(self.padded // self.world, device="cuda")
        self.reduce_and_partition_stream = torch.cuda.Stream()

    def reduce(self):
        stream = self.reduce_and_partition_stream
        stream.wait_stream(torch.cuda.default_stream())
        with torch.cuda.stream(stream):
            offset = 0
            for p in self.params:
                self.bucket.narrow(0, offset, p.numel()).copy_(p.grad.view(-1))
                p.grad.record_stream(stream)
                offset += p.numel()
            dist.reduce_scatter_tensor(self.partition, self.bucket, op=dist.ReduceOp.AVG)
        torch.cuda.current_stream().wait_stream(stream)


class Engine:
    def __init__(self, module, config):
        self.module, self.config = module, config
        self.params = list(module.parameters())
        self.partitioner = GradPartitioner(self.params)
        self.stream = torch.cuda.Stream() if config.own_stream else torch.cuda.current_stream()
        self.stream.wait_stream(torch.cuda.current_stream())

    def train_batch(self):
        with torch.cuda.stream(self.stream):
            x = torch.randn(64, 2048, device="cuda")
            loss = self.module(x).square().mean()
            loss.backward()
            self.partitioner.reduce()
            gathered = torch.empty(self.partitioner.padded, device="cuda")
            dist.all_gather_into_tensor(gathered, self.partitioner.partition)
            offset = 0
            with torch.no_grad():
                for p in self.params:
                    p.sub_(gathered.narrow(0, offset, p.numel()).view_as(p), alpha=self.config.lr)
                    offset += p.numel()
                    p.grad = None


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.manual_seed(0)
    engine = Engine(nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(10)]).cuda(), EngineConfig())
    for _ in range(engine.config.micro_steps):
        engine.train_batch()
    torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
