"""Ragged text batches: pack on the host, upload on a side stream, embed on the caller's."""
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn


@dataclass
class Packed:
    ids: torch.Tensor
    offsets: torch.Tensor
    ready: torch.cuda.Event

    def on(self, stream):
        stream.wait_event(self.ready)
        self.ids.record_stream(stream)
        self.offsets.record_stream(stream)
        return self.ids, self.offsets


class Uploader:
    def __init__(self, device):
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)

    def _put(self, array):
        return torch.from_numpy(array).pin_memory().to(self.device, non_blocking=True)

    def encode(self, texts, vocab):
        rows = [np.fromiter((vocab.get(t, 0) for t in text.split()), dtype=np.int64) for text in texts]
        lengths = np.array([len(r) for r in rows], dtype=np.int64)
        ids = np.concatenate(rows) if len(rows) else np.zeros(0, dtype=np.int64)
        offsets = np.concatenate([[0], lengths.cumsum()[:-1]]).astype(np.int64)
        with torch.cuda.stream(self.stream):
            packed = Packed(self._put(ids), self._put(offsets), torch.cuda.Event())
            packed.ready.record()
        return packed


class TextTower(nn.Module):
    def __init__(self, vocab_size, dim=256):
        super().__init__()
        self.table = nn.EmbeddingBag(vocab_size, dim, mode="mean")
        self.head = nn.Sequential(nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, dim))

    def forward(self, ids, offsets):
        return nn.functional.normalize(self.head(self.table(ids, offsets)), dim=-1)


class Index:
    def __init__(self, vocab, device="cuda", lookahead=3):
        self.vocab = vocab
        self.device = torch.device(device)
        self.tower = TextTower(len(vocab) + 1).to(self.device).eval()
        self.uploader = Uploader(self.device)
        self.lookahead = lookahead

    @torch.inference_mode()
    def build(self, corpus, batch=512):
        chunks = [corpus[i : i + batch] for i in range(0, len(corpus), batch)]
        pending, parts = [], []
        stream = torch.cuda.current_stream(self.device)
        for chunk in chunks:
            pending.append(self.uploader.encode(chunk, self.vocab))
            if len(pending) > self.lookahead:
                parts.append(self.tower(*pending.pop(0).on(stream)))
        for packed in pending:
            parts.append(self.tower(*packed.on(stream)))
        return torch.cat(parts)

    @torch.inference_mode()
    def query(self, matrix, texts, k=5):
        packed = self.uploader.encode(texts, self.vocab)
        vec = self.tower(*packed.on(torch.cuda.current_stream(self.device)))
        return (vec @ matrix.t()).topk(k, dim=-1).indices.cpu()
