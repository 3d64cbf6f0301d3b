"""Laplacian pyramid fusion; filters run on their own stream with caller-side scratch memory."""
from collections import deque
from typing import Deque, List, Tuple

import torch
import torch.nn.functional as F


class ScratchKeeper:
    def __init__(self, limit: int = 12):
        self.limit = limit
        self._held: Deque[Tuple[torch.cuda.Event, Tuple[torch.Tensor, ...]]] = deque()

    def hold(self, stream: torch.cuda.Stream, *tensors: torch.Tensor) -> None:
        self._held.append((stream.record_event(), tensors))
        while self._held and self._held[0][0].query():
            self._held.popleft()
        while len(self._held) > self.limit:
            self._held[0][0].synchronize()
            self._held.popleft()

    def flush(self) -> None:
        while self._held:
            self._held[0][0].synchronize()
            self._held.popleft()


class PyramidFusion:
    def __init__(self, levels: int, device: torch.device):
        self.levels = levels
        self.filter_stream = torch.cuda.Stream(device)
        self.keeper = ScratchKeeper()
        taps = torch.tensor([1.0, 4.0, 6.0, 4.0, 1.0], device=device)
        self.kernel = (taps[:, None] * taps[None, :] / 256.0)[None, None]
        torch.cuda.synchronize(device)

    def _detail(self, image: torch.Tensor, out: torch.Tensor) -> None:
        """out += image - blur(image), on the filter stream."""
        current = torch.cuda.current_stream()
        blurred = torch.empty_like(image)
        self.filter_stream.wait_stream(current)
        with torch.cuda.stream(self.filter_stream):
            blurred.copy_(F.conv2d(image, self.kernel, padding=2))
            torch.sub(image, blurred, out=blurred)
            out.add_(blurred)
        self.keeper.hold(self.filter_stream, image, blurred, out)

    @torch.no_grad()
    def fuse(self, stack: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """stack: [images, 1, height, width]; weights: [images, 1, height, width], summing to one."""
        current = torch.cuda.current_stream()
        details: List[torch.Tensor] = []
        level, mask = stack, weights
        for _ in range(self.levels):
            out = torch.zeros_like(level[:1])
            for image, weight in zip(level.split(1), mask.split(1)):
                self._detail(image * weight, out)
            details.append(out)
            level = F.avg_pool2d(level, 2)
            mask = F.avg_pool2d(mask, 2)
        result = (level * mask).sum(dim=0, keepdim=True)
        current.wait_stream(self.filter_stream)
        for out in reversed(details):
            result = F.interpolate(result, size=out.shape[-2:], mode="bilinear", align_corners=False) + out
        return result


def main() -> None:
    device = torch.device("cuda")
    fusion = PyramidFusion(6, device)
    for _ in range(10):
        stack = torch.rand(8, 1, 1024, 1024, device=device)
        weights = torch.softmax(torch.randn(8, 1, 1024, 1024, device=device), dim=0)
        fused = fusion.fuse(stack, weights)
    fusion.keeper.flush()
    print(fused.mean().item())


if __name__ == "__main__":
    main()
