"""Two halves of a network on two GPUs; micro-batches overlap."""
import contextlib

import torch
import torch.nn as nn


def block(dim):
    return nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))


class Half(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.blocks = nn.ModuleList(block(dim) for _ in range(depth))

    def forward(self, x):
        for b in self.blocks:
            x = x + b(x)
        return x


class TwoDevice:
    def __init__(self, dim=1024, depth=24, devices=("cuda:0", "cuda:1")):
        self.dev = [torch.device(d) for d in devices]
        self.first = Half(dim, depth // 2).to(self.dev[0]).eval()
        self.second = Half(dim, depth - depth // 2).to(self.dev[1]).eval()
        self.streams = [torch.cuda.Stream(d) for d in self.dev]
        for s, d in zip(self.streams, self.dev):
            s.wait_stream(torch.cuda.current_stream(d))

    @contextlib.contextmanager
    def _current(self):
        with torch.cuda.stream(self.streams[1]):
            with torch.cuda.stream(self.streams[0]):
                yield

    @torch.inference_mode()
    def run(self, batch, chunks=8):
        """``batch``: tensor on the first device; returns one there, too."""
        caller = torch.cuda.current_stream(self.dev[0])
        self.streams[0].wait_stream(caller)
        outs = []
        with self._current():
            for part in batch.chunk(chunks):
                mid = self.first(part).to(self.dev[1], non_blocking=True)
                outs.append(self.second(mid))
                del mid
            out = torch.cat(outs).to(self.dev[0], non_blocking=True)
            del outs
        batch.record_stream(self.streams[0])
        caller.wait_stream(self.streams[0])
        out.record_stream(caller)
        return out


class Embedder:
    def __init__(self, dim=1024):
        self.net = TwoDevice(dim)
        self.dim = dim

    @torch.inference_mode()
    def embed(self, loader):
        total = torch.zeros(self.dim, device=self.net.dev[0], dtype=torch.float64)
        count = 0
        for x in loader:
            y = self.net.run(x.to(self.net.dev[0]))
            total += y.double().sum(0)
            count += y.shape[0]
        return (total / max(1, count)).cpu()


def main(data, batch=512):
    loader = [data[i : i + batch] for i in range(0, len(data), batch)]
    return Embedder(data.shape[1]).embed(loader)
