"""Sharded parameters gathered ahead of use; a fused mixer on top of them."""
from typing import Dict, List

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


class GatherPipeline:
    """Gathers the weight of each leaf on a side stream."""

    def __init__(self, leaves: List[nn.Module], group=None):
        self.group = group
        self.world = dist.get_world_size(group)
        self.rank = dist.get_rank(group)
        self.stream = torch.cuda.Stream()
        self.leaves = leaves
        self.shards: Dict[nn.Module, torch.Tensor] = {}
        self.full: Dict[nn.Module, torch.Tensor] = {}
        self.ready: Dict[nn.Module, torch.cuda.Event] = {}
        for leaf in leaves:
            flat = leaf.weight.detach().reshape(-1)
            per_rank = flat.numel() // self.world
            lo = self.rank * per_rank
            self.shards[leaf] = flat[lo:lo + per_rank].clone()
            self.full[leaf] = torch.empty_like(flat)
            self.ready[leaf] = torch.cuda.Event()
            leaf.weight.data = self.full[leaf].view_as(leaf.weight)
            leaf.register_forward_pre_hook(self._pre_forward)

    def prefetch(self) -> None:
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for leaf in self.leaves:
                dist.all_gather_into_tensor(self.full[leaf], self.shards[leaf], group=self.group)
                self.ready[leaf].record(self.stream)

    def _pre_forward(self, module: nn.Module, args) -> None:
        torch.cuda.current_stream().wait_event(self.ready[module])

    @torch.no_grad()
    def step(self, lr: float) -> None:
        for leaf in self.leaves:
            self.shards[leaf].mul_(1.0 - lr)


def causal_conv(x: torch.Tensor, weight: torch.Tensor, groups: int) -> torch.Tensor:
    pad = weight.shape[-1] - 1
    return F.silu(F.conv1d(F.pad(x, (pad, 0)), weight, groups=groups))


class Mixer(nn.Module):
    def __init__(self, hidden: int, width: int = 4):
        super().__init__()
        self.hidden = hidden
        self.in_proj = nn.Linear(hidden, 2 * hidden, bias=False)
        self.conv1d = nn.Conv1d(hidden, hidden, width, groups=hidden, bias=False)
        self.out_proj = nn.Linear(hidden, hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z, gate = self.in_proj(x).chunk(2, dim=-1)
        z = causal_conv(z.transpose(1, 2), self.conv1d.weight, self.hidden)
        return self.out_proj(z.transpose(1, 2) * torch.sigmoid(gate))


class Model(nn.Module):
    def __init__(self, depth: int, hidden: int):
        super().__init__()
        self.mixers = nn.ModuleList(Mixer(hidden) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for mixer in self.mixers:
            x = x + mixer(x)
        return x


def leaves_of(model: Model) -> List[nn.Module]:
    found = []
    for mixer in model.mixers:
        found += [mixer.in_proj, mixer.conv1d, mixer.out_proj]
    return found


def main() -> None:
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    model = Model(depth=6, hidden=1024).cuda()
    pipeline = GatherPipeline(leaves_of(model))
    x = torch.randn(4, 512, 1024, device="cuda")
    for step in range(20):
        pipeline.prefetch()
        with torch.no_grad():
            y = model(x)
        pipeline.step(1e-3)
        print(step, y.norm().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
