"""Communication hook for DistributedDataParallel with bf16 compression."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class CompressionState:
    def __init__(self, group, dtype=torch.bfloat16):
        self.group = group
        self.dtype = dtype
        self.bytes = 0


def compressed_allreduce(state, bucket):
    buffer = bucket.buffer()
    compressed = buffer.to(state.dtype).div_(dist.get_world_size(state.group))
    state.bytes += compressed.numel() * compressed.element_size()
    future = dist.all_reduce(compressed, group=state.group, async_op=True).get_future()

    def decompress(fut):
        target = bucket.buffer()
        target.copy_(fut.value()[0])
        return target

    return future.then(decompress)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*[nn.Sequential(nn.Linear(1024, 1024), nn.ReLU()) for _ in range(8)])

    def forward(self, x):
        return self.layers(x)


def main():
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    model = DDP(Net().to(device), device_ids=[device.index], bucket_cap_mb=8)
    state = CompressionState(dist.group.WORLD)
    model.register_comm_hook(state, compressed_allreduce)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(100):
        x = torch.randn(64, 1024, device=device)
        opt.zero_grad()
        model(x).pow(2).mean().backward()
        opt.step()
    print(state.bytes)


if __name__ == "__main__":
    main()
