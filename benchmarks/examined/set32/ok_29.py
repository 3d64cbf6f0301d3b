"""Power meter: blocks of channelised samples become averaged band powers."""
import queue
import threading

import cupy as cp
import cupyx
import numpy as np


class Slot:
    def __init__(self, index, channels, spectra):
        self.index = index
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.samples = cupyx.empty_pinned((spectra, channels), dtype=np.complex64)
        self.power = cupyx.empty_pinned(channels, dtype=np.float32)
        with self.stream:
            self.dev = cp.empty((spectra, channels), dtype=cp.complex64)
        self.stamp = None


class PowerMeter:
    def __init__(self, sink, channels=4096, spectra=256, depth=4):
        self.sink = sink
        self.slots = [Slot(i, channels, spectra) for i in range(depth)]
        self.idle = queue.Queue()
        self.done = queue.Queue()
        for i in range(depth):
            self.idle.put(i)
        self.taper = cp.hanning(channels).astype(cp.float32)
        cp.cuda.Device().synchronize()
        self.writer = threading.Thread(target=self._write, daemon=True)
        self.writer.start()

    def feed(self, stamp, block):
        slot = self.slots[self.idle.get()]
        slot.samples[...] = block
        slot.stamp = stamp
        with slot.stream:
            slot.dev.set(slot.samples, stream=slot.stream)
            shaped = slot.dev * self.taper
            power = (shaped.real**2 + shaped.imag**2).mean(axis=0).astype(cp.float32)
            cp.cuda.runtime.memcpyAsync(
                slot.power.ctypes.data,
                power.data.ptr,
                power.nbytes,
                cp.cuda.runtime.memcpyDeviceToHost,
                slot.stream.ptr,
            )
            slot.stream.launch_host_func(self._finished, slot.index)

    def _finished(self, index):
        self.done.put(index)

    def _write(self):
        while True:
            index = self.done.get()
            if index is None:
                return
            slot = self.slots[index]
            self.sink.append((slot.stamp, slot.power.copy()))
            self.idle.put(index)

    def close(self):
        for slot in self.slots:
            slot.stream.synchronize()
        self.done.put(None)
        self.writer.join()


def record(source, channels=4096, spectra=256):
    rows = []
    meter = PowerMeter(rows, channels, spectra)
    for stamp, block in source:
        meter.feed(stamp, block)
    meter.close()
    rows.sort(key=lambda r: r[0])
    return np.stack([p for _, p in rows])
