"""Parallel tile denoiser: worker threads share one CuPy stream object."""
import threading
from queue import Queue

import cupy as cp
import numpy as np

BILATERAL = cp.RawKernel(r"""
extern "C" __global__
void bilateral(const float* src, float* dst, int w, int h, int rad, float ss, float sr) {
    int x = blockDim.x * blockIdx.x + threadIdx.x;
    int y = blockDim.y * blockIdx.y + threadIdx.y;
    if (x >= w || y >= h) return;
    float c = src[y * w + x], num = 0.f, den = 0.f;
    for (int j = -rad; j <= rad; ++j)
        for (int i = -rad; i <= rad; ++i) {
            int u = min(max(x + i, 0), w - 1), v = min(max(y + j, 0), h - 1);
            float p = src[v * w + u], d = p - c;
            float k = __expf(-(i * i + j * j) * ss - d * d * sr);
            num += k * p; den += k;
        }
    dst[y * w + x] = num / den;
}
""", "bilateral")


class TileJob:
    def __init__(self, index, src, dst):
        self.index, self.src, self.dst = index, src, dst


class Workers:
    def __init__(self, count, stream, fn):
        self.queue = Queue()
        self.stream = stream
        self.fn = fn
        self.errors = []
        self.threads = [threading.Thread(target=self._run, daemon=True) for _ in range(count)]
        for t in self.threads:
            t.start()

    def _run(self):
        while True:
            job = self.queue.get()
            try:
                if job is None:
                    return
                with self.stream:
                    self.fn(job)
            except Exception as exc:
                self.errors.append(exc)
            finally:
                self.queue.task_done()

    def submit(self, jobs):
        for j in jobs:
            self.queue.put(j)
        self.queue.join()
        if self.errors:
            raise self.errors[0]

    def stop(self):
        for _ in self.threads:
            self.queue.put(None)
        for t in self.threads:
            t.join()


class Denoiser:
    def __init__(self, shape, tile=256, workers=3):
        self.h, self.w = shape
        self.tile = tile
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.out = cp.zeros(shape, dtype=cp.float32)
        self.workers = Workers(workers, self.stream, self._denoise)

    def _denoise(self, job):
        src = cp.ascontiguousarray(job.src)
        dst = cp.empty_like(src)
        h, w = src.shape
        BILATERAL(((w + 15) // 16, (h + 15) // 16), (16, 16),
                  (src, dst, np.int32(w), np.int32(h), np.int32(3),
                   np.float32(0.05), np.float32(30.0)))
        job.dst[...] = dst

    def _jobs(self, img):
        k = 0
        for y in range(0, self.h, self.tile):
            for x in range(0, self.w, self.tile):
                s = (slice(y, y + self.tile), slice(x, x + self.tile))
                yield TileJob(k, img[s], self.out[s])
                k += 1

    def __call__(self, host):
        with self.stream:
            img = cp.asarray(host)
        self.workers.submit(list(self._jobs(img)))
        with self.stream:
            return cp.asnumpy(self.out)


def main():
    rng = np.random.default_rng(0)
    shape = (1024, 1536)
    den = Denoiser(shape)
    clean = np.kron(rng.random((8, 12)), np.ones((128, 128))).astype(np.float32)
    for t in range(5):
        noisy = clean + rng.normal(0, 0.05, shape).astype(np.float32)
        res = den(noisy)
        print(t, float(np.abs(noisy - clean).mean()), float(np.abs(res - clean).mean()))
    den.workers.stop()


if __name__ == "__main__":
    main()
