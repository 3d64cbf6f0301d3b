"""Frame source that hands out ring slots through DLPack."""
import cupy as cp

LEGACY_STREAM = 1
PER_THREAD_STREAM = 2


class SharedFrame:
    def __init__(self, shape, stream):
        self.stream = stream
        with stream:
            self.data = cp.empty(shape, dtype=cp.float32)
        self._written = cp.cuda.Event(disable_timing=True)
        self._released = cp.cuda.Event(disable_timing=True)

    def begin_write(self):
        self.stream.wait_event(self._released)
        return self.data

    def end_write(self):
        self._written.record(self.stream)

    def release(self, stream):
        self._released.record(stream)

    def __dlpack_device__(self):
        return self.data.__dlpack_device__()

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if stream != -1:
            if stream in (None, 0, LEGACY_STREAM):
                consumer = cp.cuda.Stream.null
            elif stream == PER_THREAD_STREAM:
                consumer = cp.cuda.Stream.ptds
            else:
                consumer = cp.cuda.ExternalStream(stream)
            consumer.wait_event(self._written)
        return self.data.__dlpack__(stream=-1)


class Simulation:
    def __init__(self, shape, nslots=3):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.slots = [SharedFrame(shape, self.stream) for _ in range(nslots)]
        with self.stream:
            self.state = cp.random.random(shape, dtype=cp.float32)
        self.count = 0

    def step(self):
        frame = self.slots[self.count % len(self.slots)]
        self.count += 1
        with self.stream:
            lap = (cp.roll(self.state, 1, 0) + cp.roll(self.state, -1, 0)
                   + cp.roll(self.state, 1, 1) + cp.roll(self.state, -1, 1) - 4 * self.state)
            self.state += 0.1 * lap
            cp.copyto(frame.begin_write(), self.state)
        frame.end_write()
        return frame


class Monitor:
    def __init__(self, nbins=64):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.nbins = nbins
        with self.stream:
            self.total = cp.zeros(nbins, dtype=cp.int64)

    def consume(self, frame):
        with self.stream:
            view = cp.from_dlpack(frame)
            bins = cp.minimum((view * self.nbins).astype(cp.int64), self.nbins - 1)
            self.total += cp.bincount(cp.maximum(bins, 0).ravel(), minlength=self.nbins)[:self.nbins]
        frame.release(self.stream)

    def result(self):
        with self.stream:
            return cp.asnumpy(self.total)


def main(steps=40):
    sim = Simulation((1024, 1024))
    monitor = Monitor()
    for _ in range(steps):
        monitor.consume(sim.step())
    sim.stream.synchronize()
    return monitor.result()


if __name__ == "__main__":
    print(main())
