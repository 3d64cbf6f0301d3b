"""Decoder context of an embedding server: logits and pooled embeddings go to pinned host memory."""
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn


@dataclass
class Batch:
    tokens: list
    seq_ids: list
    want_logits: bool = False
    pooled: dict = field(default_factory=dict)


class Encoder(nn.Module):
    def __init__(self, vocab=32000, dim=512):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.block = nn.TransformerEncoderLayer(dim, 8, batch_first=True)
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids):
        return self.block(self.embed(ids))


class DecodeContext:
    def __init__(self, model, n_seq_max, vocab=32000, dim=512, device="cuda:0"):
        self.model = model.to(device).eval()
        self.device = device
        self.host_logits = torch.empty((n_seq_max, vocab), pin_memory=True)
        self.host_embd = torch.empty((n_seq_max, dim), pin_memory=True)
        self.logits_ready = torch.cuda.Event()
        self.n_out = 0

    @torch.inference_mode()
    def decode(self, batch):
        ids = torch.tensor(batch.tokens, device=self.device)
        hidden = self.model(ids)
        self.n_out = hidden.shape[0]
        if batch.want_logits:
            logits = self.model.head(hidden[:, -1])
            self.host_logits[: self.n_out].copy_(logits, non_blocking=True)
            self.logits_ready.record()
        else:
            pooled = torch.nn.functional.normalize(hidden.mean(dim=1), dim=-1)
            self.host_embd[: self.n_out].copy_(pooled, non_blocking=True)
            rows = self.host_embd.numpy()
            for row, seq_id in enumerate(batch.seq_ids):
                batch.pooled[seq_id] = rows[row].copy()
        return self.n_out

    def get_logits(self):
        self.logits_ready.synchronize()
        return self.host_logits[: self.n_out].numpy()


class EmbeddingServer:
    def __init__(self, n_parallel=30):
        self.n_parallel = n_parallel
        self.ctx = DecodeContext(Encoder(), n_parallel)

    def embed(self, requests):
        results = {}
        for start in range(0, len(requests), self.n_parallel):
            chunk = requests[start : start + self.n_parallel]
            width = max(len(r) for r in chunk)
            tokens = [list(r) + [0] * (width - len(r)) for r in chunk]
            batch = Batch(tokens=tokens, seq_ids=list(range(start, start + len(chunk))))
            self.ctx.decode(batch)
            results.update(batch.pooled)
        return np.stack([results[i] for i in range(len(requests))])

    def next_tokens(self, requests):
        width = max(len(r) for r in requests)
        tokens = [[0] * (width - len(r)) + list(r) for r in requests]
        self.ctx.decode(Batch(tokens=tokens, seq_ids=list(range(len(requests))), want_logits=True))
        return self.ctx.get_logits().argmax(-1)
