"""Methods placed on named streams by a decorator."""
import functools

import torch


class StreamRegistry:
    _streams: dict[str, torch.cuda.Stream] = {}

    @classmethod
    def get(cls, name: str) -> torch.cuda.Stream:
        if name not in cls._streams:
            cls._streams[name] = torch.cuda.Stream()
        return cls._streams[name]


def _tensors(args):
    for a in args:
        if isinstance(a, torch.Tensor) and a.is_cuda:
            yield a


def runs_on(name: str):
    def deco(fn):
        @functools.wraps(fn)
        def wrapper(self, *args):
            stream, caller = StreamRegistry.get(name), torch.cuda.current_stream()
            stream.wait_stream(caller)
            with torch.cuda.stream(stream):
                out = fn(self, *args)
            for t in _tensors(args):
                t.record_stream(stream)
            for t in _tensors(out if isinstance(out, tuple) else (out,)):
                t.record_stream(caller)
            caller.wait_stream(stream)
            return out
        return wrapper
    return deco


class FeatureBank:
    def __init__(self, dim=128, size=4096):
        self.keys = torch.zeros(size, dim, device="cuda")
        self.cursor = 0

    @runs_on("bank")
    def enqueue(self, feats):
        n = feats.shape[0]
        self.keys[self.cursor:self.cursor + n].copy_(feats)
        self.cursor = (self.cursor + n) % self.keys.shape[0]

    @runs_on("search")
    def nearest(self, query):
        sims = query @ self.keys.t()
        return sims.topk(3, dim=1)

    @runs_on("bank")
    def decay(self, rate):
        self.keys.mul_(rate)


if __name__ == "__main__":
    bank = FeatureBank()
    for _ in range(10):
        f = torch.randn(64, 128, device="cuda")
        bank.enqueue(f)
        values, idx = bank.nearest(f)
        bank.decay(0.99)
    print(values.sum().item(), idx.sum().item())
