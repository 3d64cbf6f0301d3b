"""Layer-streamed MLP: weights prefetched from pinned memory while nvmath multiplies."""
import cupy as cp
import cupyx
import numpy as np
from nvmath.linalg import advanced


class PinnedWeights:
    def __init__(self, n_layers, width, seed=0):
        rng = np.random.default_rng(seed)
        self.layers = []
        for _ in range(n_layers):
            host = cupyx.empty_pinned((width, width), np.float32)
            host[:] = rng.normal(size=(width, width)) / np.sqrt(width)
            self.layers.append(host)

    def __len__(self):
        return len(self.layers)


class SegmentBuffer:
    """Device memory for one layer with its load and release events."""

    def __init__(self, width):
        self.weight = cp.empty((width, width), cp.float32)
        self.loaded = cp.cuda.Event(disable_timing=True)
        self.released = None


class StreamedMLP:
    def __init__(self, weights, width, segments=2):
        self.weights = weights
        self.compute = cp.cuda.Stream(non_blocking=True)
        self.prefetch = cp.cuda.Stream(non_blocking=True)
        self.segments = [SegmentBuffer(width) for _ in range(segments)]
        self.issued = 0
        cp.cuda.Stream.null.synchronize()

    def _prefetch_next(self):
        layer = self.issued % len(self.weights)
        segment = self.segments[self.issued % len(self.segments)]
        if segment.released is not None:
            self.prefetch.wait_event(segment.released)
        host = self.weights.layers[layer]
        segment.weight.data.copy_from_host_async(host.ctypes.data, host.nbytes, self.prefetch)
        segment.loaded.record(self.prefetch)
        self.issued += 1

    def forward(self, x, first):
        """Run all layers; first is the running index of the first layer."""
        for index in range(first, first + len(self.weights)):
            while self.issued <= index:
                self._prefetch_next()
            segment = self.segments[index % len(self.segments)]
            self.compute.wait_event(segment.loaded)
            x = advanced.matmul(x, segment.weight, stream=self.compute)
            with self.compute:
                cp.maximum(x, 0.0, out=x)
            segment.released = self.compute.record()
            if self.issued < index + len(self.segments):
                self._prefetch_next()
        return x

    def run(self, batches):
        outputs = []
        done = 0
        for batch in batches:
            with self.compute:
                x = cp.asarray(batch)
            y = self.forward(x, done)
            done += len(self.weights)
            with self.compute:
                outputs.append(y.mean(axis=1).get())
        self.prefetch.synchronize()
        return np.stack(outputs)


def main():
    width = 2048
    model = StreamedMLP(PinnedWeights(6, width), width)
    rng = np.random.default_rng(4)
    batches = [rng.normal(size=(512, width)).astype(np.float32) for _ in range(8)]
    print(model.run(batches).mean())


if __name__ == "__main__":
    main()
