from typing import Dict, List

import torch
import torch.nn.functional as F


class StreamedBlocks:
    """Run a stack of MLP blocks whose weights live in pinned host memory."""

    def __init__(self, host_blocks: List[Dict[str, torch.Tensor]], device: torch.device, depth: int = 2):
        self.host_blocks = host_blocks
        self.depth = depth
        self.load_stream = torch.cuda.Stream(device)
        self.slots = [
            {k: torch.empty_like(v, device=device, pin_memory=False) for k, v in host_blocks[0].items()}
            for _ in range(depth)
        ]
        self.load_stream.wait_stream(torch.cuda.current_stream(device))
        self.loaded: Dict[int, torch.cuda.Event] = {}
        self.consumed: Dict[int, torch.cuda.Event] = {}

    def _fill(self, idx: int) -> None:
        slot = idx % self.depth
        released = self.consumed.pop(slot, None)
        if released is not None:
            self.load_stream.wait_event(released)
        with torch.cuda.stream(self.load_stream):
            for name, src in self.host_blocks[idx].items():
                self.slots[slot][name].copy_(src, non_blocking=True)
            self.loaded[slot] = self.load_stream.record_event()

    def _run_block(self, idx: int, x: torch.Tensor) -> torch.Tensor:
        slot = idx % self.depth
        current = torch.cuda.current_stream()
        current.wait_event(self.loaded.pop(slot))
        w = self.slots[slot]
        x = x + F.linear(F.gelu(F.linear(x, w["up"])), w["down"])
        self.consumed[slot] = current.record_event()
        return x

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = len(self.host_blocks)
        self._fill(0)
        for i in range(n):
            if i + 1 < n:
                self._fill(i + 1)
            x = self._run_block(i, x)
        return x


def main():
    device = torch.device("cuda:0")
    blocks = [
        {"up": torch.randn(4096, 1024).pin_memory(), "down": torch.randn(1024, 4096).pin_memory()}
        for _ in range(13)
    ]
    runner = StreamedBlocks(blocks, device)
    for step in range(8):
        x = torch.randn(16, 1024, device=device)
        y = runner.forward(x)
        print(step, y.norm().item())


if __name__ == "__main__":
    main()
