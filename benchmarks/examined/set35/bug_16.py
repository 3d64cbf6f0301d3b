"""MoE layer that splits the batch and overlaps all-to-all with the expert network."""
from typing import List

import torch
import torch.distributed as dist
import torch.nn as nn


class ChunkedAllToAll:
    """Exchanges chunk i of every local expert; consumers acquire chunks one at a time."""

    def __init__(self, num_chunks: int, local_experts: int, group: dist.ProcessGroup):
        self.num_chunks = num_chunks
        self.local_experts = local_experts
        self.group = group
        self.world = dist.get_world_size(group)
        self.stream = torch.cuda.Stream()
        self.ready = [torch.cuda.Event() for _ in range(num_chunks)]

    def release(self) -> None:
        """Makes everything queued so far visible to the exchange stream."""
        self.stream.wait_stream(torch.cuda.current_stream())

    def acquire(self, index: int) -> None:
        torch.cuda.current_stream().wait_event(self.ready[index])

    def scatter(self, dispatched: torch.Tensor) -> List[torch.Tensor]:
        experts, tokens, dim = dispatched.shape
        slices = dispatched.view(
            self.local_experts, self.world, self.num_chunks, tokens // self.num_chunks, dim)
        chunks = [slices[:, :, i].contiguous() for i in range(self.num_chunks)]
        outputs = [torch.empty_like(c) for c in chunks]
        self.release()
        with torch.cuda.stream(self.stream):
            for i, (out, chunk) in enumerate(zip(outputs, chunks)):
                dist.all_to_all_single(out[0], chunk[0], group=self.group)
                self.ready[i].record()
                for e in range(1, self.local_experts):
                    dist.all_to_all_single(out[e], chunk[e], group=self.group)
        for chunk in chunks:
            chunk.record_stream(self.stream)
        return outputs

    def gather(self, computed: List[torch.Tensor]) -> List[torch.Tensor]:
        outputs = [torch.empty_like(c) for c in computed]
        self.release()
        with torch.cuda.stream(self.stream):
            for out, c in zip(outputs, computed):
                for e in range(self.local_experts):
                    dist.all_to_all_single(out[e], c[e], group=self.group)
        torch.cuda.current_stream().wait_stream(self.stream)
        return outputs


class LocalExperts(nn.Module):
    def __init__(self, count: int, dim: int, inner: int):
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(count, dim, inner) * dim ** -0.5)
        self.w2 = nn.Parameter(torch.randn(count, inner, dim) * inner ** -0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        count, world, tokens, dim = x.shape
        flat = x.reshape(count, world * tokens, dim)
        return torch.bmm(torch.relu(torch.bmm(flat, self.w1)), self.w2).view_as(x)


class OverlappedMoE(nn.Module):
    def __init__(self, dim: int, inner: int, local_experts: int, degree: int, group):
        super().__init__()
        self.a2a = ChunkedAllToAll(degree, local_experts, group)
        self.experts = LocalExperts(local_experts, dim, inner)

    @torch.no_grad()
    def forward(self, dispatched: torch.Tensor) -> torch.Tensor:
        received = self.a2a.scatter(dispatched)
        computed = []
        for i, chunk in enumerate(received):
            self.a2a.acquire(i)
            computed.append(self.experts(chunk))
        combined = self.a2a.gather(computed)
        return torch.cat(combined, dim=2).reshape(dispatched.shape)


def main() -> None:
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    world = dist.get_world_size()
    local = 4
    layer = OverlappedMoE(1024, 4096, local, degree=4, group=dist.group.WORLD).cuda()
    for step in range(10):
        x = torch.randn(local * world, 256, 1024, device="cuda")
        y = layer(x)
        print(dist.get_rank(), step, y.norm().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
