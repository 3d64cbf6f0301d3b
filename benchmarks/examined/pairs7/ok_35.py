"""Sandpile relaxation graph; states are downloaded beside the next replay."""
import cupy as cp
import cupyx
import numpy as np

SIDE = 2048

topple = cp.RawKernel(r"""
extern "C" __global__ void topple(const int* a, int* b, int side) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x >= side) return;
    int i = y * side + x, v = a[i] & 3;
    if (x) v += a[i - 1] >> 2;
    if (x < side - 1) v += a[i + 1] >> 2;
    if (y) v += a[i - side] >> 2;
    if (y < side - 1) v += a[i + side] >> 2;
    b[i] = v;
}
""", "topple")


class Sandpile:
    def __init__(self, grains):
        self.run = cp.cuda.Stream(non_blocking=True)
        self.down = cp.cuda.Stream(non_blocking=True)
        self.ran = cp.cuda.Event(disable_timing=True)
        self.copied = cp.cuda.Event(disable_timing=True)
        self.host = cupyx.empty_pinned((SIDE, SIDE), np.int32)
        with self.run:
            self.a = cp.full((SIDE, SIDE), grains, cp.int32)
            self.b = cp.empty_like(self.a)
            self.state = cp.empty_like(self.a)
            self._launch(self.a, self.b)
            self.run.synchronize()
            self.run.begin_capture()
            for _ in range(25):
                self._launch(self.a, self.b)
                self._launch(self.b, self.a)
            self.state.data.copy_from_device_async(self.a.data, self.a.nbytes, self.run)
            self.graph = self.run.end_capture()

    def _launch(self, src, dst):
        topple((SIDE // 256, SIDE), (256,), (src, dst, np.int32(SIDE)))

    def advance(self):
        self.run.wait_event(self.copied)
        self.graph.launch(self.run)
        self.ran.record(self.run)
        self.down.wait_event(self.ran)
        self.state.get(stream=self.down, out=self.host, blocking=False)
        self.copied.record(self.down)

    def snapshot(self):
        self.copied.synchronize()
        return self.host.copy()


def main():
    pile = Sandpile(9)
    for k in range(40):
        pile.advance()
        if k % 8 == 7:
            print(k, np.bincount(pile.snapshot().ravel())[:5])


if __name__ == "__main__":
    main()
