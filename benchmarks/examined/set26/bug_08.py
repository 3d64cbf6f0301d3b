import os

import torch
from safetensors.torch import save_file


class TransformerBlock(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.attn = torch.nn.Linear(dim, 3 * dim)
        self.proj = torch.nn.Linear(dim, dim)
        self.mlp = torch.nn.Linear(dim, 4 * dim)
        self.out = torch.nn.Linear(4 * dim, dim)

    def forward(self, x):
        q, k, v = self.attn(x).chunk(3, dim=-1)
        x = x + self.proj(torch.nn.functional.scaled_dot_product_attention(q, k, v))
        return x + self.out(torch.nn.functional.gelu(self.mlp(x)))


class BlockOffloader:
    """Keeps the last ``blocks_to_swap`` blocks in host memory between uses."""

    def __init__(self, blocks, blocks_to_swap):
        self.blocks = blocks
        self.swapped = set(range(len(blocks) - blocks_to_swap, len(blocks)))

    def to_device(self, index):
        for p in self.blocks[index].parameters():
            p.data = p.data.to("cuda", non_blocking=True)

    def to_host(self, index):
        for p in self.blocks[index].parameters():
            p.data = p.data.to("cpu", non_blocking=True)

    def forward(self, x):
        for i, block in enumerate(self.blocks):
            if i in self.swapped:
                self.to_device(i)
            x = block(x)
            if i in self.swapped:
                self.to_host(i)
        return x

    def offload_all(self):
        for i in range(len(self.blocks)):
            self.to_host(i)


class Saver:
    def __init__(self, offloader, save_root):
        self.offloader = offloader
        self.save_root = save_root

    def save_model(self, step):
        self.offloader.offload_all()
        state = {}
        for i, block in enumerate(self.offloader.blocks):
            for name, p in block.named_parameters():
                state[f"blocks.{i}.{name}"] = p.data
        save_file(state, os.path.join(self.save_root, f"step{step}.safetensors"))
        for i in range(len(self.offloader.blocks)):
            if i not in self.offloader.swapped:
                self.offloader.to_device(i)


@torch.no_grad()
def run_ema(loader, dim=3072, layers=40, swap=20, root="output"):
    blocks = torch.nn.ModuleList([TransformerBlock(dim) for _ in range(layers)])
    for block in blocks[: layers - swap]:
        block.cuda()
    offloader = BlockOffloader(blocks, swap)
    saver = Saver(offloader, root)
    for step, latents in enumerate(loader):
        offloader.forward(latents.cuda())
        if step % 500 == 0:
            saver.save_model(step)
