"""Group offloading: parameters of a block are moved in before it runs and out afterwards."""
import torch
from torch import nn


class ModuleGroup:
    def __init__(self, module, device, stream, next_group=None):
        self.module = module
        self.device = device
        self.stream = stream
        self.next_group = next_group
        self.cpu = {p: p.data.pin_memory() for p in module.parameters()}
        self.on_device = False
        for p, host in self.cpu.items():
            p.data = host

    def _transfer(self, param, host):
        param.data = host.to(self.device, non_blocking=True)
        param.data.record_stream(torch.cuda.current_stream(self.device))

    def onload(self):
        if self.on_device:
            return
        with torch.cuda.stream(self.stream):
            for param, host in self.cpu.items():
                self._transfer(param, host)
        self.on_device = True

    def wait(self):
        torch.cuda.current_stream(self.device).wait_stream(self.stream)

    def offload(self):
        for param, host in self.cpu.items():
            param.data = host
        self.on_device = False

    def pre_forward(self, module, args):
        self.onload()
        self.wait()
        if self.next_group is not None:
            self.next_group.onload()

    def post_forward(self, module, args, output):
        self.offload()
        return output


def apply_group_offloading(blocks, device):
    stream = torch.cuda.Stream(device)
    groups = [ModuleGroup(block, device, stream) for block in blocks]
    for group, follower in zip(groups, groups[1:]):
        group.next_group = follower
    for block, group in zip(blocks, groups):
        block.register_forward_pre_hook(group.pre_forward)
        block.register_forward_hook(group.post_forward)


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


@torch.no_grad()
def main():
    device = torch.device("cuda")
    blocks = nn.ModuleList(Block(2048) for _ in range(16))
    apply_group_offloading(blocks, device)
    latents = torch.randn(4096, 2048, device=device)
    for _ in range(10):
        h = latents
        for block in blocks:
            h = block(h)
        latents = latents - 0.1 * h
    print(latents.std().item())


if __name__ == "__main__":
    main()
