"""Group offloading: blocks visit the GPU one after another, the next one prefetched."""
import torch
import torch.nn as nn


class ModuleGroup:
    def __init__(self, module, onload_device, stream):
        self.module = module
        self.onload_device = torch.device(onload_device)
        self.stream = stream
        self.cpu_params = {p: p.data.pin_memory() for p in module.parameters()}
        for p, host in self.cpu_params.items():
            p.data = host
        self.on_device = False

    def onload_(self):
        if self.on_device:
            return
        with torch.cuda.stream(self.stream):
            for p, host in self.cpu_params.items():
                p.data = host.to(self.onload_device, non_blocking=True)
        self.on_device = True

    def wait_onload(self):
        torch.cuda.current_stream(self.onload_device).wait_stream(self.stream)

    def offload_(self):
        for p, host in self.cpu_params.items():
            p.data = host
        self.on_device = False


class GroupOffloadingHook:
    def __init__(self, group):
        self.group = group
        self.next_group = None

    def pre_forward(self, module, args):
        self.group.onload_()
        self.group.wait_onload()
        if self.next_group is not None:
            self.next_group.onload_()

    def post_forward(self, module, args, output):
        self.group.offload_()

    def install(self):
        self.group.module.register_forward_pre_hook(self.pre_forward)
        self.group.module.register_forward_hook(self.post_forward)


def apply_group_offloading(blocks, device):
    stream = torch.cuda.Stream(device)
    hooks = [GroupOffloadingHook(ModuleGroup(b, device, stream)) for b in blocks]
    for hook, following in zip(hooks, hooks[1:]):
        hook.next_group = following.group
    for hook in hooks:
        hook.install()
    return hooks


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.nn.functional.silu(self.up(self.norm(x))))


class Denoiser(nn.Module):
    def __init__(self, depth, width):
        super().__init__()
        self.blocks = nn.ModuleList([Block(width) for _ in range(depth)])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


@torch.no_grad()
def sample(model, steps, shape, device):
    x = torch.randn(shape, device=device)
    for _ in range(steps):
        x = x - 0.1 * model(x)
    return x


def main():
    device = "cuda:0"
    model = Denoiser(12, 1536).eval()
    apply_group_offloading(model.blocks, device)
    print(sample(model, 8, (4096, 1536), device).std().item())


if __name__ == "__main__":
    main()
