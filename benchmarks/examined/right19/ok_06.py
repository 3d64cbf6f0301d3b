import queue
import threading

import torch
import torch.nn as nn


class CodebookFitter:
    def __init__(self, codes=512, dim=128, max_rows=4096, device="cuda"):
        self.device = torch.device(device)
        self.encoder = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, dim)).to(self.device)
        self.codebook = torch.randn(codes, dim, device=self.device)
        self.scratch = torch.empty(max_rows, codes, device=self.device)
        self.sums = torch.zeros(codes, dim, device=self.device)
        self.counts = torch.zeros(codes, device=self.device)
        self.inertia = torch.zeros((), device=self.device)
        self.jobs = queue.Queue()
        self.lock = threading.Lock()
        self.errors = []

    def _assign(self, feats):
        rows = feats.size(0)
        score = self.scratch[:rows]
        torch.mm(feats, self.codebook.t(), out=score)
        score.mul_(-2).add_(self.codebook.square().sum(1))
        low, idx = score.min(dim=1)
        self.sums.index_add_(0, idx, feats)
        self.counts.index_add_(0, idx, torch.ones_like(low))
        self.inertia.add_((low + feats.square().sum(1)).sum())

    def _loop(self):
        stream = torch.cuda.Stream(self.device)
        try:
            with torch.cuda.stream(stream), torch.no_grad():
                while True:
                    job = self.jobs.get()
                    if job is None:
                        break
                    feats = self.encoder(job.to(self.device))
                    with self.lock:
                        self._assign(feats)
                        stream.synchronize()
        except Exception as exc:
            self.errors.append(exc)

    @torch.no_grad()
    def _recenter(self):
        seen = self.counts > 0
        fresh = self.sums / self.counts.clamp_min(1).unsqueeze(1)
        self.codebook.copy_(torch.where(seen.unsqueeze(1), fresh, self.codebook))
        value = self.inertia.item()
        self.sums.zero_()
        self.counts.zero_()
        self.inertia.zero_()
        return value

    def epoch(self, batches, workers):
        torch.cuda.synchronize(self.device)
        threads = [threading.Thread(target=self._loop) for _ in range(workers)]
        for t in threads:
            t.start()
        for b in batches:
            self.jobs.put(b)
        for _ in threads:
            self.jobs.put(None)
        for t in threads:
            t.join()
        if self.errors:
            raise self.errors[0]
        return self._recenter()


def main():
    torch.manual_seed(0)
    fitter = CodebookFitter()
    batches = [torch.randn(2048 + 256 * (i % 8), 64) for i in range(48)]
    for epoch in range(10):
        value = fitter.epoch(batches, workers=4)
        print(f"epoch {epoch} inertia {value:.1f}")


if __name__ == "__main__":
    main()
