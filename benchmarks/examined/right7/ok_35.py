"""Gradient bucket compression as a communication hook."""
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


@dataclass
class CompressState:
    group: object
    dtype: torch.dtype = torch.bfloat16


def compress_hook(state: CompressState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    world = dist.get_world_size(state.group)
    buf = bucket.buffer()
    small = buf.to(state.dtype).div_(world)
    fut = dist.all_reduce(small, group=state.group, async_op=True).get_future()

    def decompress(f):
        buf.copy_(f.value()[0])
        return buf

    return fut.then(decompress)


def main():
    dist.init_process_group("nccl")
    local = dist.get_rank() % torch.cuda.device_count()
    torch.cuda.set_device(local)
    net = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)).cuda()
    ddp = DDP(net, device_ids=[local], bucket_cap_mb=1)
    ddp.register_comm_hook(CompressState(dist.group.WORLD), compress_hook)
    opt = torch.optim.SGD(ddp.parameters(), lr=0.05)
    for _ in range(10):
        x = torch.randn(64, 1024, device="cuda")
        y = torch.randint(10, (64,), device="cuda")
        nn.functional.cross_entropy(ddp(x), y).backward()
        opt.step()
        opt.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
