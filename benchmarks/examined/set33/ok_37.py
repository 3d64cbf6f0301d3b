from typing import List, Sequence

import torch
import torch.nn as nn


class Stage(nn.Module):
    def __init__(self, layers: Sequence[nn.Module], device: torch.device):
        super().__init__()
        self.layers = nn.Sequential(*layers).to(device)
        self.device = device

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.cuda.device(self.device):
            return self.layers(x.to(self.device, non_blocking=True))


class PipelinedModel(nn.Module):
    """Splits a layer list over the visible devices and runs micro-batches through it."""

    def __init__(self, layers: Sequence[nn.Module], devices: Sequence[torch.device], micro: int):
        super().__init__()
        per_stage = (len(layers) + len(devices) - 1) // len(devices)
        self.stages = nn.ModuleList(
            Stage(layers[i * per_stage : (i + 1) * per_stage], device)
            for i, device in enumerate(devices)
        )
        self.micro = micro

    @torch.inference_mode()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chunks: List[torch.Tensor] = list(x.chunk(self.micro))
        depth = len(self.stages)
        active = [None] * len(chunks)
        for tick in range(len(chunks) + depth - 1):
            for stage_index in reversed(range(depth)):
                chunk_index = tick - stage_index
                if not 0 <= chunk_index < len(chunks):
                    continue
                value = chunks[chunk_index] if stage_index == 0 else active[chunk_index]
                active[chunk_index] = self.stages[stage_index](value)
        return torch.cat(active)


def make_layers(depth: int, dim: int) -> List[nn.Module]:
    layers: List[nn.Module] = []
    for _ in range(depth):
        layers += [nn.Linear(dim, dim), nn.GELU()]
    return layers


def classify(model: PipelinedModel, batches) -> List[int]:
    first = model.stages[0].device
    predictions = []
    for batch in batches:
        inputs = batch.pin_memory().to(first, non_blocking=True)
        logits = model(inputs)
        predictions.extend(logits.argmax(dim=-1).tolist())
    return predictions


def main():
    count = max(torch.cuda.device_count(), 1)
    devices = [torch.device("cuda", i) for i in range(count)]
    model = PipelinedModel(make_layers(8, 1024), devices, micro=4)
    print(sum(classify(model, (torch.randn(256, 1024) for _ in range(8)))))


if __name__ == "__main__":
    main()
