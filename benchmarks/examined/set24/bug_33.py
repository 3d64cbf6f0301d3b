"""Nearest-neighbour graph for dimensionality reduction on a chosen GPU."""
import threading

import torch

_local = threading.local()


def search_stream(device):
    """One search stream per calling thread and device."""
    streams = getattr(_local, "streams", None)
    if streams is None:
        streams = _local.streams = {}
    if device not in streams:
        streams[device] = torch.cuda.Stream(device)
    return streams[device]


class FlatIndex:
    def __init__(self, device):
        self.device = device
        self.base = None

    def train(self, x):
        self.base = x
        self.sq = (x * x).sum(dim=1)

    def search(self, x, k):
        stream = search_stream(self.device)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            dist = self.sq[None, :] - 2 * x @ self.base.t()
            values, idx = dist.topk(k + 1, dim=1, largest=False)
            x.record_stream(stream)
        torch.cuda.current_stream().wait_stream(stream)
        return values[:, 1:], idx[:, 1:]


class EntropicAffinity:
    def __init__(self, device, perplexity=30):
        self.device = torch.device(device)
        self.k = 3 * perplexity

    def fit(self, x):
        x = x.to(self.device)
        z = (x - x.mean(dim=0)) / x.std(dim=0)
        index = FlatIndex(self.device)
        index.train(z)
        values, idx = index.search(z, self.k)
        self.weights = torch.softmax(-values, dim=1)
        self.neighbors = idx.clone()
        return self


def main():
    x = torch.randn(20000, 128)
    aff = EntropicAffinity("cuda:1")
    aff.fit(x)
    graph = aff.weights.cpu(), aff.neighbors.cpu()
    print(graph[0].sum().item(), graph[1].max().item())


if __name__ == "__main__":
    main()
