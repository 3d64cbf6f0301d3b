"""Out-of-order queue on top of a pool of streams (port of a SYCL queue)."""
import cupy as cp
import cupyx


class Queue:
    def __init__(self, n_streams=4):
        self.streams = [cp.cuda.Stream(non_blocking=True) for _ in range(n_streams)]
        self.stream_idx = 0
        self.last_sync = 0

    def next_compute_stream(self):
        stream = self.streams[self.stream_idx % len(self.streams)]
        self.stream_idx += 1
        return stream

    def sync_streams(self):
        end = self.stream_idx
        self.last_sync = end
        begin = max(self.last_sync, end - len(self.streams))
        for i in range(begin, end):
            self.streams[i % len(self.streams)].synchronize()

    def submit(self, fn, *args, depends=()):
        stream = self.next_compute_stream()
        for ev in depends:
            stream.wait_event(ev)
        with stream:
            fn(*args)
        return stream.record()

    def copy_to_host(self, src, dst, depends=()):
        stream = self.next_compute_stream()
        for ev in depends:
            stream.wait_event(ev)
        src.get(stream=stream, out=dst, blocking=False)
        return stream.record()

    def finish(self):
        self.sync_streams()


def scale(x, y, factor):
    cp.multiply(x, factor, out=y)
    cp.sin(y, out=y)


def main():
    queue = Queue()
    n = 1 << 22
    x = cp.linspace(0, 1, n, dtype=cp.float32)
    outs = [cp.empty_like(x) for _ in range(6)]
    hosts = [cupyx.empty_pinned((n,), cp.float32) for _ in outs]
    cp.cuda.get_current_stream().synchronize()
    for k, (y, host) in enumerate(zip(outs, hosts)):
        done = queue.submit(scale, x, y, float(k))
        queue.copy_to_host(y, host, depends=[done])
    queue.finish()
    for k, host in enumerate(hosts):
        print(k, float(host[-1]), float(host.max()))


if __name__ == "__main__":
    main()
