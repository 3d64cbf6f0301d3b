"""Layerwise offloading of DiT blocks driven by forward hooks."""
from functools import partial

import torch
from torch import nn


class LayerwiseOffloader:
    """Keeps at most two blocks on the device."""

    def __init__(self, blocks: nn.ModuleList, device: torch.device):
        self.blocks = blocks
        self.device = device
        self.copy_stream = torch.cuda.Stream(device)
        self.host_weights: list[dict[str, torch.Tensor]] = []
        self._prefetch_done: dict[int, torch.cuda.Event] = {}
        for idx, block in enumerate(blocks):
            self.host_weights.append(
                {name: p.data.cpu().pin_memory() for name, p in block.named_parameters()}
            )
            self.release(block)
            block.register_forward_pre_hook(partial(self.pre_forward, idx))
            block.register_forward_hook(partial(self.post_forward, idx))
        self.prefetch_layer(0)

    def prefetch_layer(self, idx: int) -> None:
        self.copy_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.copy_stream):
            for name, p in self.blocks[idx].named_parameters():
                host = self.host_weights[idx][name]
                gpu = torch.empty(host.shape, dtype=host.dtype, device=self.device)
                gpu.copy_(host, non_blocking=True)
                p.data = gpu
            evt = torch.cuda.Event()
            evt.record(self.copy_stream)
        self._prefetch_done[idx] = evt

    def pre_forward(self, idx: int, module: nn.Module, args):
        torch.cuda.current_stream(self.device).wait_event(self._prefetch_done.pop(idx))
        self.prefetch_layer((idx + 1) % len(self.blocks))

    def post_forward(self, idx: int, module: nn.Module, args, output):
        self.release(module)

    def release(self, module: nn.Module) -> None:
        for p in module.parameters():
            p.data = torch.empty(0, dtype=p.dtype, device=self.device)


class DiTBlock(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, dim * 4)
        self.fc2 = nn.Linear(dim * 4, dim)

    def forward(self, x, shift):
        h = self.norm(x) + shift
        return x + self.fc2(torch.nn.functional.gelu(self.fc1(h)))


@torch.no_grad()
def sample(blocks: nn.ModuleList, steps: int, device: torch.device) -> torch.Tensor:
    x = torch.randn(2, 512, 768, device=device)
    for t in range(steps):
        shift = torch.full((1, 1, 768), t / steps, device=device)
        for block in blocks:
            x = block(x, shift)
    return x.float().cpu()


if __name__ == "__main__":
    dev = torch.device("cuda", torch.cuda.current_device())
    stack = nn.ModuleList(DiTBlock(768) for _ in range(8))
    LayerwiseOffloader(stack, dev)
    print(sample(stack, 10, dev).std())
