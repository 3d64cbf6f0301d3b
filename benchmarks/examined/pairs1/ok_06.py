"""Group offloading for a diffusion transformer, weights onloaded on a transfer stream."""
import torch
from torch import nn


class ModuleGroup:
    def __init__(self, module, stream, device="cuda"):
        self.module = module
        self.stream = stream
        self.device = device
        self.cpu_params = {p: p.data.pin_memory() for p in module.parameters()}
        self.offload()

    def onload(self):
        consumer = torch.cuda.current_stream()
        with torch.cuda.stream(self.stream):
            for p, host in self.cpu_params.items():
                p.data = host.to(self.device, non_blocking=True)
                p.data.record_stream(consumer)

    def offload(self):
        for p, host in self.cpu_params.items():
            p.data = host


class GroupOffloader:
    def __init__(self, blocks):
        self.stream = torch.cuda.Stream()
        self.groups = [ModuleGroup(b, self.stream) for b in blocks]
        for i, b in enumerate(blocks):
            b.register_forward_pre_hook(self._pre(i))
            b.register_forward_hook(self._post(i))

    def _pre(self, i):
        def hook(module, args):
            if i == 0:
                self.groups[0].onload()
            torch.cuda.current_stream().wait_stream(self.stream)
            if i + 1 < len(self.groups):
                self.groups[i + 1].onload()
        return hook

    def _post(self, i):
        def hook(module, args, output):
            self.groups[i].offload()
        return hook


@torch.no_grad()
def denoise(steps=8, width=1024):
    blocks = [nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(12)]
    GroupOffloader(blocks)
    x = torch.randn(256, width, device="cuda")
    for _ in range(steps):
        h = x
        for block in blocks:
            h = block(h)
        x = x - 0.1 * h
    return x.cpu()


if __name__ == "__main__":
    print(denoise().shape)
