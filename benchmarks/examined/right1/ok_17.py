"""A request pool in which each executor thread owns a stream."""
import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn


class StreamLocal(threading.local):
    """Creates a stream per thread on first use."""

    def __init__(self, parent):
        self.stream = torch.cuda.Stream()
        self.stream.wait_event(parent)


class EmbeddingService:
    def __init__(self, model, workers=4):
        self.model = model.eval()
        self.weights_ready = torch.cuda.Event()
        self.weights_ready.record()
        self.local = StreamLocal(self.weights_ready)
        self.pool = ThreadPoolExecutor(max_workers=workers)

    def _encode(self, ids):
        with torch.inference_mode(), torch.cuda.stream(self.local.stream):
            tokens = ids.to("cuda", non_blocking=True)
            hidden = self.model(tokens).mean(dim=1)
            return nn.functional.normalize(hidden, dim=-1).cpu()

    def submit(self, ids):
        return self.pool.submit(self._encode, ids)

    def encode_many(self, requests):
        futures = [self.submit(ids) for ids in requests]
        return torch.cat([f.result() for f in futures])

    def close(self):
        self.pool.shutdown(wait=True)


def build_encoder(vocab=30000, dim=256):
    layer = nn.TransformerEncoderLayer(dim, nhead=4, batch_first=True, dropout=0.0)
    return nn.Sequential(nn.Embedding(vocab, dim), nn.TransformerEncoder(layer, num_layers=2)).cuda()


def main():
    service = EmbeddingService(build_encoder())
    requests = [torch.randint(0, 30000, (8, 64)) for _ in range(64)]
    vectors = service.encode_many(requests)
    index = vectors.cuda()
    similarity = index @ index.T
    print(similarity.fill_diagonal_(-1).max(dim=1).indices.tolist()[:16])
    service.close()


if __name__ == "__main__":
    main()
