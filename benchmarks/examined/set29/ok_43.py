"""Batched FFT over several GPUs: slices of the batch are scattered from the
home device, transformed on every device's stream and gathered back."""
import cupy as cp


class Shard:
    def __init__(self, device, shape):
        self.device = cp.cuda.Device(device)
        with self.device:
            self.stream = cp.cuda.Stream(non_blocking=True)
            with self.stream:
                self.buf = cp.empty(shape, dtype=cp.complex64)
            self.done = cp.cuda.Event(disable_timing=True)
            self.stream.synchronize()


class MultiGpuFft:
    def __init__(self, batch, n, devices, home=0):
        self.home = cp.cuda.Device(home)
        per = batch // len(devices)
        self.slices = [slice(i * per, (i + 1) * per) for i in range(len(devices))]
        self.shards = [Shard(d, (per, n)) for d in devices]
        with self.home:
            self.stream = cp.cuda.Stream(non_blocking=True)
            self.ready = cp.cuda.Event(disable_timing=True)

    def __call__(self, a, out):
        with self.home:
            self.ready.record(self.stream)
        for sl, shard in zip(self.slices, self.shards):
            part = a[sl]
            with shard.device:
                shard.stream.wait_event(self.ready)
                shard.buf.data.copy_from_device_async(part.data, part.nbytes, shard.stream)
                with shard.stream:
                    shard.buf[...] = cp.fft.fft(shard.buf, axis=1)
                shard.done.record(shard.stream)
        with self.home:
            for sl, shard in zip(self.slices, self.shards):
                self.stream.wait_event(shard.done)
                dst = out[sl]
                dst.data.copy_from_device_async(shard.buf.data, dst.nbytes, self.stream)
        return out


class SpectralFilter:
    def __init__(self, batch, n, devices):
        self.fft = MultiGpuFft(batch, n, devices)
        self.stream = self.fft.stream
        with self.fft.home, self.stream:
            self.x = cp.zeros((batch, n), dtype=cp.complex64)
            self.y = cp.zeros((batch, n), dtype=cp.complex64)
            self.mask = (cp.abs(cp.fft.fftfreq(n)) < 0.1).astype(cp.float32)

    def run(self, frames):
        energy = []
        with self.fft.home:
            for frame in frames:
                with self.stream:
                    self.x[...] = cp.asarray(frame)
                self.fft(self.x, self.y)
                with self.stream:
                    self.y *= self.mask
                    energy.append((cp.abs(self.y) ** 2).sum())
            self.stream.synchronize()
            return [float(e.get(stream=self.stream)) for e in energy]


if __name__ == "__main__":
    import numpy as np
    rng = np.random.default_rng(0)
    frames = [rng.standard_normal((64, 4096)).astype(np.complex64) for _ in range(6)]
    count = cp.cuda.runtime.getDeviceCount()
    print(SpectralFilter(64, 4096, list(range(count if 64 % count == 0 else 1))).run(frames))
