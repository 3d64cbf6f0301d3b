from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import nn

from lanes import my_lane, place


class Encoder(nn.Module):
    def __init__(self, vocab=5000, dim=256):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        layer = nn.TransformerEncoderLayer(dim, 4, 512, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2)

    def forward(self, ids):
        return self.body(self.emb(ids)).mean(dim=1)


class EmbeddingServer:
    def __init__(self, workers=3):
        self.model = place(Encoder())
        self.pool = ThreadPoolExecutor(workers)

    def _embed(self, ids):
        with my_lane().enter() as lane, torch.inference_mode():
            x = torch.from_numpy(ids).to(lane.device)
            y = nn.functional.normalize(self.model(x), dim=-1)
            return y.cpu().numpy()

    def embed(self, ids):
        return self.pool.submit(self._embed, np.asarray(ids, dtype=np.int64))

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.pool.shutdown()
