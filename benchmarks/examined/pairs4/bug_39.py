"""Vision encoder buckets with captured graphs behind a lock."""
import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

_local = threading.local()


def worker_stream():
    if not hasattr(_local, "stream"):
        _local.stream = torch.cuda.Stream()
    return _local.stream


class Bucket:
    def __init__(self, net, size):
        self.x = torch.zeros(size, 3, 96, 96, device="cuda")
        with torch.no_grad():
            net(self.x)
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.y = net(self.x)
        torch.cuda.synchronize()
        self.lock = threading.Lock()


class BucketedEncoder:
    def __init__(self, net, sizes=(4, 8, 16)):
        self.buckets = {s: Bucket(net, s) for s in sizes}

    def _select(self, n):
        return self.buckets[min(s for s in self.buckets if s >= n)]

    def __call__(self, images):
        n = images.shape[0]
        bucket = self._select(n)
        with bucket.lock:
            bucket.x[:n].copy_(images)
            bucket.graph.replay()
            return bucket.y[:n].clone()


@torch.no_grad()
def request(encoder, seed):
    gen = torch.Generator().manual_seed(seed)
    n = int(torch.randint(1, 17, (), generator=gen))
    host = torch.rand(n, 3, 96, 96, generator=gen).pin_memory()
    with torch.cuda.stream(worker_stream()):
        feats = encoder(host.to("cuda", non_blocking=True))
        return feats.norm(dim=1).mean().item()


def main():
    net = nn.Sequential(
        nn.Conv2d(3, 64, 3, 2), nn.ReLU(), nn.Conv2d(64, 128, 3, 2), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 256),
    ).cuda().eval()
    encoder = BucketedEncoder(net)
    with ThreadPoolExecutor(max_workers=4) as pool:
        values = list(pool.map(lambda s: request(encoder, s), range(400)))
    print(sum(values) / len(values))


if __name__ == "__main__":
    main()
