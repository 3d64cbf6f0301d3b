from concurrent.futures import Future, ThreadPoolExecutor
from typing import Dict, List

import torch
import torch.nn as nn


def swap_weight_devices_cuda(device, stream, finished, layer_to_cpu: nn.Module, layer_to_cuda: nn.Module) -> None:
    jobs = []
    for to_cpu, to_cuda in zip(layer_to_cpu.modules(), layer_to_cuda.modules()):
        if getattr(to_cpu, "weight", None) is not None:
            jobs.append((to_cpu, to_cuda, to_cpu.weight.data, to_cuda.weight.data))

    finished.synchronize()
    with torch.cuda.stream(stream), torch.no_grad():
        host_views = []
        for to_cpu, _, cuda_view, _ in jobs:
            host = torch.empty_like(cuda_view, device="cpu", pin_memory=True)
            host.copy_(cuda_view, non_blocking=True)
            host_views.append(host)
        stream.synchronize()
        for (to_cpu, to_cuda, cuda_view, cpu_view), host in zip(jobs, host_views):
            cuda_view.copy_(cpu_view, non_blocking=True)
            to_cuda.weight.data = cuda_view
            to_cpu.weight.data = host
        stream.synchronize()


class ModelOffloader:
    """Keeps a sliding window of blocks on the device during inference."""

    def __init__(self, blocks: List[nn.Module], blocks_to_swap: int, device: torch.device):
        self.blocks = blocks
        self.blocks_to_swap = blocks_to_swap
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.pool = ThreadPoolExecutor(max_workers=1)
        self.futures: Dict[int, Future] = {}

    def prepare(self) -> None:
        resident = len(self.blocks) - self.blocks_to_swap
        for i, block in enumerate(self.blocks):
            block.to(self.device)
            if i >= resident:
                for m in block.modules():
                    if getattr(m, "weight", None) is not None:
                        m.weight.data = m.weight.data.cpu().pin_memory()
        torch.cuda.synchronize(self.device)

    def submit_move(self, block_idx: int) -> None:
        incoming = (block_idx + len(self.blocks) - self.blocks_to_swap) % len(self.blocks)
        finished = torch.cuda.Event()
        finished.record()
        self.futures[incoming] = self.pool.submit(
            swap_weight_devices_cuda, self.device, self.stream, finished, self.blocks[block_idx], self.blocks[incoming]
        )

    def wait_for_block(self, block_idx: int) -> None:
        future = self.futures.pop(block_idx, None)
        if future is not None:
            future.result()


class Block(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.fc = nn.Linear(dim, dim, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        return x + self.proj(torch.nn.functional.silu(self.fc(x)))


@torch.no_grad()
def generate(steps: int = 20, depth: int = 32, swap: int = 20, dim: int = 3072) -> torch.Tensor:
    device = torch.device("cuda")
    blocks = [Block(dim) for _ in range(depth)]
    offloader = ModelOffloader(blocks, swap, device)
    offloader.prepare()
    latents = torch.randn(1024, dim, device=device)
    for _ in range(steps):
        x = latents
        for i, block in enumerate(blocks):
            offloader.wait_for_block(i)
            x = block(x)
            offloader.submit_move(i)
        latents = latents - 0.05 * x
    for i in list(offloader.futures):
        offloader.wait_for_block(i)
    return latents.cpu()
