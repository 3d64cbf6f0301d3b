from collections import OrderedDict
from typing import NamedTuple

import torch


class Entry(NamedTuple):
    feature: torch.Tensor
    ready: torch.cuda.Event


class FeatureCache:
    """Encodes prompts on a side stream and keeps the most recent results."""

    def __init__(self, capacity: int, dim: int):
        self.capacity = capacity
        self.encoder = torch.nn.Sequential(torch.nn.Embedding(32000, dim), torch.nn.Linear(dim, dim)).cuda()
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        self.entries: "OrderedDict[tuple, Entry]" = OrderedDict()

    def _encode(self, key: tuple) -> Entry:
        ids = torch.tensor(key, dtype=torch.long).pin_memory()
        with torch.cuda.stream(self.stream):
            feature = self.encoder(ids.cuda(non_blocking=True)).mean(0)
            return Entry(feature, self.stream.record_event())

    def warm(self, key: tuple) -> None:
        if key not in self.entries:
            self._insert(key, self._encode(key))

    def _insert(self, key: tuple, entry: Entry) -> None:
        self.entries[key] = entry
        if len(self.entries) > self.capacity:
            self.entries.popitem(last=False)

    def lookup(self, key: tuple) -> torch.Tensor:
        entry = self.entries.get(key)
        if entry is not None:
            self.entries.move_to_end(key)
            return self._deliver(entry)
        entry = self._encode(key)
        self._insert(key, entry)
        return self._deliver(entry)

    @staticmethod
    def _deliver(entry: Entry) -> torch.Tensor:
        reader = torch.cuda.current_stream()
        if not entry.ready.query():
            reader.wait_event(entry.ready)
        entry.feature.record_stream(reader)
        return entry.feature


@torch.inference_mode()
def main():
    cache = FeatureCache(4, 512)
    prompts = [tuple(range(i, i + 12)) for i in range(9)]
    latents = torch.randn(64, 512, device="cuda")
    for step in range(90):
        cache.warm(prompts[(step + 1) % 9])
        text = cache.lookup(prompts[step % 9])
        latents = latents + 0.01 * torch.tanh(text) - 0.001 * latents
    print(latents.mean().item())


if __name__ == "__main__":
    main()
