"""Top-1 mixture-of-experts layer with one stream per expert group."""
from __future__ import annotations

import torch
from torch import nn


class Expert(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(nn.functional.silu(self.up(x)))


class StreamedMoE(nn.Module):
    def __init__(self, width: int, hidden: int, experts: int, lanes: int = 4) -> None:
        super().__init__()
        self.gate = nn.Linear(width, experts)
        self.experts = nn.ModuleList(Expert(width, hidden) for _ in range(experts))
        self.lanes = lanes
        self._streams: dict[torch.device, list[torch.cuda.Stream]] = {}

    def _lane(self, device: torch.device, index: int) -> torch.cuda.Stream:
        if device not in self._streams:
            self._streams[device] = [torch.cuda.Stream(device) for _ in range(self.lanes)]
        return self._streams[device][index % self.lanes]

    @torch.inference_mode()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shape = x.shape
        tokens = x.reshape(-1, shape[-1])
        weight, choice = self.gate(tokens).softmax(-1).max(-1)
        order = choice.argsort()
        grouped = tokens[order]
        counts = torch.bincount(choice, minlength=len(self.experts)).tolist()
        mixed = torch.empty_like(grouped)

        main = torch.cuda.current_stream(x.device)
        start = main.record_event()
        used: list[torch.cuda.Stream] = []
        offset = 0
        try:
            for index, count in enumerate(counts):
                if count == 0:
                    continue
                lane = self._lane(x.device, len(used))
                if len(used) < self.lanes:
                    lane.wait_event(start)
                used.append(lane)
                part = slice(offset, offset + count)
                with torch.cuda.stream(lane):
                    mixed[part].copy_(self.experts[index](grouped[part]))
                offset += count
        finally:
            for lane in used:
                main.wait_stream(lane)

        out = torch.empty_like(mixed)
        out[order] = mixed * weight[order].unsqueeze(-1)
        return out.view(shape)


class Stack(nn.Module):
    def __init__(self, depth: int, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(StreamedMoE(width, 2 * width, 8) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x))
        return x


def main() -> None:
    device = torch.device("cuda:0")
    model = Stack(6, 512).to(device).eval()
    with torch.inference_mode():
        y = model(torch.randn(4, 256, 512, device=device))
    print(y.std().item())


if __name__ == "__main__":
    main()
