"""Speech encoder behind bucketed CUDA graphs shared by two caller streams."""
import threading
from dataclasses import dataclass
from typing import Dict, List, Optional

import torch
import torch.nn as nn


@dataclass
class Bucket:
    size: int
    graph: torch.cuda.CUDAGraph
    x: torch.Tensor
    lens: torch.Tensor
    out: torch.Tensor


class MelEncoder(nn.Module):
    def __init__(self, mels: int = 80, width: int = 384, layers: int = 4):
        super().__init__()
        self.inp = nn.Linear(mels, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    def forward(self, x: torch.Tensor, lens: torch.Tensor) -> torch.Tensor:
        mask = torch.arange(x.shape[1], device=x.device)[None, :, None] < lens[:, None, None]
        h = self.inp(x)
        for l in self.layers:
            h = h + torch.nn.functional.gelu(l(h)) * mask
        return h


class EncoderGraphRunner:
    def __init__(self, enc: MelEncoder, frames: int, buckets: List[int], device: torch.device):
        self.enc, self.frames, self.device = enc, frames, device
        self.lock = threading.Lock()
        self.released: Optional[torch.cuda.Event] = None
        self.buckets: Dict[int, Bucket] = {}
        pool = None
        for b in sorted(buckets, reverse=True):
            self.buckets[b] = self._capture(b, pool)
            pool = self.buckets[b].graph.pool()
        torch.cuda.synchronize(device)

    def _capture(self, b: int, pool) -> Bucket:
        x = torch.zeros(b, self.frames, 80, device=self.device)
        lens = torch.ones(b, dtype=torch.int64, device=self.device)
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            for _ in range(2):
                self.enc(x, lens)
        torch.cuda.current_stream(self.device).wait_stream(side)
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g, pool=pool):
            out = self.enc(x, lens)
        return Bucket(b, g, x, lens, out)

    def _pick(self, n: int) -> Bucket:
        return self.buckets[min(b for b in self.buckets if b >= n)]

    def __call__(self, feats: torch.Tensor, lens: torch.Tensor) -> torch.Tensor:
        n, t = feats.shape[:2]
        bk = self._pick(n)
        with self.lock:
            cur = torch.cuda.current_stream(self.device)
            if self.released is not None:
                cur.wait_event(self.released)
            bk.x.zero_()
            bk.x[:n, :t].copy_(feats)
            bk.lens.fill_(1)
            bk.lens[:n].copy_(lens)
            bk.graph.replay()
            res = bk.out[:n, :t].clone()
            ev = torch.cuda.Event()
            ev.record(cur)
            self.released = ev
        return res


class Transcriber(threading.Thread):
    def __init__(self, runner: EncoderGraphRunner, jobs: List[int], device: torch.device):
        super().__init__()
        self.runner, self.jobs, self.device = runner, jobs, device
        self.scores: List[float] = []

    @torch.inference_mode()
    def run(self) -> None:
        torch.cuda.set_device(self.device)
        s = torch.cuda.Stream(self.device)
        with torch.cuda.stream(s):
            for n in self.jobs:
                feats = torch.randn(n, 300, 80, device=self.device)
                lens = torch.full((n,), 300, device=self.device)
                self.scores.append(self.runner(feats, lens).mean().item())


def main():
    dev = torch.device("cuda", 0)
    torch.cuda.set_device(dev)
    with torch.inference_mode():
        runner = EncoderGraphRunner(MelEncoder().to(dev).eval(), 400, [1, 2, 4, 8], dev)
    workers = [Transcriber(runner, [1, 3, 8, 5] * 8, dev) for _ in range(2)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    print([sum(w.scores) for w in workers])


if __name__ == "__main__":
    main()
