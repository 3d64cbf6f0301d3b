"""Spectrum waterfall: rows are downloaded while the next row is computed."""
import cupy as cp
import cupyx
import numpy as np


class Row:
    def __init__(self, nbins):
        self.host = cupyx.empty_pinned((nbins,), dtype=np.float32)
        self.landed = cp.cuda.Event(disable_timing=True)
        self.index = -1


class Waterfall:
    def __init__(self, nfft, depth=2):
        self.nfft = nfft
        self.nbins = nfft // 2 + 1
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.rows = [Row(self.nbins) for _ in range(depth)]
        with self.stream:
            n = cp.arange(nfft, dtype=cp.float32)
            self.window = 0.54 - 0.46 * cp.cos(2 * cp.pi * n / (nfft - 1))
        self.pending = []
        self.next_index = 0

    def submit(self, samples):
        row = self.rows[self.next_index % len(self.rows)]
        with self.stream:
            x = cp.asarray(samples).reshape(-1, self.nfft)
            spec = cp.fft.rfft(x * self.window, axis=1)
            psd = (cp.abs(spec) ** 2).mean(axis=0).astype(cp.float32)
            psd.get(stream=self.stream, out=row.host, blocking=False)
            row.landed.record(self.stream)
        row.index = self.next_index
        self.next_index += 1
        self.pending.append(row)

    def full(self):
        return len(self.pending) == len(self.rows)

    def pop(self):
        row = self.pending.pop(0)
        row.landed.synchronize()
        return row.index, row.host.copy()

    def drain(self):
        while self.pending:
            yield self.pop()


def paint(canvas, index, psd):
    db = 10.0 * np.log10(psd + 1e-12)
    lo, hi = float(db.min()), float(db.max())
    canvas[index] = np.clip((db - lo) / max(hi - lo, 1e-6) * 255.0, 0, 255).astype(np.uint8)


def main(rows=64, nfft=2048, blocks=128):
    rng = np.random.default_rng(3)
    wf = Waterfall(nfft)
    canvas = np.zeros((rows, wf.nbins), dtype=np.uint8)
    t = np.arange(nfft * blocks, dtype=np.float32)
    for r in range(rows):
        if wf.full():
            paint(canvas, *wf.pop())
        tone = np.sin(0.05 * (1.0 + r / rows) * t)
        noise = 0.1 * rng.standard_normal(t.size)
        wf.submit((tone + noise).astype(np.float32))
    for index, psd in wf.drain():
        paint(canvas, index, psd)
    print("waterfall", canvas.shape, "mean", canvas.mean())
    return canvas


if __name__ == "__main__":
    main()
