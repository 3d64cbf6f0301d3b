"""LRU cache of document embeddings computed on a background stream."""
import collections
from typing import Iterable, List, Tuple

import torch
from torch import nn


class EmbeddingCache:
    def __init__(self, encoder: nn.Module, docs: torch.Tensor, capacity: int):
        self.encoder = encoder.eval()
        self.docs = docs
        self.device = docs.device
        self.capacity = capacity
        self.stream = torch.cuda.Stream(device=self.device)
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        for t in (docs, *encoder.parameters(), *encoder.buffers()):
            t.data.record_stream(self.stream)
        self._entries: "collections.OrderedDict[int, Tuple[torch.Tensor, torch.cuda.Event]]" = (
            collections.OrderedDict())
        self.hits = 0
        self.misses = 0

    @torch.no_grad()
    def prefetch(self, ids: Iterable[int]) -> None:
        for i in ids:
            if i in self._entries:
                continue
            with torch.cuda.stream(self.stream):
                value = self.encoder(self.docs[i : i + 1]).squeeze(0)
                ready = torch.cuda.Event()
                ready.record(self.stream)
            self._entries[i] = (value, ready)
            if len(self._entries) > self.capacity:
                self._entries.popitem(last=False)

    def get(self, i: int) -> torch.Tensor:
        if i in self._entries:
            self.hits += 1
        else:
            self.misses += 1
            self.prefetch([i])
        self._entries.move_to_end(i)
        value, ready = self._entries[i]
        current = torch.cuda.current_stream(self.device)
        current.wait_event(ready)
        value.record_stream(current)
        return value

    def gather(self, ids: List[int]) -> torch.Tensor:
        return torch.stack([self.get(i) for i in ids])

    def clear(self) -> None:
        self._entries.clear()


class Reranker:
    def __init__(self, cache: EmbeddingCache, device: torch.device):
        self.cache = cache
        self.urgent = torch.cuda.Stream(device=device, priority=-1)

    @torch.no_grad()
    def rank(self, query: torch.Tensor, ids: List[int], lookahead: List[int]) -> List[int]:
        caller = torch.cuda.current_stream(query.device)
        self.urgent.wait_stream(caller)
        query.record_stream(self.urgent)
        with torch.cuda.stream(self.urgent):
            docs = self.cache.gather(ids)
            self.cache.prefetch(lookahead)
            order = (docs @ query).argsort(descending=True).tolist()
        return [ids[j] for j in order]

    @torch.no_grad()
    def centroid(self, ids: List[int]) -> torch.Tensor:
        return self.cache.gather(ids).mean(dim=0)
