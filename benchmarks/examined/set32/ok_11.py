"""Recording server: device results are staged in page-locked slots that come back by host callback."""
import queue
import threading

import cupy as cp
import numpy as np


class StagingSlot:
    def __init__(self, nbytes):
        self.mem = cp.cuda.alloc_pinned_memory(nbytes)
        self.nbytes = nbytes

    def view(self, shape, dtype):
        dtype = np.dtype(dtype)
        count = int(np.prod(shape))
        if count * dtype.itemsize > self.nbytes:
            raise ValueError("slot too small")
        return np.frombuffer(self.mem, dtype, count).reshape(shape)


class UploadRing:
    """Host slots for uploads; a slot is handed out again once its copy has been executed."""

    def __init__(self, slots, nbytes, stream):
        self.stream = stream
        self._idle = queue.SimpleQueue()
        for _ in range(slots):
            self._idle.put(StagingSlot(nbytes))

    def send(self, array, target):
        slot = self._idle.get()
        host = slot.view(array.shape, array.dtype)
        np.copyto(host, array)
        target.set(host, stream=self.stream)
        self.stream.launch_host_func(self._idle.put, slot)


class DownloadQueue:
    """Results are delivered to a consumer thread when their copy has been executed."""

    def __init__(self, slots, nbytes, stream, sink):
        self.stream = stream
        self.sink = sink
        self._idle = queue.SimpleQueue()
        self._arrived = queue.SimpleQueue()
        for _ in range(slots):
            self._idle.put(StagingSlot(nbytes))
        self._thread = threading.Thread(target=self._drain)
        self._thread.start()

    def fetch(self, array):
        slot = self._idle.get()
        host = slot.view(array.shape, array.dtype)
        cp.cuda.runtime.memcpyAsync(
            host.ctypes.data,
            array.data.ptr,
            array.nbytes,
            cp.cuda.runtime.memcpyDeviceToHost,
            self.stream.ptr,
        )
        self.stream.launch_host_func(self._arrived.put, (slot, host))

    def _drain(self):
        while True:
            item = self._arrived.get()
            if item is None:
                return
            slot, host = item
            self.sink(host)
            self._idle.put(slot)

    def close(self):
        self.stream.synchronize()
        self._arrived.put(None)
        self._thread.join()


class Correlator:
    """Normalised correlation of incoming blocks with a fixed template, in one stream."""

    def __init__(self, template, rows, sink):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.cols = template.shape[0]
        with self.stream:
            self.block = cp.empty((rows, self.cols), cp.float32)
            t = cp.asarray(template.astype(np.float32))
            self.spectrum = cp.conj(cp.fft.rfft(t))
        self.stream.synchronize()
        nbytes = rows * self.cols * 4
        self.up = UploadRing(3, nbytes, self.stream)
        self.down = DownloadQueue(3, nbytes, self.stream, sink)

    def push(self, block):
        with self.stream:
            self.up.send(block, self.block)
            corr = cp.fft.irfft(cp.fft.rfft(self.block, axis=1) * self.spectrum, n=self.cols)
            peak = cp.abs(corr).max(axis=1, keepdims=True)
            self.down.fetch((corr / peak).astype(cp.float32))

    def close(self):
        self.down.close()


def main():
    peaks = []
    rng = np.random.default_rng(0)
    corr = Correlator(rng.standard_normal(4096), 256, lambda h: peaks.append(h.argmax(1)[0]))
    for _ in range(64):
        corr.push(rng.standard_normal((256, 4096), dtype=np.float32))
    corr.close()
    print(len(peaks))


if __name__ == "__main__":
    main()
