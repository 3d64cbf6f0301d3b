import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn


class AudioTower(nn.Module):
    def __init__(self, mel=80, width=512, depth=8):
        super().__init__()
        self.proj = nn.Linear(mel, width)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, 8, batch_first=True) for _ in range(depth))

    def forward(self, xs, lens):
        mask = torch.arange(xs.shape[1], device=xs.device)[None, :] >= lens[:, None]
        h = self.proj(xs)
        for layer in self.layers:
            h = layer(h, src_key_padding_mask=mask)
        return h


class EncoderCudaGraphRunner:
    BUCKETS = ((1, 256), (4, 512), (8, 1024))

    def __init__(self, tower, mel=80, device="cuda"):
        self.tower = tower.to(device).eval()
        self.device = torch.device(device)
        self.mel = mel
        self._lock = threading.Lock()
        self._graphs = {}
        self._drained = torch.cuda.Event()

    @torch.no_grad()
    def capture(self):
        side = torch.cuda.Stream(self.device)
        for batch, frames in self.BUCKETS:
            static_xs = torch.zeros(batch, frames, self.mel, device=self.device)
            static_lens = torch.ones(batch, dtype=torch.long, device=self.device)
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(3):
                    self.tower(static_xs, static_lens)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                static_out = self.tower(static_xs, static_lens)
            self._graphs[batch, frames] = (graph, static_xs, static_lens, static_out)
        torch.cuda.synchronize(self.device)

    def _pick(self, batch, frames):
        for key in self.BUCKETS:
            if batch <= key[0] and frames <= key[1]:
                return self._graphs[key]
        return None

    @torch.no_grad()
    def run(self, xs, lengths):
        b, t, _ = xs.shape
        entry = self._pick(b, t)
        if entry is None:
            return self.tower(xs, lengths)
        graph, static_xs, static_lens, static_out = entry
        with self._lock:
            current = torch.cuda.current_stream(self.device)
            current.wait_event(self._drained)
            static_xs.zero_()
            static_xs[:b, :t].copy_(xs, non_blocking=True)
            static_lens.fill_(1)
            static_lens[:b].copy_(lengths, non_blocking=True)
            graph.replay()
            out = static_out[:b, :t].clone()
            self._drained.record(current)
            return out


class Service:
    """Requests are encoded ahead of the LM on worker threads with private streams."""

    def __init__(self, runner, workers=2):
        self.runner = runner
        self.local = threading.local()
        self.pool = ThreadPoolExecutor(workers)

    def _encode(self, features, lengths):
        if not hasattr(self.local, "stream"):
            self.local.stream = torch.cuda.Stream(self.runner.device)
        with torch.cuda.stream(self.local.stream):
            xs = features.to(self.runner.device)
            out = self.runner.run(xs, lengths.to(self.runner.device))
            return out.cpu()

    def submit(self, features, lengths):
        return self.pool.submit(self._encode, features, lengths)
