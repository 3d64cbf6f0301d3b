"""Two-device pipeline over micro-batches with results collected on the host."""
from __future__ import annotations

import torch
from torch import nn


class TwoStage:
    def __init__(self, first: nn.Module, second: nn.Module, dev0: torch.device, dev1: torch.device):
        self.dev0, self.dev1 = dev0, dev1
        self.first = first.to(dev0).eval()
        self.second = second.to(dev1).eval()
        self._host: torch.Tensor | None = None

    def _host_buffer(self, rows: int, width: int, dtype: torch.dtype) -> torch.Tensor:
        if (
            self._host is None
            or self._host.shape[0] < rows
            or self._host.shape[1] != width
            or self._host.dtype != dtype
        ):
            self._host = torch.empty(rows, width, dtype=dtype, pin_memory=True)
        return self._host[:rows]

    @torch.inference_mode()
    def run(self, batch: torch.Tensor, micro: int) -> torch.Tensor:
        host = None
        row = 0
        carried: torch.Tensor | None = None
        chunks = [c.to(self.dev0, non_blocking=True) for c in batch.split(micro)]
        for chunk in chunks + [None]:
            incoming = None
            if chunk is not None:
                incoming = self.first(chunk).to(self.dev1, non_blocking=True)
            if carried is not None:
                out = self.second(carried)
                if host is None:
                    host = self._host_buffer(batch.shape[0], out.shape[1], out.dtype)
                host[row:row + out.shape[0]].copy_(out, non_blocking=True)
                row += out.shape[0]
            carried = incoming
        if host is None:
            return torch.empty(0)
        torch.cuda.current_stream(self.dev1).synchronize()
        return host.clone()


def tower(width: int, depth: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.GELU()]
    return nn.Sequential(*layers)


def main() -> None:
    if torch.cuda.device_count() < 2:
        raise SystemExit("needs two devices")
    pipe = TwoStage(
        tower(1024, 6), tower(1024, 6), torch.device("cuda:0"), torch.device("cuda:1")
    )
    total = torch.zeros(1024)
    for _ in range(8):
        batch = torch.randn(512, 1024).pin_memory()
        total += pipe.run(batch, 64).sum(0)
    print(total.norm().item())


if __name__ == "__main__":
    main()
