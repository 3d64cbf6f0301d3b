from typing import List

import torch
import torch.nn as nn
import torch.nn.functional as F


class HostBlock:
    def __init__(self, dim: int, inner: int):
        self.up = (torch.randn(inner, dim) * 0.02).half().pin_memory()
        self.down = (torch.randn(dim, inner) * 0.02).half().pin_memory()


class WeightSlot:
    def __init__(self, dim: int, inner: int, device: torch.device):
        self.up = torch.empty(inner, dim, device=device, dtype=torch.float16)
        self.down = torch.empty(dim, inner, device=device, dtype=torch.float16)
        self.loaded = torch.cuda.Event()
        self.released = torch.cuda.Event()
        self.block = -1


class StreamedMLPStack(nn.Module):
    """Runs more blocks than fit on the device; weights arrive one block ahead."""

    def __init__(self, blocks: List[HostBlock], device="cuda:0"):
        super().__init__()
        inner, dim = blocks[0].up.shape
        self.blocks = blocks
        self.device = torch.device(device)
        self.copy_stream = torch.cuda.Stream(self.device)
        self.slots = [WeightSlot(dim, inner, self.device) for _ in range(2)]
        self.turn = 0
        self.copy_stream.wait_stream(torch.cuda.current_stream(self.device))
        self._prefetch(0)

    def _prefetch(self, block: int) -> None:
        slot = self.slots[self.turn]
        self.turn ^= 1
        source = self.blocks[block]
        with torch.cuda.stream(self.copy_stream):
            self.copy_stream.wait_event(slot.released)
            slot.up.copy_(source.up, non_blocking=True)
            slot.down.copy_(source.down, non_blocking=True)
            slot.loaded.record(self.copy_stream)
        slot.block = block

    def _slot_of(self, block: int) -> WeightSlot:
        for slot in self.slots:
            if slot.block == block:
                return slot
        raise RuntimeError(f"block {block} was not prefetched")

    @torch.inference_mode()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        current = torch.cuda.current_stream(self.device)
        for i in range(len(self.blocks)):
            slot = self._slot_of(i)
            self._prefetch((i + 1) % len(self.blocks))
            current.wait_event(slot.loaded)
            hidden = F.gelu(F.linear(x, slot.up))
            x = x + F.linear(hidden, slot.down)
            slot.released.record(current)
        return x

    def close(self) -> None:
        torch.cuda.current_stream(self.device).wait_stream(self.copy_stream)


def main():
    stack = StreamedMLPStack([HostBlock(2048, 8192) for _ in range(12)])
    x = torch.randn(256, 2048, device="cuda:0", dtype=torch.float16)
    for _ in range(4):
        x = F.layer_norm(stack(x), (2048,))
    stack.close()
    print(float(x.float().abs().mean()))


if __name__ == "__main__":
    main()
