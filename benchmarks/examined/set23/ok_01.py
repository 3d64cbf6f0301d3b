"""Embedding cache connector: encoder outputs are parked in a pinned arena."""
from collections import OrderedDict
from dataclasses import dataclass

import torch


@dataclass
class _Entry:
    offset: int
    nbytes: int
    shape: tuple
    dtype: torch.dtype
    save_done: torch.cuda.Event
    last_load: torch.cuda.Event | None = None


class PinnedArena:
    def __init__(self, capacity):
        self.storage = torch.empty(capacity, dtype=torch.uint8, pin_memory=True)
        self.free_list = [(0, capacity)]

    def allocate(self, nbytes):
        for i, (start, size) in enumerate(self.free_list):
            if size >= nbytes:
                if size == nbytes:
                    self.free_list.pop(i)
                else:
                    self.free_list[i] = (start + nbytes, size - nbytes)
                return start
        return None

    def release(self, start, nbytes):
        self.free_list.append((start, nbytes))
        self.free_list.sort()
        merged = []
        for s, n in self.free_list:
            if merged and merged[-1][0] + merged[-1][1] == s:
                merged[-1] = (merged[-1][0], merged[-1][1] + n)
            else:
                merged.append((s, n))
        self.free_list = merged

    def view(self, start, nbytes):
        return self.storage[start:start + nbytes]


class EmbeddingCacheConnector:
    def __init__(self, capacity=1 << 30):
        self.arena = PinnedArena(capacity)
        self.entries = OrderedDict()
        self.d2h_stream = torch.cuda.Stream()
        self.h2d_stream = torch.cuda.Stream()

    def _evict_until(self, nbytes):
        while (offset := self.arena.allocate(nbytes)) is None:
            _, victim = self.entries.popitem(last=False)
            victim.save_done.synchronize()
            if victim.last_load is not None:
                victim.last_load.synchronize()
            self.arena.release(victim.offset, victim.nbytes)
        return offset

    def save(self, key, embeds):
        if key in self.entries:
            return
        nbytes = embeds.numel() * embeds.element_size()
        offset = self._evict_until(nbytes)
        dst = self.arena.view(offset, nbytes)
        self.d2h_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.d2h_stream):
            dst.copy_(embeds.contiguous().view(-1).view(torch.uint8), non_blocking=True)
            embeds.record_stream(self.d2h_stream)
            done = torch.cuda.Event()
            done.record()
        self.entries[key] = _Entry(offset, nbytes, tuple(embeds.shape), embeds.dtype, done)

    def load(self, key):
        entry = self.entries[key]
        self.entries.move_to_end(key)
        compute = torch.cuda.current_stream()
        with torch.cuda.stream(self.h2d_stream):
            self.h2d_stream.wait_event(entry.save_done)
            out = torch.empty(entry.nbytes, dtype=torch.uint8, device="cuda")
            out.copy_(self.arena.view(entry.offset, entry.nbytes), non_blocking=True)
            entry.last_load = torch.cuda.Event()
            entry.last_load.record()
        compute.wait_event(entry.last_load)
        out.record_stream(compute)
        return out.view(entry.dtype).view(entry.shape)


class Runner:
    def __init__(self, encoder, connector):
        self.encoder = encoder
        self.connector = connector
        self.encoder_cache = {}

    @torch.inference_mode()
    def step(self, items, finished):
        for key, pixels in items:
            if key in self.connector.entries:
                self.encoder_cache[key] = self.connector.load(key)
            else:
                self.encoder_cache[key] = self.encoder(pixels.cuda(non_blocking=True))
                self.connector.save(key, self.encoder_cache[key])
        pooled = torch.stack([self.encoder_cache[k].mean(0) for k, _ in items])
        for key in finished:
            self.encoder_cache.pop(key, None)
        return pooled.sum(-1).tolist()


def main():
    encoder = torch.nn.Linear(1176, 2048).cuda().half()
    runner = Runner(encoder, EmbeddingCacheConnector(1 << 26))
    for step in range(64):
        keys = [(step * 3 + i) % 40 for i in range(8)]
        items = [(k, torch.randn(256, 1176, dtype=torch.half).pin_memory()) for k in keys]
        print(runner.step(items, finished=keys[:6])[0])


if __name__ == "__main__":
    main()
