"""Reduce-scatter followed by an offload of the gradient shard."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class Streams:
    def __init__(self, device):
        self.reduce_scatter = torch.cuda.Stream(device)
        self.post_reduce = torch.cuda.Stream(device)


def foreach_reduce(params, streams, world, host_out):
    total = sum(p.numel() for p in params)
    padded = -(-total // world) * world
    packed = torch.zeros(padded, device=params[0].device)
    packed[:total] = torch.cat([p.grad.flatten() for p in params])
    streams.reduce_scatter.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(streams.reduce_scatter):
        reduce_output = torch.empty(padded // world, device=packed.device)
        dist.reduce_scatter_tensor(reduce_output, packed)
        reduce_output.mul_(1.0 / world)
        event = streams.reduce_scatter.record_event()
    packed.record_stream(streams.reduce_scatter)
    with torch.cuda.stream(streams.post_reduce):
        streams.post_reduce.wait_event(event)
        host_out.copy_(reduce_output, non_blocking=True)
        return streams.post_reduce.record_event()


class CpuOffloadedStack(nn.Module):
    def __init__(self, depth, dim, device):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth)).to(device)
        self.streams = Streams(device)
        self.world = dist.get_world_size()
        self.host_grads = []
        for layer in self.layers:
            n = sum(p.numel() for p in layer.parameters())
            self.host_grads.append(torch.zeros(-(-n // self.world), pin_memory=True))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x

    def reduce_all(self):
        events = []
        for layer, host in zip(self.layers, self.host_grads):
            events.append(foreach_reduce(list(layer.parameters()), self.streams, self.world, host))
        for event in events:
            event.synchronize()
        return [h.norm().item() for h in self.host_grads]


def main():
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    model = CpuOffloadedStack(12, 1024, device)
    for _ in range(20):
        model.zero_grad()
        model(torch.randn(32, 1024, device=device)).sum().backward()
        print(sum(model.reduce_all()))


main()
