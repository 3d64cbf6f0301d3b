import torch
from torch import nn


class ModuleGroup:
    def __init__(self, modules, onload_device, stream=None, record_stream=False):
        self.modules = modules
        self.onload_device = torch.device(onload_device)
        self.stream = stream
        self.record_stream = record_stream
        self.cpu_params = {}
        for module in modules:
            for param in module.parameters():
                self.cpu_params[param] = param.data.cpu().pin_memory()

    @torch.compiler.disable()
    def onload_(self):
        with torch.cuda.stream(self.stream):
            for param, host in self.cpu_params.items():
                param.data = host.to(self.onload_device, non_blocking=True)
                if self.record_stream:
                    param.data.record_stream(self.stream)

    @torch.compiler.disable()
    def offload_(self):
        if not self.record_stream:
            torch.cuda.current_stream().synchronize()
        for param, host in self.cpu_params.items():
            param.data = host


class GroupOffloadingHook:
    def __init__(self, group, next_group=None):
        self.group = group
        self.next_group = next_group

    def pre_forward(self, module, args):
        if self.group.stream is None:
            self.group.onload_()
            return
        torch.cuda.current_stream().wait_stream(self.group.stream)
        if self.next_group is not None:
            self.next_group.onload_()

    def post_forward(self, module, args, output):
        self.group.offload_()


def apply_group_offloading(blocks, onload_device="cuda", record_stream=True):
    """Keeps two blocks on the device: the one that runs and the one after it."""
    stream = torch.cuda.Stream(onload_device)
    groups = [ModuleGroup([block], onload_device, stream, record_stream) for block in blocks]
    for i, block in enumerate(blocks):
        follower = groups[i + 1] if i + 1 < len(groups) else None
        hook = GroupOffloadingHook(groups[i], follower)
        block.register_forward_pre_hook(hook.pre_forward)
        block.register_forward_hook(hook.post_forward)
    return groups


class Transformer(nn.Module):
    def __init__(self, depth, width):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 16, 4 * width, batch_first=True) for _ in range(depth)
        )
        self.groups = apply_group_offloading(list(self.blocks))

    @torch.no_grad()
    def forward(self, x):
        self.groups[0].onload_()
        for block in self.blocks:
            x = block(x)
        return x


def sample(model, latents, steps):
    for i in range(steps):
        latents = latents - model(latents) / (i + 1)
    return latents.cpu()
