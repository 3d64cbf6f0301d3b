import argparse
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import torch


class SharedHistogram:
    def __init__(self, bins, device):
        self.bins = bins
        self.counts = torch.zeros(bins, dtype=torch.float32, device=device)
        self.peak = torch.full((1,), -1.0, device=device)
        self.guard = threading.Lock()
        torch.cuda.synchronize(device)

    def merge(self, local, top, stream):
        with self.guard:
            self.counts.add_(local)
            torch.maximum(self.peak, top, out=self.peak)
            stream.synchronize()

    def summary(self):
        total = self.counts.sum()
        return (self.counts / total).cpu().numpy(), float(self.peak.item())


def load(path, rows):
    rng = np.random.default_rng(abs(hash(path)) % (1 << 31))
    return torch.from_numpy(rng.random((rows, 64), dtype=np.float32))


def count_file(hist, rows, path):
    stream = torch.cuda.Stream()
    host = load(path, rows).pin_memory()
    with torch.cuda.stream(stream):
        values = host.to("cuda", non_blocking=True)
        local = torch.histc(values, bins=hist.bins, min=0.0, max=1.0)
        top = values.max().reshape(1)
        hist.merge(local, top, stream)
    return path, rows


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--files", type=int, default=24)
    ap.add_argument("--rows", type=int, default=4096)
    ap.add_argument("--workers", type=int, default=4)
    args = ap.parse_args()

    hist = SharedHistogram(256, torch.device("cuda"))
    names = [f"part-{i:05d}" for i in range(args.files)]
    with ThreadPoolExecutor(max_workers=args.workers) as pool:
        for name, rows in pool.map(partial(count_file, hist, args.rows), names):
            print("done", name, rows)
    dens, peak = hist.summary()
    print("entropy", float(-(dens * np.log(dens + 1e-12)).sum()), "peak", peak)


if __name__ == "__main__":
    main()
