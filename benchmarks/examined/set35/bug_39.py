"""Leaf-group offloading with one-ahead prefetch for a diffusion transformer."""
from typing import Dict, List, Optional

import torch
import torch.nn as nn
import torch.nn.functional as F


class LeafGroup:
    def __init__(self, module: nn.Module, device: torch.device, stream: torch.cuda.Stream):
        self.device = device
        self.stream = stream
        self.params: List[nn.Parameter] = list(module.parameters(recurse=False))
        self.cpu: Dict[nn.Parameter, torch.Tensor] = {}
        for p in self.params:
            self.cpu[p] = p.data.cpu().pin_memory()
            p.data = self.cpu[p]
        self.resident = False
        self.following: Optional["LeafGroup"] = None

    def onload(self) -> None:
        compute = torch.cuda.current_stream()
        with torch.cuda.stream(self.stream):
            for p in self.params:
                moved = self.cpu[p].to(self.device, non_blocking=True)
                moved.record_stream(compute)
                p.data = moved
        self.resident = True

    def offload(self) -> None:
        for p in self.params:
            p.data = self.cpu[p]
        self.resident = False


class LeafOffloadHook:
    def __init__(self, group: LeafGroup):
        self.group = group

    def pre_forward(self, module: nn.Module, args) -> None:
        group = self.group
        if not group.resident:
            group.onload()
            torch.cuda.current_stream().wait_stream(group.stream)
        if group.following is not None and not group.following.resident:
            group.following.onload()

    def post_forward(self, module: nn.Module, args, output):
        torch.cuda.current_stream().wait_stream(self.group.stream)
        self.group.offload()
        return output


def apply_leaf_offloading(model: nn.Module, device: torch.device) -> List[LeafGroup]:
    stream = torch.cuda.Stream(device=device)
    groups: List[LeafGroup] = []
    for module in model.modules():
        if not any(True for _ in module.parameters(recurse=False)):
            continue
        group = LeafGroup(module, device, stream)
        hook = LeafOffloadHook(group)
        module.register_forward_pre_hook(hook.pre_forward)
        module.register_forward_hook(hook.post_forward)
        if groups:
            groups[-1].following = group
        groups.append(group)
    return groups


class CaptionGate(nn.Module):
    """Owns a gain of its own and projects the caption inside its forward."""

    def __init__(self, width: int, text: int):
        super().__init__()
        self.gain = nn.Parameter(torch.zeros(width))
        self.proj = nn.Linear(text, width)

    def forward(self, x: torch.Tensor, caption: torch.Tensor) -> torch.Tensor:
        gate = torch.sigmoid(self.proj(caption)) + self.gain
        return x * gate[:, None, :]


class DiTBlock(nn.Module):
    def __init__(self, width: int, text: int):
        super().__init__()
        self.gate = CaptionGate(width, text)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, caption: torch.Tensor) -> torch.Tensor:
        h = self.gate(x, caption)
        return x + self.down(F.gelu(self.up(h)))


class DiT(nn.Module):
    def __init__(self, width: int = 3072, text: int = 4096, depth: int = 8):
        super().__init__()
        self.blocks = nn.ModuleList(DiTBlock(width, text) for _ in range(depth))

    def forward(self, x: torch.Tensor, caption: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x, caption)
        return x


@torch.inference_mode()
def sample(model: DiT, device: torch.device, steps: int = 8) -> torch.Tensor:
    x = torch.randn(2, 1024, 3072, device=device)
    caption = torch.randn(2, 4096, device=device)
    for i in range(steps):
        x = x - model(x, caption) / (2.0 + i)
    return x


if __name__ == "__main__":
    dev = torch.device("cuda", 0)
    net = DiT().eval()
    apply_leaf_offloading(net, dev)
    print(sample(net, dev).std().item())
