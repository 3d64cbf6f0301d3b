"""Channeliser ingest: heap chunks go to the device through page-locked staging."""
import cupy as cp
import numpy as np


class Uploader:
    def __init__(self, stream):
        self.stream = stream
        self.bytes_sent = 0

    def upload(self, chunk, dst):
        mem = cp.cuda.alloc_pinned_memory(chunk.nbytes)
        host = np.frombuffer(mem, dtype=chunk.dtype, count=chunk.size).reshape(chunk.shape)
        np.copyto(host, chunk)
        dst.data.copy_from_host_async(host.ctypes.data, chunk.nbytes, self.stream)
        self.bytes_sent += chunk.nbytes


class FrontEnd:
    def __init__(self, channels, spectra):
        self.channels = channels
        rng = np.random.default_rng(7)
        self.window = np.hanning(2 * channels).astype(np.float32)
        self.lut = rng.integers(-100, 100, size=(8, spectra, 2 * channels), dtype=np.int16)

    def __iter__(self):
        for i in range(48):
            yield i, np.roll(self.lut[i % 8], i, axis=1)


class Channeliser:
    def __init__(self, channels, spectra, depth=4):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.uploader = Uploader(self.stream)
        self.inputs = [cp.empty((spectra, 2 * channels), dtype=cp.int16) for _ in range(depth)]
        self.power = cp.zeros(channels + 1, dtype=cp.float64)
        self.window = cp.asarray(np.hanning(2 * channels).astype(np.float32))
        cp.cuda.Device().synchronize()
        self.count = 0

    def push(self, chunk):
        slot = self.inputs[self.count % len(self.inputs)]
        self.uploader.upload(chunk, slot)
        with self.stream:
            spec = cp.fft.rfft(slot.astype(cp.float32) * self.window, axis=1)
            self.power += (cp.abs(spec) ** 2).sum(axis=0, dtype=cp.float64)
        self.count += 1

    def result(self):
        self.stream.synchronize()
        return cp.asnumpy(self.power) / max(self.count, 1)


def main():
    front = FrontEnd(channels=4096, spectra=256)
    chan = Channeliser(front.channels, 256)
    for _, chunk in front:
        chan.push(chunk)
    p = chan.result()
    print(p.argmax(), p.max(), chan.uploader.bytes_sent)


if __name__ == "__main__":
    main()
