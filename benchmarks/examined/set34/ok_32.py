"""Two-device pipeline that recycles the boundary activation."""
from typing import List

import torch
import torch.nn as nn


class Stage(nn.Module):
    def __init__(self, dim: int, depth: int, device: torch.device):
        super().__init__()
        layers: List[nn.Module] = []
        for _ in range(depth):
            layers += [nn.Linear(dim, dim), nn.ReLU()]
        self.net = nn.Sequential(*layers).to(device)
        self.device = device
        self.stream = torch.cuda.Stream(device)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)


class TwoDevicePipeline:
    def __init__(self, dim: int, depth: int, micro: int):
        self.first = Stage(dim, depth, torch.device("cuda", 0))
        self.second = Stage(dim, depth, torch.device("cuda", 1))
        self.boundary = torch.zeros(micro, dim, device=self.first.device)
        self.landing = torch.zeros(micro, dim, device=self.second.device)
        self.collected = torch.zeros(dim, device=self.second.device)
        for stage in (self.first, self.second):
            torch.cuda.synchronize(stage.device)

    def _hand_over(self) -> None:
        with torch.cuda.stream(self.first.stream), torch.cuda.stream(self.second.stream):
            self.landing.copy_(self.boundary, non_blocking=True)

    @torch.inference_mode()
    def micro_batch(self, x: torch.Tensor) -> None:
        with torch.cuda.stream(self.first.stream):
            self.boundary.copy_(self.first(x))
        self._hand_over()
        with torch.cuda.stream(self.second.stream):
            self.collected.add_(self.second(self.landing).sum(dim=0))

    @torch.inference_mode()
    def run(self, batch: torch.Tensor, micro: int) -> torch.Tensor:
        self.first.stream.wait_stream(torch.cuda.current_stream(self.first.device))
        with torch.cuda.device(self.second.device), torch.cuda.stream(self.second.stream):
            self.collected.zero_()
        for x in batch.split(micro):
            self.micro_batch(x)
        batch.record_stream(self.first.stream)
        self.second.stream.synchronize()
        return self.collected.cpu()


def main(rounds: int = 20, micro: int = 256) -> None:
    pipe = TwoDevicePipeline(2048, 8, micro)
    with torch.cuda.device(0):
        for _ in range(rounds):
            batch = torch.randn(16 * micro, 2048, device="cuda:0")
            out = pipe.run(batch, micro)
            print(float(out.mean()))


if __name__ == "__main__":
    main()
