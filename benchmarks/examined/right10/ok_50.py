"""Split a grid over two devices; edge rows are exchanged by peer copies with events in both directions."""
import cupy as cp
import numpy as np


class Part:
    def __init__(self, device: int, rows: int, cols: int):
        self.device = cp.cuda.Device(device)
        with self.device:
            self.stream = cp.cuda.Stream(non_blocking=True)
            self.swept = cp.cuda.Event(disable_timing=True)
            self.sent = cp.cuda.Event(disable_timing=True)
            with self.stream:
                self.u = cp.zeros((rows + 2, cols), cp.float32)
                self.next = cp.zeros_like(self.u)
                self.u[1:-1] = cp.random.random((rows, cols), dtype=cp.float32)
            self.stream.synchronize()

    def sweep(self):
        with self.device, self.stream:
            u, v = self.u, self.next
            v[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
            v[1:-1, 0] = u[1:-1, 0]
            v[1:-1, -1] = u[1:-1, -1]
            self.u, self.next = v, u
        self.swept.record(self.stream)


def exchange(top: Part, bottom: Part):
    with top.device:
        top.stream.wait_event(bottom.swept)
        bottom.u[0].data.copy_from_device_async(top.u[-2].data, top.u[0].nbytes, top.stream)
        top.sent.record(top.stream)
    with bottom.device:
        bottom.stream.wait_event(top.swept)
        top.u[-1].data.copy_from_device_async(bottom.u[1].data, bottom.u[0].nbytes, bottom.stream)
        bottom.sent.record(bottom.stream)
    with top.device:
        top.stream.wait_event(bottom.sent)
    with bottom.device:
        bottom.stream.wait_event(top.sent)


def main(steps=100):
    a, b = Part(0, 1024, 2048), Part(1, 1024, 2048)
    for p in (a, b):
        p.swept.record(p.stream)
    for _ in range(steps):
        exchange(a, b)
        a.sweep()
        b.sweep()
    total = 0.0
    for p in (a, b):
        with p.device:
            p.stream.synchronize()
            total += float(np.sum(cp.asnumpy(p.u[1:-1]), dtype=np.float64))
    print(total)


if __name__ == "__main__":
    main()
