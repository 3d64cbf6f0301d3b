"""Two-GPU domain split of a wave simulation, ghost rows by peer copies (CuPy)."""
import argparse

import cupy as cp
import numpy as np

WAVE = cp.ElementwiseKernel(
    "float32 up, float32 down, float32 left, float32 right, float32 mid, float32 old, float32 k",
    "float32 out",
    "out = 2.0f * mid - old + k * (up + down + left + right - 4.0f * mid)",
    "wave2d",
)


class Half:
    """One GPU's rows with a ghost row above and below."""

    def __init__(self, dev, rows, cols):
        self.dev = dev
        self.rows, self.cols = rows, cols
        with cp.cuda.Device(dev):
            self.stream = cp.cuda.Stream(non_blocking=True)
            with self.stream:
                self.old = cp.zeros((rows + 2, cols), dtype=cp.float32)
                self.cur = cp.zeros((rows + 2, cols), dtype=cp.float32)
                self.nxt = cp.zeros((rows + 2, cols), dtype=cp.float32)
            self.stream.synchronize()

    def load(self, block):
        with cp.cuda.Device(self.dev), self.stream:
            self.cur[1:-1] = cp.asarray(block)
            self.old[1:-1] = self.cur[1:-1]
        self.stream.synchronize()

    def step(self, k):
        c = self.cur
        with cp.cuda.Device(self.dev), self.stream:
            WAVE(c[:-2, 1:-1], c[2:, 1:-1], c[1:-1, :-2], c[1:-1, 2:], c[1:-1, 1:-1],
                 self.old[1:-1, 1:-1], cp.float32(k), self.nxt[1:-1, 1:-1])
        self.old, self.cur, self.nxt = self.cur, self.nxt, self.old

    def interior(self):
        with cp.cuda.Device(self.dev), self.stream:
            return self.cur[1:-1].get()


class Pair:
    def __init__(self, rows, cols):
        self.top = Half(0, rows // 2, cols)
        self.bottom = Half(1, rows - rows // 2, cols)
        self._enable()

    @staticmethod
    def _enable():
        for a, b in ((0, 1), (1, 0)):
            with cp.cuda.Device(a):
                if cp.cuda.runtime.deviceCanAccessPeer(a, b):
                    cp.cuda.runtime.deviceEnablePeerAccess(b)

    @staticmethod
    def _send(src, src_row, dst, dst_row):
        nbytes = src.cols * 4
        with cp.cuda.Device(dst.dev):
            cp.cuda.runtime.memcpyPeerAsync(
                dst.cur[dst_row].data.ptr, dst.dev,
                src.cur[src_row].data.ptr, src.dev,
                nbytes, dst.stream.ptr)

    def exchange(self):
        self._send(self.top, self.top.rows, self.bottom, 0)
        self._send(self.bottom, 1, self.top, self.top.rows + 1)

    def load(self, field):
        self.top.load(field[: self.top.rows])
        self.bottom.load(field[self.top.rows:])

    def run(self, steps, k):
        for _ in range(steps):
            self.exchange()
            self.top.step(k)
            self.bottom.step(k)

    def gather(self):
        return np.concatenate([self.top.interior(), self.bottom.interior()])


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--size", type=int, default=2048)
    ap.add_argument("--steps", type=int, default=500)
    args = ap.parse_args()
    yy, xx = np.mgrid[0:args.size, 0:args.size].astype(np.float32)
    c = args.size / 2
    field = np.exp(-((yy - c) ** 2 + (xx - c) ** 2) / 400.0).astype(np.float32)
    sim = Pair(args.size, args.size)
    sim.load(field)
    sim.run(args.steps, 0.2)
    out = sim.gather()
    print("energy", float(np.square(out).sum()), "symmetry", float(np.abs(out - out[::-1]).max()))


if __name__ == "__main__":
    main()
