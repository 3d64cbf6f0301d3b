"""Gradient step over slices with one plan per stream."""
import cupy as cp


class NufftPlan:
    def __init__(self, modes, n_trans, stream):
        self.stream = stream
        with stream:
            self.grid = cp.zeros((n_trans, *modes), dtype=cp.complex64)
            self.phase = cp.exp(1j * cp.linspace(0, 1, modes[-1])).astype(cp.complex64)

    def execute(self, image, smaps, out):
        with self.stream:
            cp.multiply(image[None, ...], smaps, out=self.grid)
            self.grid *= self.phase
            out += self.grid.sum(axis=0)
        return out


class GradientStep:
    def __init__(self, smaps, streams):
        self.streams = streams
        self.smaps = cp.asarray(smaps)
        self.ready = cp.cuda.Event(disable_timing=True)
        self.ready.record(cp.cuda.get_current_stream())
        self.plans = {
            s.ptr: NufftPlan(self.smaps.shape[1:], self.smaps.shape[0], s) for s in streams
        }
        for s in streams:
            s.wait_event(self.ready)

    def __call__(self, image, steps=4):
        slices = cp.asarray(image)
        out = cp.zeros_like(slices)
        uploaded = cp.cuda.get_current_stream().record()
        for s in self.streams:
            s.wait_event(uploaded)
        for _ in range(steps):
            for k in range(slices.shape[0]):
                stream = self.streams[k % len(self.streams)]
                self.plans[stream.ptr].execute(slices[k], self.smaps, out[k])
        main = cp.cuda.get_current_stream()
        for s in self.streams:
            main.wait_event(s.record())
        return cp.asnumpy(out)


def main():
    streams = [cp.cuda.Stream(non_blocking=True) for _ in range(3)]
    n_maps, n_slices, side = 4, 9, 256
    smaps = cp.asnumpy(cp.random.random((n_maps, side, side))).astype("complex64")
    image = cp.asnumpy(cp.random.random((n_slices, side, side))).astype("complex64")
    step = GradientStep(smaps, streams)
    first = step(image)
    second = step(image)
    assert abs(first - second).max() < 1e-4


if __name__ == "__main__":
    main()
