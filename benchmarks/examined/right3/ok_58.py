"""Expert-parallel dispatch in chunks, all-to-all behind expert compute."""
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn


@dataclass
class InFlight:
    work: dist.Work
    recv: torch.Tensor
    send: torch.Tensor

    def finish(self) -> torch.Tensor:
        self.work.wait()
        del self.send
        return self.recv


def exchange(t: torch.Tensor) -> InFlight:
    send = t.contiguous()
    recv = torch.empty_like(send)
    work = dist.all_to_all_single(recv, send, async_op=True)
    return InFlight(work, recv, send)


class ChunkedExperts(nn.Module):
    def __init__(self, dim: int, hidden: int, chunks: int):
        super().__init__()
        self.expert = nn.Sequential(nn.Linear(dim, hidden), nn.SiLU(), nn.Linear(hidden, dim))
        self.chunks = chunks

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (world, tokens, dim), first axis is the destination rank."""
        parts = x.chunk(self.chunks, dim=1)
        dispatch = exchange(parts[0])
        combines: list[InFlight] = []
        for i in range(len(parts)):
            arrived = dispatch.finish()
            if i + 1 < len(parts):
                dispatch = exchange(parts[i + 1])
            combines.append(exchange(self.expert(arrived)))
        return torch.cat([c.finish() for c in combines], dim=1)


@torch.no_grad()
def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    world = dist.get_world_size()
    layer = ChunkedExperts(512, 2048, chunks=4).cuda()
    x = torch.randn(world, 256, 512, device="cuda")
    for _ in range(20):
        x = nn.functional.layer_norm(x + layer(x), (512,))
    print(dist.get_rank(), x.mean().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
