from __future__ import annotations

from contextlib import nullcontext
from typing import Optional

import torch
from torch import nn


class ModuleGroup:
    """A set of leaf modules that go to the device and back together."""

    def __init__(self, modules: list[nn.Module], stream: Optional[torch.cuda.Stream]) -> None:
        self.modules = modules
        self.stream = stream
        self.on_device = False
        self.cpu_params: dict[nn.Parameter, torch.Tensor] = {}
        for m in modules:
            for p in m.parameters():
                self.cpu_params[p] = p.data.cpu().pin_memory()
                p.data = self.cpu_params[p]

    def onload_(self) -> None:
        if self.on_device:
            return
        ctx = nullcontext() if self.stream is None else torch.cuda.stream(self.stream)
        if self.stream is not None:
            self.stream.synchronize()
        with ctx:
            for p, host in self.cpu_params.items():
                p.data = host.to("cuda", non_blocking=self.stream is not None)
        self.on_device = True

    def offload_(self) -> None:
        if self.stream is not None:
            torch.cuda.current_stream().synchronize()
        for p, host in self.cpu_params.items():
            p.data = host
        self.on_device = False


class GroupHook:
    def __init__(self, group: ModuleGroup) -> None:
        self.group = group
        self.next_group: Optional[ModuleGroup] = None

    def pre_forward(self, module: nn.Module, args):
        self.group.onload_()
        if self.group.stream is not None:
            self.group.stream.synchronize()
        if self.next_group is not None:
            self.next_group.onload_()
        return args

    def post_forward(self, module: nn.Module, args, output):
        self.group.offload_()
        return output


def apply_group_offloading(blocks: nn.ModuleList, use_stream: bool = True) -> list[GroupHook]:
    stream = torch.cuda.Stream() if use_stream else None
    hooks = [GroupHook(ModuleGroup([b], stream)) for b in blocks]
    for hook, following in zip(hooks, hooks[1:]):
        hook.next_group = following.group
    for block, hook in zip(blocks, hooks):
        block.register_forward_pre_hook(hook.pre_forward)
        block.register_forward_hook(hook.post_forward)
    return hooks


class Transformer(nn.Module):
    def __init__(self, dim: int, depth: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.SiLU()) for _ in range(depth)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = x + block(x)
        return x


@torch.no_grad()
def denoise(steps: int = 8) -> float:
    net = Transformer(1024, 12).eval()
    apply_group_offloading(net.blocks)
    latents = torch.randn(2, 64, 1024, device="cuda")
    for i in range(steps):
        latents = latents - 0.1 * net(latents) / (i + 1)
    return latents.std().item()


if __name__ == "__main__":
    print(denoise())
