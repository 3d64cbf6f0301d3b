import threading

import cupy as cp
import numpy as np


def pinned_like(a):
    mem = cp.cuda.alloc_pinned_memory(a.nbytes)
    out = np.frombuffer(mem, a.dtype, a.size).reshape(a.shape)
    out[...] = a
    return out


class DeviceWorker(threading.Thread):
    def __init__(self, number, blocks, results):
        super().__init__()
        self.number = number
        self.blocks = blocks
        self.results = results

    def run(self):
        with cp.cuda.Device(self.number):
            stream = cp.cuda.Stream(non_blocking=True)
            kernel = cp.ElementwiseKernel("T x, T a", "T y", "y = a * x / (1 + fabs(x))", "squash")

            def upload(host):
                dev = cp.empty(host.shape, host.dtype)
                dev.set(host, stream=stream)
                return dev

            def download(dev, host):
                dev.get(stream=stream, out=host, blocking=False)

            with stream:
                outs = []
                for i, host in self.blocks:
                    dev = upload(host)
                    dev = kernel(dev, dev.dtype.type(2 + i))
                    dev /= cp.linalg.norm(dev)
                    back = pinned_like(host)
                    download(dev, back)
                    outs.append((i, back))
                stream.synchronize()
            for i, back in outs:
                self.results[i] = float(np.abs(back).sum())


def split(blocks, n):
    for d in range(n):
        yield d, blocks[d::n]


def main():
    count = cp.cuda.runtime.getDeviceCount()
    rng = np.random.default_rng(4)
    blocks = [(i, pinned_like(rng.standard_normal((512, 512), dtype=np.float32))) for i in range(16)]
    results = {}
    workers = [DeviceWorker(d, part, results) for d, part in split(blocks, count)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    print([results[i] for i in sorted(results)])


if __name__ == "__main__":
    main()
