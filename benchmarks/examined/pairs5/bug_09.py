"""Laminography: phase retrieval and accumulation of slices, stages linked by events per slot."""
import numpy as np
import cupy as cp
import cupyx


class Stage:
    def __init__(self, frames, ny, nx):
        self.host = cupyx.empty_pinned((frames, ny, nx), dtype=np.float32)
        self.raw = cp.empty((frames, ny, nx), cp.float32)
        self.phase = cp.empty((frames, ny, nx), cp.float32)
        self.loaded = cp.cuda.Event(disable_timing=True)
        self.retrieved = cp.cuda.Event(disable_timing=True)


class Laminograph:
    def __init__(self, ny, nx, frames, alpha=1e-3, stages=2):
        self.retrieve_stream = cp.cuda.Stream(non_blocking=True)
        self.accum_stream = cp.cuda.Stream(non_blocking=True)
        ky = cp.fft.fftfreq(ny)[:, None]
        kx = cp.fft.rfftfreq(nx)[None, :]
        self.kernel = (1.0 / (alpha + ky ** 2 + kx ** 2)).astype(cp.float32)
        self.volume = cp.zeros((ny, nx), cp.float32)
        self.frames, self.shape = frames, (ny, nx)
        self.ring = [Stage(frames, ny, nx) for _ in range(stages)]
        cp.cuda.get_current_stream().synchronize()

    def _retrieve(self, stage, block):
        stage.loaded.synchronize()
        np.copyto(stage.host, block)
        with self.retrieve_stream as s:
            stage.raw.set(stage.host, stream=s)
            stage.loaded.record(s)
            spec = cp.fft.rfft2(-cp.log(stage.raw + 1e-6)) * self.kernel
            stage.phase[...] = cp.fft.irfft2(spec, s=self.shape)
            stage.retrieved.record(s)

    def _accumulate(self, stage, shifts):
        with self.accum_stream as s:
            s.wait_event(stage.retrieved)
            for frame, shift in zip(stage.phase, shifts):
                self.volume += cp.roll(frame, int(shift), axis=1)

    def process(self, blocks, shifts):
        for i, block in enumerate(blocks):
            stage = self.ring[i % len(self.ring)]
            self._retrieve(stage, block)
            self._accumulate(stage, shifts[i])
        self.accum_stream.synchronize()
        return self.volume.get()


def main():
    rng = np.random.default_rng(0)
    blocks = [rng.random((16, 1024, 1024), dtype=np.float32) for _ in range(12)]
    shifts = rng.integers(-40, 40, size=(12, 16))
    volume = Laminograph(1024, 1024, 16).process(blocks, shifts)
    print(volume.shape, volume.max())


if __name__ == "__main__":
    main()
