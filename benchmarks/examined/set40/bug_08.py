"""Bucketed CUDA graphs for a speech encoder, shared by the pre-LM workers of a server."""
import queue
import threading

import torch
import torch.nn as nn


class Encoder(nn.Module):
    def __init__(self, feat=80, dim=512, layers=4):
        super().__init__()
        self.inp = nn.Linear(feat, dim)
        self.mix = nn.ModuleList(nn.Conv1d(dim, dim, 5, padding=2, groups=8) for _ in range(layers))
        self.out = nn.Linear(dim, dim)

    def forward(self, xs):
        h = self.inp(xs)
        for conv in self.mix:
            h = h + torch.relu(conv(h.transpose(1, 2))).transpose(1, 2)
        return self.out(h)


class GraphBucket:
    def __init__(self, module, batch, frames, feat):
        self.batch, self.frames = batch, frames
        self.static_xs = torch.zeros(batch, frames, feat, device="cuda")
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm), torch.no_grad():
            for _ in range(2):
                module(self.static_xs)
        torch.cuda.current_stream().wait_stream(warm)
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph):
            self.static_out = module(self.static_xs)


class EncoderGraphRunner:
    def __init__(self, module, buckets=((8, 400), (8, 800), (8, 1600)), feat=80):
        self.module = module
        self.lock = threading.Lock()
        self.buckets = [GraphBucket(module, b, t, feat) for b, t in buckets]

    def _pick(self, b, t):
        for bucket in self.buckets:
            if b <= bucket.batch and t <= bucket.frames:
                return bucket
        return None

    def __call__(self, xs):
        b, t = xs.shape[:2]
        bucket = self._pick(b, t)
        if bucket is None:
            with torch.no_grad():
                return self.module(xs)
        with self.lock:
            bucket.static_xs.zero_()
            bucket.static_xs[:b, :t].copy_(xs, non_blocking=True)
            bucket.graph.replay()
            return bucket.static_out[:b, :t].clone()


class PreLMWorker(threading.Thread):
    def __init__(self, runner, inbox, results):
        super().__init__(daemon=True)
        self.runner, self.inbox, self.results = runner, inbox, results
        self.stream = torch.cuda.Stream()

    def run(self):
        with torch.cuda.stream(self.stream):
            while True:
                item = self.inbox.get()
                if item is None:
                    return
                rid, feats = item
                xs = feats.to("cuda", non_blocking=True)
                emb = self.runner(xs).mean(dim=1)
                self.results[rid] = emb.cpu()


def main(requests=64, workers=2):
    torch.manual_seed(0)
    enc = Encoder().cuda().eval()
    runner = EncoderGraphRunner(enc)
    torch.cuda.synchronize()
    inbox, results = queue.Queue(), {}
    pool = [PreLMWorker(runner, inbox, results) for _ in range(workers)]
    for w in pool:
        w.start()
    for rid in range(requests):
        frames = (300, 700, 1500)[rid % 3]
        inbox.put((rid, torch.randn(4, frames, 80)))
    for _ in pool:
        inbox.put(None)
    for w in pool:
        w.join()
    print(len(results), float(results[0].norm()))


if __name__ == "__main__":
    main()
