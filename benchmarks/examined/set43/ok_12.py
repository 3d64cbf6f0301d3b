from typing import List

import torch
import torch.nn as nn


class Stage(nn.Module):
    def __init__(self, index: int, depth: int, width: int):
        super().__init__()
        self.device = torch.device("cuda", index)
        self.layers = nn.ModuleList(
            nn.Linear(width, width, device=self.device) for _ in range(depth)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.cuda.device(self.device):
            for layer in self.layers:
                x = x + torch.nn.functional.silu(layer(x))
        return x


class Tap:
    """Device-bound fetch of a small summary to the host."""

    def __init__(self, device: torch.device, numel: int):
        self.device = device
        self.stream = torch.cuda.Stream(device=device)
        self.host = torch.empty(numel, pin_memory=True)
        with torch.cuda.device(device):
            self.event = torch.cuda.Event()
        self.values: List[float] = []
        self.busy = False

    def collect(self):
        if self.busy:
            self.event.synchronize()
            self.values.append(float(self.host.mean()))
            self.busy = False

    def push(self, summary: torch.Tensor):
        self.collect()
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        summary.record_stream(self.stream)
        with torch.cuda.stream(self.stream):
            self.host.copy_(summary, non_blocking=True)
            self.event.record(self.stream)
        self.busy = True


class Pipeline:
    def __init__(self, width: int, depth: int, devices: int, rows: int):
        self.stages = [Stage(i, depth, width) for i in range(devices)]
        self.taps = [Tap(stage.device, rows) for stage in self.stages]

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for stage, tap in zip(self.stages, self.taps):
            if x.device != stage.device:
                x = x.to(stage.device, non_blocking=True)
            x = stage(x)
            tap.push(x.square().mean(dim=1))
        return x

    def report(self):
        for i, tap in enumerate(self.taps):
            tap.collect()
            print(i, len(tap.values), sum(tap.values) / len(tap.values))


def main():
    devices = torch.cuda.device_count()
    rows, width = 256, 2048
    pipe = Pipeline(width, depth=4, devices=devices, rows=rows)
    total = 0.0
    for _ in range(20):
        x = torch.randn((rows, width), device=pipe.stages[0].device)
        y = pipe.forward(x)
        total += y.norm().item()
    pipe.report()
    print(total)


if __name__ == "__main__":
    main()
