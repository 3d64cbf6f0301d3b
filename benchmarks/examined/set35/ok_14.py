"""Double-buffered device loader with persistent batch tensors."""
from typing import Dict, Iterable, Iterator, List, Optional

import torch
import torch.nn as nn

Batch = Dict[str, torch.Tensor]


class DeviceLoader:
    """Two sets of device tensors; a batch is valid until the next one is requested."""

    def __init__(self, loader: Iterable[Batch], device: torch.device):
        self.loader = loader
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.sets: List[Optional[Batch]] = [None, None]

    def _fill(self, slot: int, host: Batch) -> Batch:
        if self.sets[slot] is None:
            self.sets[slot] = {k: torch.empty_like(v, device=self.device) for k, v in host.items()}
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            for key, value in host.items():
                self.sets[slot][key].copy_(value, non_blocking=True)
            self.sets[slot]["image"].sub_(0.5).mul_(2.0)
        return self.sets[slot]

    def __iter__(self) -> Iterator[Batch]:
        source = iter(self.loader)
        host = next(source, None)
        slot = 0
        following = self._fill(slot, host) if host is not None else None
        while following is not None:
            torch.cuda.current_stream(self.device).wait_stream(self.stream)
            batch = following
            host = next(source, None)
            slot = 1 - slot
            following = self._fill(slot, host) if host is not None else None
            yield batch


class HostLoader:
    def __init__(self, batches: int, rows: int):
        self.batches = batches
        self.rows = rows

    def __iter__(self) -> Iterator[Batch]:
        gen = torch.Generator().manual_seed(0)
        for _ in range(self.batches):
            image = torch.rand(self.rows, 3, 96, 96, generator=gen)
            label = torch.randint(10, (self.rows,), generator=gen)
            yield {"image": image.pin_memory(), "label": label.pin_memory()}


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 64, 3, stride=2), nn.ReLU(), nn.Conv2d(64, 128, 3, stride=2), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)


def train(model: nn.Module, loader: DeviceLoader, epochs: int) -> float:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    running = torch.zeros((), device=loader.device)
    for _ in range(epochs):
        for batch in loader:
            optimizer.zero_grad(set_to_none=True)
            loss = nn.functional.cross_entropy(model(batch["image"]), batch["label"])
            loss.backward()
            optimizer.step()
            running.mul_(0.9).add_(loss.detach(), alpha=0.1)
    return running.item()


def main() -> None:
    device = torch.device("cuda", 0)
    model = Classifier().to(device)
    print(train(model, DeviceLoader(HostLoader(40, 256), device), epochs=2))


if __name__ == "__main__":
    main()
