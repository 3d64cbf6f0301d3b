"""Paged KV store with host tier and load-back."""
from dataclasses import dataclass
from typing import Dict, List, Set, Tuple

import torch


@dataclass
class Move:
    host_page: int
    dev_page: int


class PagedStore:
    def __init__(self, layers: int, dev_pages: int, host_pages: int, page: int, width: int):
        self.pages = [
            torch.zeros(dev_pages, page, width, dtype=torch.half, device="cuda")
            for _ in range(layers)
        ]
        self.host = [
            torch.zeros(host_pages, page, width, dtype=torch.half, pin_memory=True)
            for _ in range(layers)
        ]
        self.load_stream = torch.cuda.Stream()
        self.load_stream.wait_stream(torch.cuda.current_stream())
        self.loaded = torch.cuda.Event()
        self.loaded.record(self.load_stream)
        self.joined: Set[int] = set()
        self.readers: Dict[int, torch.cuda.Stream] = {}

    def load_back(self, moves: List[Move]) -> None:
        self.load_stream.wait_stream(torch.cuda.current_stream())
        for reader in self.readers.values():
            self.load_stream.wait_stream(reader)
        with torch.cuda.stream(self.load_stream):
            for dev, host in zip(self.pages, self.host):
                for m in moves:
                    dev[m.dev_page].copy_(host[m.host_page], non_blocking=True)
        self.loaded.record(self.load_stream)
        self.joined.clear()

    def _join(self) -> None:
        stream = torch.cuda.current_stream()
        if stream.cuda_stream not in self.joined:
            stream.wait_event(self.loaded)
            self.joined.add(stream.cuda_stream)
            self.readers[stream.cuda_stream] = stream

    def layer(self, index: int, pages: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        self._join()
        rows = self.pages[index].index_select(0, pages).flatten(0, 1)
        return rows.chunk(2, dim=-1)


class Attention:
    def __init__(self, store: PagedStore, width: int):
        self.store = store
        self.scale = width ** -0.5

    @torch.inference_mode()
    def run(self, query: torch.Tensor, pages: torch.Tensor) -> torch.Tensor:
        hidden = query
        for index in range(len(self.store.pages)):
            key, value = self.store.layer(index, pages)
            scores = torch.softmax((hidden @ key.t()).float() * self.scale, dim=-1)
            hidden = hidden + scores.to(value.dtype) @ value
        return hidden


def main() -> None:
    width = 128
    store = PagedStore(layers=8, dev_pages=512, host_pages=2048, page=64, width=2 * width)
    for i, host in enumerate(store.host):
        host.fill_(0.01 * (i + 1))
    attention = Attention(store, width)
    pages = torch.arange(64, device="cuda")
    query = torch.randn(16, width, dtype=torch.half, device="cuda")
    draft = torch.cuda.Stream()
    for step in range(4):
        store.load_back([Move(step * 64 + i, i) for i in range(64)])
        draft.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(draft):
            guess = attention.run(query, pages)
        exact = attention.run(query, pages)
        torch.cuda.current_stream().wait_stream(draft)
        guess.record_stream(torch.cuda.current_stream())
        print(step, (guess - exact).abs().max().item())


if __name__ == "__main__":
    main()
