"""Rank-parallel export of sharded weights to the filesystem."""
from __future__ import annotations

import os
import zlib

import torch
import torch.distributed as dist
from torch import nn

_staging_buffers: dict[str, torch.Tensor] = {}


def assign_owners(names: list[str], world_size: int) -> dict[str, int]:
    return {name: zlib.crc32(name.encode()) % world_size for name in names}


class ShardedParam:
    def __init__(self, name: str, full: torch.Tensor, rank: int, world_size: int) -> None:
        flat = full.flatten()
        pad = (-flat.numel()) % world_size
        flat = torch.cat([flat, flat.new_zeros(pad)])
        self.name = name
        self.shape = full.shape
        self.numel = full.numel()
        self.shard = flat.chunk(world_size)[rank].clone().cuda()

    def full_tensor(self, dtype: torch.dtype) -> torch.Tensor:
        local = self.shard.to(dtype)
        out = local.new_empty(local.numel() * dist.get_world_size())
        dist.all_gather_into_tensor(out, local)
        return out[: self.numel].view(self.shape)


def gather_owned(params: list[ShardedParam], dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Every rank takes part in every gather and keeps a host copy of what it owns."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    owners = assign_owners([p.name for p in params], world_size)
    partial = {}
    for param in params:
        value = param.full_tensor(dtype)
        if owners[param.name] != rank:
            continue
        buffer = _staging_buffers.get(param.name)
        if buffer is None or buffer.shape != value.shape or buffer.dtype != value.dtype:
            buffer = torch.empty(value.shape, dtype=value.dtype, device="cpu", pin_memory=True)
            _staging_buffers[param.name] = buffer
        buffer.copy_(value, non_blocking=True)
        partial[param.name] = buffer
    torch.cuda.synchronize()
    return partial


def save_weights(params: list[ShardedParam], directory: str, step: int) -> None:
    rank = dist.get_rank()
    partial = gather_owned(params, torch.bfloat16)
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, f"step_{step}_rank_{rank}.pt")
    torch.save(partial, path + ".tmp")
    os.replace(path + ".tmp", path)
    dist.barrier()


def update(params: list[ShardedParam], lr: float) -> None:
    for p in params:
        p.shard.add_(torch.randn_like(p.shard), alpha=-lr)


def main() -> None:
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(12)])
    params = [
        ShardedParam(n, p.detach(), dist.get_rank(), dist.get_world_size())
        for n, p in model.named_parameters()
    ]
    for step in range(4):
        update(params, 1e-3)
        save_weights(params, "/tmp/broadcast", step)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
