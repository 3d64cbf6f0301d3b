"""Parameter group with fp32 master shards and a gathered low-precision copy."""
from typing import Iterable, List

import torch
import torch.distributed as dist


class ParameterGroup:
    def __init__(self, params: List[torch.nn.Parameter], gather_stream: torch.cuda.Stream,
                 group: dist.ProcessGroup, dtype: torch.dtype = torch.bfloat16):
        self.params = params
        self.group = group
        self.gather_stream = gather_stream
        world, rank = dist.get_world_size(group), dist.get_rank(group)
        total = sum(p.numel() for p in params)
        self.shard_numel = (total + world - 1) // world
        device = params[0].device

        flat = torch.zeros(self.shard_numel * world, dtype=torch.float32, device=device)
        offset = 0
        for p in params:
            flat[offset:offset + p.numel()].copy_(p.detach().reshape(-1))
            offset += p.numel()
        self.main_weight = flat[rank * self.shard_numel:(rank + 1) * self.shard_numel].clone()

        with torch.cuda.stream(gather_stream):
            self.model_weight = self.main_weight.to(dtype)
            self.unsharded = torch.empty(self.shard_numel * world, dtype=dtype, device=device)
        self.gathered = torch.cuda.Event()

    def start_gather(self) -> None:
        self.gather_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.gather_stream):
            dist.all_gather_into_tensor(self.unsharded, self.model_weight, group=self.group)
            self.gathered.record()

    def finish_gather(self) -> None:
        torch.cuda.current_stream().wait_event(self.gathered)
        offset = 0
        for p in self.params:
            p.data = self.unsharded[offset:offset + p.numel()].view(p.shape)
            offset += p.numel()

    @torch.no_grad()
    def apply_update(self, update: torch.Tensor, lr: float) -> None:
        self.main_weight.add_(update, alpha=-lr)
        self.gather_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.gather_stream):
            self.model_weight.copy_(self.main_weight)


class ShardedModule(torch.nn.Module):
    def __init__(self, module: torch.nn.Module, group: dist.ProcessGroup):
        super().__init__()
        self.module = module
        self.gather_stream = torch.cuda.Stream()
        self.groups = [
            ParameterGroup(list(child.parameters()), self.gather_stream, group)
            for child in self._units(module)
        ]

    @staticmethod
    def _units(module: torch.nn.Module) -> Iterable[torch.nn.Module]:
        return [c for c in module.children() if any(True for _ in c.parameters())]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for g in self.groups:
            g.start_gather()
        for g in self.groups:
            g.finish_gather()
        return self.module(x)


def build(hidden: int, depth: int) -> torch.nn.Module:
    layers: List[torch.nn.Module] = []
    for _ in range(depth):
        layers += [torch.nn.Linear(hidden, hidden), torch.nn.GELU()]
    return torch.nn.Sequential(*layers)


def main() -> None:
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    model = ShardedModule(build(4096, 8).cuda(), dist.group.WORLD)
    x = torch.randn(64, 4096, device="cuda", dtype=torch.bfloat16)
    with torch.no_grad():
        for step in range(4):
            y = model(x)
            for g in model.groups:
                g.apply_update(torch.randn_like(g.main_weight), lr=1e-4)
            print(step, y.float().norm().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
