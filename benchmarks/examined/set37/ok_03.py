"""A network cut into two stages on two devices, each stage on a private stream."""
from typing import Iterable, List

import torch
from torch import nn


class DeviceStage(nn.Module):
    def __init__(self, width: int, depth: int):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            for _ in range(depth)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = x + block(x)
        return x


class TwoDevicePipeline:
    def __init__(self, width: int, depth: int, first: int = 0, second: int = 1):
        self.d0, self.d1 = torch.device("cuda", first), torch.device("cuda", second)
        self.front = DeviceStage(width, depth).to(self.d0).eval()
        self.back = DeviceStage(width, depth).to(self.d1).eval()
        self.s0, self.s1 = torch.cuda.Stream(self.d0), torch.cuda.Stream(self.d1)
        torch.cuda.synchronize(self.d0)
        torch.cuda.synchronize(self.d1)

    @torch.no_grad()
    def _launch(self, batch: torch.Tensor) -> torch.Tensor:
        """batch lives on the first device, the result on the second."""
        self.s0.wait_stream(torch.cuda.current_stream(self.d0))
        with torch.cuda.stream(self.s0), torch.cuda.stream(self.s1):
            mid = self.front(batch)
            moved = mid.to(self.d1, non_blocking=True)
            result = self.back(moved)
        batch.record_stream(self.s0)
        return result

    def _finish(self, results: List[torch.Tensor]) -> torch.Tensor:
        caller = torch.cuda.current_stream(self.d1)
        caller.wait_stream(self.s1)
        for item in results:
            item.record_stream(caller)
        return torch.cat(results)

    def run(self, batches: Iterable[torch.Tensor]) -> torch.Tensor:
        return self._finish([self._launch(batch) for batch in batches])


def main() -> None:
    if torch.cuda.device_count() < 2:
        raise SystemExit("two devices are needed")
    pipeline = TwoDevicePipeline(width=2048, depth=6)
    batches = [torch.randn(1024, 2048, device="cuda:0") for _ in range(16)]
    out = pipeline.run(batches)
    print(out.shape, out.float().std().item())


if __name__ == "__main__":
    main()
