"""Two-GPU split model; activations hop between the devices' working streams."""
from contextlib import ExitStack
from typing import List

import torch
import torch.nn as nn


class Half(nn.Module):
    def __init__(self, width: int, depth: int):
        super().__init__()
        self.layers = nn.Sequential(*[nn.Sequential(nn.Linear(width, width), nn.SiLU()) for _ in range(depth)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class SplitModel:
    """Each device has a working stream; both are current while a batch is issued."""

    def __init__(self, width: int, depth: int, devices=(0, 1)):
        self.devices = [torch.device("cuda", d) for d in devices]
        self.halves = [Half(width, depth).to(d).eval() for d in self.devices]
        self.streams: List[torch.cuda.Stream] = []
        for d in self.devices:
            stream = torch.cuda.Stream(device=d)
            stream.wait_stream(torch.cuda.current_stream(d))
            self.streams.append(stream)

    @torch.inference_mode()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = self.devices
        caller = torch.cuda.current_stream(first)
        for device, stream in zip(self.devices, self.streams):
            stream.wait_stream(torch.cuda.current_stream(device))
        with ExitStack() as stack:
            for stream in self.streams:
                stack.enter_context(torch.cuda.stream(stream))
            h = self.halves[0](x.to(first))
            moved = h.to(second, non_blocking=True)
            out = self.halves[1](moved)
            back = out.to(first, non_blocking=True)
        caller.wait_stream(self.streams[0])
        back.record_stream(caller)
        return back


def main() -> None:
    width = 4096
    model = SplitModel(width, depth=8)
    inputs = [torch.randn(1024, width) for _ in range(16)]
    outputs = [model.forward(x) for x in inputs]
    print(torch.stack([o.float().mean() for o in outputs]).tolist())


if __name__ == "__main__":
    main()
