"""Receive engine: pinned chunks are uploaded and recycled through a free ring."""
import queue
import threading

import cupy as cp
import cupyx
import numpy as np

N_POLS = 2


class Chunk:
    def __init__(self, samples):
        self.present = np.zeros(N_POLS, np.uint8)
        self.data = cupyx.empty_pinned((N_POLS, samples), np.int8)
        self.timestamp = 0


class DeviceItem:
    def __init__(self, samples):
        self.samples = cp.empty((N_POLS, samples), np.int8)
        self.filled = cp.cuda.Event(disable_timing=True)
        self.consumed = cp.cuda.Event(disable_timing=True)


class Engine:
    def __init__(self, samples, n_chunks=4, n_items=2):
        self.upload_stream = cp.cuda.Stream(non_blocking=True)
        self.compute_stream = cp.cuda.Stream(non_blocking=True)
        self.free_ring = queue.Queue()
        self.data_ring = queue.Queue()
        for _ in range(n_chunks):
            self.free_ring.put(Chunk(samples))
        self.items = [DeviceItem(samples) for _ in range(n_items)]
        cp.cuda.Device().synchronize()
        for item in self.items:
            item.consumed.record(self.compute_stream)
        self.power = []

    def receive(self, heaps):
        for ts in range(heaps):
            chunk = self.free_ring.get()
            chunk.timestamp = ts
            chunk.data[:] = np.random.randint(-100, 100, chunk.data.shape, np.int8)
            chunk.present[:] = 1
            self.data_ring.put(chunk)
        self.data_ring.put(None)

    def process(self):
        index = 0
        pending = None
        while (chunk := self.data_ring.get()) is not None:
            item = self.items[index % len(self.items)]
            self.upload_stream.wait_event(item.consumed)
            item.samples.set(chunk.data, stream=self.upload_stream)
            item.filled.record(self.upload_stream)
            self.compute_stream.wait_event(item.filled)
            with self.compute_stream:
                self.power.append(cp.square(item.samples.astype(cp.float32)).mean(axis=1))
                item.consumed.record(self.compute_stream)
            if pending is not None:
                old_item, old_chunk = pending
                old_item.filled.synchronize()
                self.free_ring.put(old_chunk)
            pending = (item, chunk)
            index += 1
        if pending is not None:
            pending[0].filled.synchronize()
            self.free_ring.put(pending[1])
        with self.compute_stream:
            result = cp.stack(self.power)
            return cp.asnumpy(result)


def main():
    engine = Engine(1 << 20)
    receiver = threading.Thread(target=engine.receive, args=(32,))
    receiver.start()
    print(engine.process().shape)
    receiver.join()


if __name__ == "__main__":
    main()
