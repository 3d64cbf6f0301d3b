from typing import Dict, List, Optional

import torch
import torch.nn as nn


class ModuleGroup:
    """Block-level group that lives in pinned memory between its forwards."""

    def __init__(self, modules: List[nn.Module], device: torch.device, stream: torch.cuda.Stream):
        self.modules = modules
        self.device = device
        self.stream = stream
        self.cpu_param_dict: Dict[nn.Parameter, torch.Tensor] = {}
        self.onloaded = False
        for param in self._parameters():
            pinned = param.data.cpu().pin_memory()
            self.cpu_param_dict[param] = pinned
            param.data = pinned

    def _parameters(self):
        for module in self.modules:
            yield from module.parameters()

    @torch.no_grad()
    def onload_(self, wait: bool = False) -> None:
        if not self.onloaded:
            with torch.cuda.stream(self.stream):
                for param in self._parameters():
                    param.data = self.cpu_param_dict[param].to(self.device, non_blocking=True)
            self.onloaded = True
        if wait:
            self.stream.synchronize()

    @torch.no_grad()
    def offload_(self) -> None:
        torch.cuda.current_stream(self.device).synchronize()
        for param in self._parameters():
            param.data = self.cpu_param_dict[param]
        self.onloaded = False


class LazyPrefetchHook:
    """Learns the execution order in the first pass and prefetches in later ones."""

    def __init__(self, groups: List[ModuleGroup]):
        self.groups = groups
        self.order: List[int] = []
        self.learned = False

    def before(self, idx: int) -> None:
        self.groups[idx].onload_(wait=True)
        if self.learned:
            position = self.order.index(idx)
            if position + 1 < len(self.order):
                self.groups[self.order[position + 1]].onload_()
        else:
            self.order.append(idx)

    def after(self, idx: int) -> None:
        self.groups[idx].offload_()
        if not self.learned and len(self.order) == len(self.groups):
            self.learned = True


class WanTransformer(nn.Module):
    def __init__(self, dim: int, depth: int):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim)) for _ in range(depth)])
        self.prefetch: Optional[LazyPrefetchHook] = None

    def enable_group_offload(self, device: torch.device) -> None:
        stream = torch.cuda.Stream(device)
        self.prefetch = LazyPrefetchHook([ModuleGroup([b], device, stream) for b in self.blocks])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i, block in enumerate(self.blocks):
            self.prefetch.before(i)
            x = x + block(x)
            self.prefetch.after(i)
        return x


@torch.no_grad()
def main(steps: int = 20, dim: int = 2048) -> torch.Tensor:
    device = torch.device("cuda")
    model = WanTransformer(dim, 24)
    model.enable_group_offload(device)
    latents = torch.randn(2048, dim, device=device)
    for _ in range(steps):
        latents = latents - 0.05 * model(latents)
    return latents.cpu()
