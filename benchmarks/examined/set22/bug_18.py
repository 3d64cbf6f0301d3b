"""Group offloading for diffusion transformers: the next group is onloaded while the current one runs."""
import torch
from torch import nn


class ModuleGroup:
    def __init__(self, modules, onload_device, stream):
        self.modules = modules
        self.onload_device = onload_device
        self.stream = stream
        self.next_group = None
        self.cpu_params = {
            p: p.data.cpu().pin_memory() for m in modules for p in m.parameters()
        }
        self.onloaded = False

    def onload_(self):
        if self.onloaded:
            return
        with torch.cuda.stream(self.stream):
            for p, source in self.cpu_params.items():
                p.data = source.to(self.onload_device, non_blocking=True)
        self.onloaded = True

    def offload_(self):
        current = torch.cuda.current_stream(self.onload_device)
        for p, source in self.cpu_params.items():
            p.data.record_stream(current)
            p.data = source
        self.onloaded = False


class GroupOffloadingHook:
    def __init__(self, group):
        self.group = group

    def pre_forward(self, module, args):
        self.group.onload_()
        if self.group.next_group is not None:
            self.group.next_group.onload_()

    def post_forward(self, module, args, output):
        self.group.offload_()
        return output


def apply_group_offloading(blocks, device):
    stream = torch.cuda.Stream(device)
    groups = []
    for block in blocks:
        group = ModuleGroup([block], device, stream)
        if groups:
            groups[-1].next_group = group
        groups.append(group)
        hook = GroupOffloadingHook(group)
        block.register_forward_pre_hook(hook.pre_forward)
        block.register_forward_hook(hook.post_forward)
    return groups


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        h = self.norm(x)
        x = x + self.attn(h, h, h, need_weights=False)[0]
        return x + self.mlp(x)


class Transformer(nn.Module):
    def __init__(self, dim, heads, depth):
        super().__init__()
        self.blocks = nn.ModuleList([Block(dim, heads) for _ in range(depth)])
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.out(x)


@torch.no_grad()
def denoise(latents, sigmas, dim=1536, heads=12, depth=30, device="cuda:0"):
    device = torch.device(device)
    model = Transformer(dim, heads, depth).eval()
    apply_group_offloading(model.blocks, device)
    model.out.to(device)
    x = latents.to(device)
    for sigma, sigma_next in zip(sigmas[:-1], sigmas[1:]):
        velocity = model(x)
        x = x + (sigma_next - sigma) * velocity
    return x.cpu()
