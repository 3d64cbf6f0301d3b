from typing import Dict, List, Optional

import torch
import torch.nn as nn


class ModuleGroup:
    """Parameters that are moved to the accelerator and back together."""

    def __init__(self, modules: List[nn.Module], onload_device: torch.device, stream: torch.cuda.Stream):
        self.modules = modules
        self.onload_device = onload_device
        self.stream = stream
        self.cpu_param_dict: Dict[nn.Parameter, torch.Tensor] = {}
        for module in modules:
            for param in module.parameters():
                pinned = param.data.cpu().pin_memory()
                self.cpu_param_dict[param] = pinned
                param.data = pinned

    def _parameters(self):
        for module in self.modules:
            yield from module.parameters()

    @torch.no_grad()
    def onload_(self) -> None:
        current_stream = torch.cuda.current_stream(self.onload_device)
        with torch.cuda.stream(self.stream):
            for param in self._parameters():
                param.data = self.cpu_param_dict[param].to(self.onload_device, non_blocking=True)
                param.data.record_stream(current_stream)

    @torch.no_grad()
    def offload_(self) -> None:
        for param in self._parameters():
            param.data = self.cpu_param_dict[param]


class GroupOffloadingHook:
    def __init__(self, group: ModuleGroup, next_group: Optional[ModuleGroup] = None, onload_self: bool = False):
        self.group = group
        self.next_group = next_group
        self.onload_self = onload_self

    def pre_forward(self, module, args):
        if self.onload_self:
            self.group.onload_()
        if self.next_group is not None:
            self.next_group.onload_()
        return args

    def post_forward(self, module, args, output):
        self.group.offload_()
        return output


def apply_group_offloading(blocks: nn.ModuleList, onload_device: torch.device) -> None:
    stream = torch.cuda.Stream(onload_device)
    groups = [ModuleGroup([block], onload_device, stream) for block in blocks]
    for i, (block, group) in enumerate(zip(blocks, groups)):
        following = groups[i + 1] if i + 1 < len(groups) else None
        hook = GroupOffloadingHook(group, following, onload_self=(i == 0))
        block.register_forward_pre_hook(hook.pre_forward)
        block.register_forward_hook(hook.post_forward)


class Transformer(nn.Module):
    def __init__(self, dim: int, depth: int):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(dim, dim) for _ in range(depth)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = x + torch.relu(block(x))
        return x


@torch.no_grad()
def sample(dim: int = 4096, depth: int = 12, steps: int = 20) -> torch.Tensor:
    device = torch.device("cuda")
    model = Transformer(dim, depth)
    apply_group_offloading(model.blocks, device)
    latents = torch.randn(2, dim, device=device)
    for _ in range(steps):
        latents = latents - 0.05 * model(latents)
    return latents.cpu()
