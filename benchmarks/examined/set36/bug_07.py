"""External data source of a GPU pipeline: device arrays are copied into the source's slots."""
import cupy as cp


class Slot:
    def __init__(self, shape):
        self.data = cp.zeros(shape, dtype=cp.float32)
        self.ready = cp.cuda.Event(disable_timing=True)


class ExternalSource:
    def __init__(self, shape, depth=2):
        self.slots = [Slot(shape) for _ in range(depth)]
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.fed = 0
        self.taken = 0

    def feed(self, array, producer):
        slot = self.slots[self.fed % len(self.slots)]
        self.stream.wait_event(producer.record())
        with self.stream:
            cp.copyto(slot.data, array)
            slot.ready.record(self.stream)
        self.fed += 1

    def take(self):
        if self.taken == self.fed:
            raise RuntimeError("nothing was fed")
        slot = self.slots[self.taken % len(self.slots)]
        self.taken += 1
        return slot


class Pipeline:
    def __init__(self, shape, depth=2):
        self.source = ExternalSource(shape, depth)
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.mean = cp.zeros(shape[1:], dtype=cp.float32)
        self.frames = 0
        cp.cuda.runtime.deviceSynchronize()

    def run(self):
        slot = self.source.take()
        with self.stream:
            self.stream.wait_event(slot.ready)
            spectrum = cp.fft.rfft(slot.data, axis=-1)
            power = (spectrum * spectrum.conj()).real
            self.frames += 1
            self.mean += (slot.data.mean(axis=0) - self.mean) / self.frames
            return power.sum(axis=-1)


def main(frames, shape=(64, 256, 1024)):
    pipe = Pipeline(shape)
    producer = cp.cuda.Stream(non_blocking=True)
    kept, results = [], []
    with producer:
        kept = [cp.random.standard_normal(shape, dtype=cp.float32) for _ in range(4)]
    for i in range(frames):
        pipe.source.feed(kept[i % len(kept)], producer)
        results.append(pipe.run())
    pipe.stream.synchronize()
    return [float(r.sum()) for r in results]
