"""Batch feeder that overlaps host-to-device copies with the training step."""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch


@dataclass
class Sample:
    tokens: torch.Tensor
    mask: torch.Tensor


def _pinned(host: torch.Tensor) -> torch.Tensor:
    return torch.empty(host.shape, dtype=host.dtype, pin_memory=True).copy_(host)


class Feeder:
    """Yields device samples in the order of the source."""

    def __init__(self, source: Iterable[tuple[torch.Tensor, torch.Tensor]], device: torch.device):
        self._source = source
        self._device = device
        self._copy = torch.cuda.Stream(device=device)

    def _stage(self, pair: tuple[torch.Tensor, torch.Tensor]) -> tuple[Sample, torch.cuda.Event]:
        self._copy.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._copy):
            tokens = _pinned(pair[0]).to(self._device, non_blocking=True)
            mask = _pinned(pair[1]).to(self._device, non_blocking=True)
            sample = Sample(tokens.long(), mask.bool())
        return sample, self._copy.record_event()

    def __iter__(self) -> Iterator[Sample]:
        iterator = iter(self._source)
        try:
            staged = self._stage(next(iterator))
        except StopIteration:
            return
        for pair in iterator:
            upcoming = self._stage(pair)
            sample, ready = staged
            torch.cuda.current_stream(self._device).wait_event(ready)
            staged = upcoming
            yield sample
            del sample
        sample, ready = staged
        torch.cuda.current_stream(self._device).wait_event(ready)
        yield sample


class Bigram(torch.nn.Module):
    def __init__(self, vocab: int, dim: int):
        super().__init__()
        self.embed = torch.nn.Embedding(vocab, dim)
        self.head = torch.nn.Linear(dim, vocab)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.embed(tokens))


def corpus(steps: int, batch: int, length: int, vocab: int):
    gen = torch.Generator().manual_seed(7)
    for _ in range(steps):
        tokens = torch.randint(0, vocab, (batch, length + 1), generator=gen, dtype=torch.int32)
        mask = torch.rand(batch, length, generator=gen) > 0.1
        yield tokens, mask.to(torch.uint8)


def main() -> None:
    device = torch.device("cuda", torch.cuda.current_device())
    model = Bigram(512, 64).to(device)
    optim = torch.optim.AdamW(model.parameters(), lr=1e-3)
    history: list[Sample] = []
    running = torch.zeros((), device=device)
    for step, sample in enumerate(Feeder(corpus(50, 16, 128, 512), device)):
        logits = model(sample.tokens[:, :-1])
        losses = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), sample.tokens[:, 1:].flatten(), reduction="none"
        )
        loss = (losses * sample.mask.flatten()).sum() / sample.mask.sum().clamp(min=1)
        loss.backward()
        optim.step()
        optim.zero_grad(set_to_none=True)
        running += loss.detach()
        history.append(sample)
        if len(history) > 4:
            old = history.pop(0)
            running += 0.0 * old.mask.sum()
        if step % 10 == 9:
            print(step, running.item() / (step + 1))


if __name__ == "__main__":
    main()
