"""Gathers per-GPU results on GPU 0 with memcpyPeerAsync and reduces them there."""
import cupy as cp


class Worker:
    def __init__(self, device_id, n):
        self.id = device_id
        with cp.cuda.Device(device_id):
            self.stream = cp.cuda.Stream(non_blocking=True)
            with self.stream:
                self.state = cp.random.random(n)
                self.partial = cp.zeros(n)
            self.stream.synchronize()

    def compute(self, rounds):
        with cp.cuda.Device(self.id), self.stream:
            for _ in range(rounds):
                self.state = cp.sin(self.state) + 0.1
            self.partial[...] = cp.cumsum(self.state)


class Collector:
    def __init__(self, workers, n):
        self.workers = workers
        with cp.cuda.Device(0):
            self.stream = cp.cuda.Stream(non_blocking=True)
            self.table = cp.zeros((len(workers), n))
            cp.cuda.get_current_stream().synchronize()

    def gather(self):
        with cp.cuda.Device(0), self.stream:
            for row, w in enumerate(self.workers):
                cp.cuda.runtime.memcpyPeerAsync(
                    self.table[row].data.ptr, 0,
                    w.partial.data.ptr, w.id,
                    w.partial.nbytes, self.stream.ptr)
            total = self.table.sum(axis=0)
            peak = total.max()
        self.stream.synchronize()
        return float(peak)


def main(n=1 << 22):
    count = cp.cuda.runtime.getDeviceCount()
    workers = [Worker(i, n) for i in range(count)]
    collector = Collector(workers, n)
    for epoch in range(10):
        for w in workers:
            w.compute(rounds=8)
        print(epoch, collector.gather())


if __name__ == "__main__":
    main()
