"""Radio telescope front end: a receiver thread fills pinned voltages, the channelizer acknowledges each slot."""
import queue
import threading
import numpy as np
import cupy as cp
import cupyx


class VoltageSlot:
    def __init__(self, antennas, samples):
        self.host = cupyx.empty_pinned((antennas, samples), dtype=np.float32)
        self.uploaded = cp.cuda.Event(disable_timing=True)


class Receiver(threading.Thread):
    def __init__(self, slots, blocks, shape):
        super().__init__(daemon=True)
        self.free, self.full = queue.Queue(), queue.Queue()
        self.blocks, self.shape = blocks, shape
        for s in slots:
            self.free.put(s)

    def run(self):
        rng = np.random.default_rng(11)
        for _ in range(self.blocks):
            slot = self.free.get()
            slot.host[...] = rng.standard_normal(self.shape, dtype=np.float32)
            self.full.put(slot)
        self.full.put(None)


class Channelizer:
    def __init__(self, antennas, samples, nchan):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.nchan = nchan
        with self.stream:
            self.volt = cp.empty((antennas, samples), cp.float32)
            self.power = cp.zeros((antennas, nchan // 2 + 1), cp.float32)

    def feed(self, slot):
        with self.stream as s:
            self.volt.set(slot.host, stream=s)
            slot.uploaded.record(s)
            spectra = cp.fft.rfft(self.volt.reshape(self.volt.shape[0], -1, self.nchan), axis=2)
            self.power += (spectra.real ** 2 + spectra.imag ** 2).sum(axis=1)


def main(antennas=64, samples=1 << 16, blocks=100):
    slots = [VoltageSlot(antennas, samples) for _ in range(4)]
    receiver = Receiver(slots, blocks, (antennas, samples))
    channelizer = Channelizer(antennas, samples, 1024)
    receiver.start()
    pending = []
    while True:
        slot = receiver.full.get()
        if slot is None:
            break
        channelizer.feed(slot)
        pending.append(slot)
        if len(pending) > 1:
            oldest = pending.pop(0)
            oldest.uploaded.synchronize()
            receiver.free.put(oldest)
    channelizer.stream.synchronize()
    print(float(channelizer.power.mean()))


if __name__ == "__main__":
    main()
