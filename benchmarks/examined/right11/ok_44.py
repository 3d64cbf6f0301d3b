from __future__ import annotations

from typing import Iterable, Iterator

import torch
from torch.utils.data import DataLoader, Dataset


class RandomImages(Dataset):
    def __len__(self) -> int:
        return 512

    def __getitem__(self, i: int):
        gen = torch.Generator().manual_seed(i)
        return torch.randint(0, 256, (3, 64, 64), generator=gen, dtype=torch.uint8), i % 10


class PrefetchLoader:
    """Normalises on a copy stream, one batch ahead of the consumer."""

    def __init__(self, loader: Iterable, mean: list[float], std: list[float]) -> None:
        self.loader = loader
        self.mean = torch.tensor([255 * m for m in mean], device="cuda").view(1, 3, 1, 1)
        self.std = torch.tensor([255 * s for s in std], device="cuda").view(1, 3, 1, 1)
        self.stream = torch.cuda.Stream()

    def _stage(self, batch):
        images, target = batch
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            images = images.to("cuda", non_blocking=True)
            target = target.to("cuda", non_blocking=True)
            images = images.float().sub_(self.mean).div_(self.std)
        return images, target

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        source = iter(self.loader)
        first = next(source, None)
        if first is None:
            return
        ahead = self._stage(first)
        for batch in source:
            torch.cuda.current_stream().wait_stream(self.stream)
            now, ahead = ahead, None
            yield now
            del now
            ahead = self._stage(batch)
        torch.cuda.current_stream().wait_stream(self.stream)
        yield ahead


def main() -> None:
    loader = DataLoader(RandomImages(), batch_size=32, num_workers=2, pin_memory=True)
    batches = PrefetchLoader(loader, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, stride=2), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(10)
    ).cuda()
    opt = None
    for epoch in range(2):
        for images, target in batches:
            loss = torch.nn.functional.cross_entropy(net(images), target)
            opt = opt or torch.optim.SGD(net.parameters(), lr=0.01)
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()
