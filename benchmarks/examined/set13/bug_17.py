from typing import List

import torch
import torch.nn as nn


class StageLink:
    def __init__(self, src: torch.device, dst: torch.device):
        self.src = src
        self.dst = dst
        self.copy_stream = torch.cuda.Stream(src)

    def send(self, x: torch.Tensor) -> torch.Tensor:
        compute = torch.cuda.current_stream(self.src)
        self.copy_stream.wait_stream(compute)
        with torch.cuda.stream(self.copy_stream):
            copied = x.to(self.dst, non_blocking=True)
        return copied


class PipelinedModel(nn.Module):
    def __init__(self, stages: List[nn.Module], devices: List[int], chunks: int):
        super().__init__()
        self.devices = [torch.device("cuda", d) for d in devices]
        self.stages = nn.ModuleList(s.to(d) for s, d in zip(stages, self.devices))
        self.links = [StageLink(a, b) for a, b in zip(self.devices[:-1], self.devices[1:])]
        self.chunks = chunks

    @torch.no_grad()
    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        micro = list(batch.to(self.devices[0]).chunk(self.chunks))
        slots: List = [None] * len(self.stages)
        outputs = []
        total = len(micro) + len(self.stages) - 1
        for tick in range(total):
            for i in reversed(range(len(self.stages))):
                if i == 0:
                    x = micro[tick] if tick < len(micro) else None
                else:
                    x = slots[i - 1]
                    slots[i - 1] = None
                if x is None:
                    continue
                with torch.cuda.device(self.devices[i]):
                    y = self.stages[i](x)
                if i + 1 < len(self.stages):
                    slots[i] = self.links[i].send(y)
                else:
                    outputs.append(y)
                y = None
        return torch.cat(outputs)


def build(width=4096, depth=12, devices=(0, 1, 2, 3), chunks=8):
    per = depth // len(devices)
    stages = [
        nn.Sequential(*[m for _ in range(per) for m in (nn.Linear(width, width), nn.GELU())])
        for _ in devices
    ]
    return PipelinedModel(stages, list(devices), chunks).eval()
