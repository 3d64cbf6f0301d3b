"""Lazy results: the wait sits in a property of the base class."""
import abc

import torch
from torch import nn


class Deferred(abc.ABC):
    """A tensor produced on another stream, joined on first access."""

    def __init__(self, stream):
        self._stream = stream
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self._tensor = self._produce()
        self._event = stream.record_event()
        self._seen = set()

    @abc.abstractmethod
    def _produce(self):
        ...

    @property
    def value(self):
        stream = torch.cuda.current_stream()
        if stream.cuda_stream not in self._seen:
            stream.wait_event(self._event)
            self._tensor.record_stream(stream)
            self._seen.add(stream.cuda_stream)
        return self._tensor


class Lookup(Deferred):
    def __init__(self, stream, table, keys):
        self.table, self.keys = table, keys
        super().__init__(stream)

    def _produce(self):
        index = self.keys.pin_memory().to(self.table.device, non_blocking=True)
        return self.table.index_select(0, index)


class Noise(Deferred):
    def __init__(self, stream, shape):
        self.shape = shape
        super().__init__(stream)

    def _produce(self):
        return torch.randn(self.shape, device="cuda")


def plan(rng, table, streams, batch):
    keys = torch.randint(0, table.shape[0], (batch,), generator=rng)
    return Lookup(streams["lookup"], table, keys), Noise(streams["noise"], (batch, table.shape[1]))


def main(steps=100):
    streams = {name: torch.cuda.Stream() for name in ("lookup", "noise")}
    table = torch.randn(100_000, 128, device="cuda")
    denoiser = nn.Sequential(nn.Linear(128, 512), nn.SiLU(), nn.Linear(512, 128)).cuda()
    opt = torch.optim.Adam(denoiser.parameters(), lr=1e-3)
    rng = torch.Generator().manual_seed(0)
    upcoming = plan(rng, table, streams, 1024)
    for step in range(steps):
        rows, noise = upcoming
        if step + 1 < steps:
            upcoming = plan(rng, table, streams, 1024)
        noisy = rows.value + 0.3 * noise.value
        loss = (denoiser(noisy) - rows.value).square().mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if step % 25 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()
