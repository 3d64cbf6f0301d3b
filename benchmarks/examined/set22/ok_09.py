"""Host-side cache for vision embeddings: saves and loads are asynchronous, eviction never blocks."""
from collections import OrderedDict
from dataclasses import dataclass, field

import torch


@dataclass
class Entry:
    host: torch.Tensor
    save_done: torch.cuda.Event
    pending_loads: list = field(default_factory=list)

    def idle(self):
        self.pending_loads = [e for e in self.pending_loads if not e.query()]
        return self.save_done.query() and not self.pending_loads


class EmbeddingCacheConnector:
    def __init__(self, capacity_bytes, device):
        self.capacity = capacity_bytes
        self.device = device
        self.used = 0
        self.entries = OrderedDict()
        self.retired = []
        self.free_buffers = []
        self.save_stream = torch.cuda.Stream(device)

    def _reap(self):
        still = []
        for entry in self.retired:
            if entry.idle():
                self.free_buffers.append(entry.host)
            else:
                still.append(entry)
        self.retired = still

    def _buffer(self, like):
        self._reap()
        for i, buf in enumerate(self.free_buffers):
            if buf.shape == like.shape and buf.dtype == like.dtype:
                return self.free_buffers.pop(i)
        return torch.empty(like.shape, dtype=like.dtype, pin_memory=True)

    def save(self, key, embedding):
        if key in self.entries:
            self.entries.move_to_end(key)
            return
        nbytes = embedding.numel() * embedding.element_size()
        while self.entries and self.used + nbytes > self.capacity:
            _, old = self.entries.popitem(last=False)
            self.used -= old.host.numel() * old.host.element_size()
            self.retired.append(old)
        host = self._buffer(embedding)
        self.save_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.save_stream):
            host.copy_(embedding, non_blocking=True)
            embedding.record_stream(self.save_stream)
            done = torch.cuda.Event()
            done.record(self.save_stream)
        self.entries[key] = Entry(host, done)
        self.used += nbytes

    def load(self, key):
        entry = self.entries.get(key)
        if entry is None:
            return None
        self.entries.move_to_end(key)
        compute = torch.cuda.current_stream(self.device)
        compute.wait_event(entry.save_done)
        out = entry.host.to(self.device, non_blocking=True)
        loaded = torch.cuda.Event()
        loaded.record(compute)
        entry.pending_loads.append(loaded)
        return out


class EncoderRunner:
    def __init__(self, vit, device, capacity_bytes=1 << 30):
        self.vit = vit
        self.device = device
        self.cache = EmbeddingCacheConnector(capacity_bytes, device)

    @torch.inference_mode()
    def embed(self, items):
        out = []
        for key, pixels in items:
            emb = self.cache.load(key)
            if emb is None:
                emb = self.vit(pixels.to(self.device, non_blocking=True))
                self.cache.save(key, emb)
            out.append(emb)
        return out
