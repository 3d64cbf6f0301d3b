"""Micro-batch all-to-all overlapped with expert compute."""
import torch
import torch.distributed as dist
from torch import nn


class Dispatch:
    def __init__(self, x: torch.Tensor):
        self.src = x.contiguous()
        self.dst = torch.empty_like(self.src)
        self.work = dist.all_to_all_single(self.dst, self.src, async_op=True)

    def wait(self) -> torch.Tensor:
        self.work.wait()
        self.src = self.work = None
        return self.dst


class OverlappedMoE(nn.Module):
    def __init__(self, dim=256, chunks=4):
        super().__init__()
        self.expert = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.shared = nn.Linear(dim, dim)
        self.chunks = chunks

    def forward(self, x):
        parts = x.chunk(self.chunks)
        sent = Dispatch(parts[0])
        returned, outs = [], []
        for i in range(len(parts)):
            upcoming = Dispatch(parts[i + 1]) if i + 1 < len(parts) else None
            tokens = sent.wait()
            returned.append(Dispatch(self.expert(tokens)))
            sent = upcoming
        for part, back in zip(parts, returned):
            local = self.shared(part)
            outs.append(local + back.wait())
        return torch.cat(outs)


@torch.inference_mode()
def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    layer = OverlappedMoE().cuda().eval()
    world = dist.get_world_size()
    x = torch.randn(4 * 16 * world, 256, device="cuda")
    for _ in range(3):
        x = layer(x)
    print(x.norm().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
