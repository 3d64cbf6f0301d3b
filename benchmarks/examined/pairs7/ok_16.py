"""Per-shot traveltime misfit; the kernel writes into host memory mapped to the device."""
import numpy as np
from numba import cuda

RECEIVERS = 4096
SHOTS = 32


@cuda.jit
def misfit(observed, velocity, offsets, out):
    i = cuda.grid(1)
    if i < out.size:
        d = observed[i] - offsets[i] / velocity
        out[i] = d * d


class Shot:
    def __init__(self, observed, offsets):
        self.stream = cuda.stream()
        self.observed = cuda.to_device(observed)
        self.offsets = offsets
        self.out = cuda.mapped_array(RECEIVERS, dtype=np.float32)
        self.event = cuda.event(timing=False)

    def launch(self, velocity):
        misfit[RECEIVERS // 128, 128, self.stream](self.observed, np.float32(velocity), self.offsets, self.out)
        self.event.record(self.stream)

    def value(self):
        self.event.synchronize()
        return float(self.out.sum())


def search(shots, candidates):
    best = (np.inf, None)
    for velocity in candidates:
        for shot in shots:
            shot.launch(velocity)
        total = sum(shot.value() for shot in shots)
        best = min(best, (total, velocity))
    return best


def main():
    rng = np.random.default_rng(19)
    offsets = np.linspace(10, 5000, RECEIVERS, dtype=np.float32)
    d_offsets = cuda.to_device(offsets)
    shots = [
        Shot((offsets / 2200.0 + rng.normal(0, 1e-3, RECEIVERS)).astype(np.float32), d_offsets)
        for _ in range(SHOTS)
    ]
    print(search(shots, np.linspace(1800, 2600, 41)))


if __name__ == "__main__":
    main()
