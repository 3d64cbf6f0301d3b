"""Loader stages as chained generators."""
import itertools
from collections import deque
from typing import Iterable, Iterator, NamedTuple

import torch


class Staged(NamedTuple):
    x: torch.Tensor
    ready: torch.cuda.Event


def to_device(batches: Iterable[torch.Tensor], stream: torch.cuda.Stream) -> Iterator[Staged]:
    for batch in batches:
        with torch.cuda.stream(stream):
            x = batch.pin_memory().to("cuda", non_blocking=True)
            ready = stream.record_event()
        yield Staged(x, ready)


def augment(items: Iterable[Staged], stream: torch.cuda.Stream) -> Iterator[Staged]:
    for item in items:
        stream.wait_event(item.ready)
        with torch.cuda.stream(stream):
            x = item.x.float().div(255)
            if torch.rand(()) < 0.5:
                x = x.flip(-1)
            x = x + 0.01 * torch.randn_like(x)
            item.x.record_stream(stream)
            ready = stream.record_event()
        yield Staged(x, ready)


def read_ahead(items: Iterator[Staged], depth: int) -> Iterator[Staged]:
    window = deque(itertools.islice(items, depth))
    while window:
        head = window.popleft()
        window.extend(itertools.islice(items, 1))
        yield head


def on_current_stream(items: Iterable[Staged]) -> Iterator[torch.Tensor]:
    for x, ready in items:
        current = torch.cuda.current_stream()
        current.wait_event(ready)
        x.record_stream(current)
        yield x


def pipeline(batches: Iterable[torch.Tensor], depth: int = 3) -> Iterator[torch.Tensor]:
    copies, maths = torch.cuda.Stream(), torch.cuda.Stream()
    staged = augment(to_device(batches, copies), maths)
    return on_current_stream(read_ahead(staged, depth))


def main():
    batches = (torch.randint(0, 256, (16, 3, 128, 128), dtype=torch.uint8) for _ in range(60))
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, stride=2), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
        torch.nn.Linear(16, 1),
    ).cuda()
    opt = torch.optim.Adam(net.parameters())
    for x in pipeline(batches):
        loss = (net(x).squeeze(1) - x.mean(dim=(1, 2, 3))).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(loss.item())


if __name__ == "__main__":
    main()
