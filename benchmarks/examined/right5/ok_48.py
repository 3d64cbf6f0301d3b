from typing import Dict, List, Optional

import torch
from torch import nn


class ModuleGroup:
    """A leaf group whose parameters are swapped between pinned host and device storage."""

    def __init__(self, module: nn.Module, stream: torch.cuda.Stream, device: torch.device):
        self.module, self.stream, self.device = module, stream, device
        self.host: Dict[nn.Parameter, torch.Tensor] = {}
        for p in module.parameters():
            self.host[p] = p.data.cpu().pin_memory()
            p.data = self.host[p]

    def onload(self) -> None:
        with torch.cuda.stream(self.stream):
            for p, h in self.host.items():
                p.data = h.to(self.device, non_blocking=True)

    def settle(self) -> None:
        self.stream.synchronize()
        current = torch.cuda.current_stream()
        for p in self.host:
            p.data.record_stream(current)

    def offload(self) -> None:
        for p, h in self.host.items():
            p.data = h


class GroupOffloadHook:
    def __init__(self, group: ModuleGroup):
        self.group = group
        self.next: Optional["GroupOffloadHook"] = None
        self.resident = False
        group.module.register_forward_pre_hook(self.pre_forward)
        group.module.register_forward_hook(self.post_forward)

    def pre_forward(self, module, args):
        if not self.resident:
            self.group.onload()
        self.group.settle()
        if self.next is not None:
            self.next.group.onload()
            self.next.resident = True

    def post_forward(self, module, args, output):
        self.group.offload()
        self.resident = False


def apply_group_offloading(model: nn.Sequential, device: torch.device) -> List[GroupOffloadHook]:
    stream = torch.cuda.Stream(device)
    hooks = [GroupOffloadHook(ModuleGroup(m, stream, device)) for m in model]
    for a, b in zip(hooks, hooks[1:]):
        a.next = b
    return hooks


@torch.no_grad()
def main():
    device = torch.device("cuda:0")
    model = nn.Sequential(*[nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)) for _ in range(10)])
    apply_group_offloading(model, device)
    latents = torch.randn(16, 1024, device=device)
    for t in range(20):
        latents = latents - 0.05 * model(latents)
    print(latents.norm().item())


if __name__ == "__main__":
    main()
