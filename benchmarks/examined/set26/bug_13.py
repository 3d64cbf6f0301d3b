from collections import OrderedDict

import torch


class TextEncoder(torch.nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.embed = torch.nn.Embedding(vocab, dim)
        layer = torch.nn.TransformerEncoderLayer(dim, 8, batch_first=True, dropout=0.0)
        self.encoder = torch.nn.TransformerEncoder(layer, 6)

    def forward(self, ids):
        h = self.encoder(self.embed(ids)).mean(dim=1)
        return torch.nn.functional.normalize(h, dim=-1)


class GraphedEncoder:
    """Fixed-shape encoder, captured once and replayed per batch."""

    def __init__(self, model, batch, length):
        self.model = model.cuda().eval()
        self.ids = torch.zeros(batch, length, dtype=torch.int64, device="cuda")
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream), torch.no_grad():
            for _ in range(3):
                self.model(self.ids)
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph):
            self.out = self.model(self.ids)

    def __call__(self, ids):
        n = ids.shape[0]
        self.ids.zero_()
        self.ids[:n].copy_(ids)
        self.graph.replay()
        return self.out[:n]


class EmbeddingCache:
    def __init__(self, capacity):
        self.capacity = capacity
        self.rows = OrderedDict()

    def get(self, key):
        return self.rows.get(key)

    def put(self, key, row):
        self.rows[key] = row
        while len(self.rows) > self.capacity:
            self.rows.popitem(last=False)


class SearchService:
    def __init__(self, batch=32, length=64):
        self.encoder = GraphedEncoder(TextEncoder(32000, 512), batch, length)
        self.cache = EmbeddingCache(100000)
        self.batch = batch

    def embed(self, texts):
        missing = [t for t in texts if self.cache.get(t["key"]) is None]
        for start in range(0, len(missing), self.batch):
            part = missing[start:start + self.batch]
            ids = torch.tensor([t["ids"] for t in part])
            for text, row in zip(part, self.encoder(ids)):
                self.cache.put(text["key"], row)
        return torch.stack([self.cache.get(t["key"]) for t in texts])

    def scores(self, queries, documents):
        docs = self.embed(documents)
        return (self.embed(queries) @ docs.T).cpu()


def main(queries, documents):
    return SearchService().scores(queries, documents).topk(10).indices.tolist()
