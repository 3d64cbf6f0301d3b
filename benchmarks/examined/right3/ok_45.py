"""DDP with a communication hook that sends bfloat16 buckets."""
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


@dataclass
class HookState:
    group: dist.ProcessGroup
    buckets: int = 0

    @property
    def world(self) -> int:
        return dist.get_world_size(self.group)


def bf16_compress_hook(state: HookState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    state.buckets += 1
    compressed = bucket.buffer().to(torch.bfloat16).div_(state.world)
    fut = dist.all_reduce(compressed, group=state.group, async_op=True).get_future()

    def decompress(fut: torch.futures.Future) -> torch.Tensor:
        target = bucket.buffer()
        target.copy_(fut.value()[0])
        return target

    return fut.then(decompress)


def build(dim: int, depth: int) -> nn.Module:
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [nn.Linear(dim, dim), nn.GELU()]
    return nn.Sequential(*layers, nn.Linear(dim, 1))


def train(steps: int) -> None:
    device = torch.device("cuda", torch.cuda.current_device())
    model = DDP(build(1024, 6).to(device), device_ids=[device.index], bucket_cap_mb=8)
    state = HookState(dist.group.WORLD)
    model.register_comm_hook(state, bf16_compress_hook)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for step in range(steps):
        x = torch.randn(32, 1024, device=device)
        loss = (model(x).squeeze(-1) - x.mean(dim=1)).square().mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if step % 20 == 0 and dist.get_rank() == 0:
            print(step, state.buckets, loss.item())


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    train(100)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
