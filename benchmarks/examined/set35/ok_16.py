"""Two-stage model over two GPUs; each stage has its own stream on its own device."""
from typing import Iterator, List

import torch
import torch.nn as nn


class Stage(nn.Module):
    def __init__(self, dims: List[int], device: torch.device):
        super().__init__()
        layers: List[nn.Module] = []
        for a, b in zip(dims[:-1], dims[1:]):
            layers += [nn.Linear(a, b), nn.GELU()]
        self.net = nn.Sequential(*layers).to(device)
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.stream.wait_stream(torch.cuda.current_stream(device))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)


class TwoStage:
    """Runs micro-batches of host tensors through both stages."""

    def __init__(self, first: Stage, second: Stage):
        self.first = first
        self.second = second

    @torch.inference_mode()
    def run(self, micro_batches: List[torch.Tensor]) -> List[torch.Tensor]:
        outputs: List[torch.Tensor] = []
        with torch.cuda.stream(self.second.stream), torch.cuda.stream(self.first.stream):
            for x in micro_batches:
                if x.is_cuda:
                    raise ValueError("expected host tensors")
                hidden = self.first(x.to(self.first.device, non_blocking=True))
                moved = hidden.to(self.second.device, non_blocking=True)
                outputs.append(self.second(moved))
        caller = torch.cuda.current_stream(self.second.device)
        caller.wait_stream(self.second.stream)
        for out in outputs:
            out.record_stream(caller)
        return outputs


class Scorer:
    def __init__(self, model: TwoStage, micro: int):
        self.model = model
        self.micro = micro

    def score(self, batch: torch.Tensor) -> torch.Tensor:
        parts = [p.pin_memory() for p in batch.split(self.micro)]
        outputs = self.model.run(parts)
        merged = torch.cat(outputs)
        return merged.square().mean(dim=1).cpu()


def batches(count: int, rows: int, dim: int) -> Iterator[torch.Tensor]:
    gen = torch.Generator().manual_seed(11)
    for _ in range(count):
        yield torch.randn(rows, dim, generator=gen)


def main() -> None:
    if torch.cuda.device_count() < 2:
        raise SystemExit("needs two GPUs")
    first = Stage([1024, 8192, 8192, 4096], torch.device("cuda", 0)).eval()
    second = Stage([4096, 8192, 8192, 256], torch.device("cuda", 1)).eval()
    scorer = Scorer(TwoStage(first, second), micro=256)
    for batch in batches(8, rows=2048, dim=1024):
        scores = scorer.score(batch)
        print(scores.mean().item(), scores.max().item())


if __name__ == "__main__":
    main()
