"""Group offloading with an onload stream."""
from contextlib import nullcontext

import torch
from torch import nn


class ModuleGroup:
    def __init__(self, modules, stream=None):
        self.modules = modules
        self.stream = stream
        self.host = {}
        for m in modules:
            for p in m.parameters():
                self.host[p] = p.data.cpu().pin_memory()
                p.data = self.host[p]

    def onload(self):
        if self.stream is not None:
            self.stream.synchronize()
        ctx = torch.cuda.stream(self.stream) if self.stream is not None else nullcontext()
        current = torch.cuda.current_stream()
        with ctx:
            for p, host in self.host.items():
                p.data = host.to("cuda", non_blocking=self.stream is not None)
                if self.stream is not None:
                    p.data.record_stream(current)

    def offload(self):
        for p, host in self.host.items():
            p.data = host


class GroupHook:
    def __init__(self, group: ModuleGroup):
        self.group = group
        self.next = None
        self.onloaded = False

    def ensure(self):
        if not self.onloaded:
            self.group.onload()
            self.onloaded = True

    def pre_forward(self, module, args):
        self.ensure()
        if self.group.stream is not None:
            self.group.stream.synchronize()
        if self.next is not None:
            self.next.ensure()

    def post_forward(self, module, args, output):
        self.group.offload()
        self.onloaded = False


def apply_group_offload(layers: nn.ModuleList, stream):
    hooks = []
    for layer in layers:
        hook = GroupHook(ModuleGroup([layer], stream))
        layer.register_forward_pre_hook(hook.pre_forward)
        layer.register_forward_hook(hook.post_forward)
        if hooks:
            hooks[-1].next = hook
        hooks.append(hook)


@torch.no_grad()
def main(use_stream: bool):
    layers = nn.ModuleList(nn.Linear(1024, 1024) for _ in range(6))
    apply_group_offload(layers, torch.cuda.Stream() if use_stream else None)
    x = torch.randn(4, 1024, device="cuda")
    for _ in range(3):
        for layer in layers:
            x = torch.tanh(layer(x))
    return x.sum().item()


if __name__ == "__main__":
    print(main(True), main(False))
