"""Three-stage numba pipeline: upload, kernel and download have separate streams."""
import math

import numpy as np
from numba import cuda


@cuda.jit
def loudness(x, y):
    i = cuda.grid(1)
    if i < x.shape[0]:
        y[i] = 20.0 * math.log10(abs(x[i]) + 1e-6)


class Stage:
    def __init__(self, n):
        self.host_in = cuda.pinned_array(n, dtype=np.float32)
        self.host_out = cuda.pinned_array(n, dtype=np.float32)
        self.dev_in = cuda.device_array(n, dtype=np.float32)
        self.dev_out = cuda.device_array(n, dtype=np.float32)
        self.uploaded = cuda.event(timing=False)
        self.computed = cuda.event(timing=False)
        self.stored = cuda.event(timing=False)
        self.count = 0


class Pipeline:
    def __init__(self, n, depth=3):
        self.n = n
        self.up, self.work, self.down = cuda.stream(), cuda.stream(), cuda.stream()
        self.stages = [Stage(n) for _ in range(depth)]

    def _take(self, stage):
        stage.stored.synchronize()
        result = stage.host_out[:stage.count].copy()
        stage.count = 0
        return result

    def _push(self, stage, block):
        stage.host_in[:len(block)] = block
        stage.host_in[len(block):] = 0
        stage.dev_in.copy_to_device(stage.host_in, stream=self.up)
        stage.uploaded.record(self.up)
        stage.uploaded.wait(self.work)
        loudness[(self.n + 127) // 128, 128, self.work](stage.dev_in, stage.dev_out)
        stage.computed.record(self.work)
        stage.computed.wait(self.down)
        stage.dev_out.copy_to_host(stage.host_out, stream=self.down)
        stage.stored.record(self.down)
        stage.count = len(block)

    def process(self, blocks):
        results = []
        try:
            turn = 0
            for block in blocks:
                if len(block) == 0:
                    continue
                stage = self.stages[turn % len(self.stages)]
                if stage.count:
                    results.append(self._take(stage))
                self._push(stage, block)
                turn += 1
            for k in range(len(self.stages)):
                stage = self.stages[(turn + k) % len(self.stages)]
                if stage.count:
                    results.append(self._take(stage))
        finally:
            for stream in (self.up, self.work, self.down):
                stream.synchronize()
            for stage in self.stages:
                stage.count = 0
        return results


def main():
    rng = np.random.default_rng(0)
    blocks = [rng.random(size, dtype=np.float32) for size in (4096, 4096, 17, 4096, 0, 900)]
    pipeline = Pipeline(4096)
    for block, got in zip([b for b in blocks if len(b)], pipeline.process(blocks)):
        np.testing.assert_allclose(got, 20 * np.log10(block + 1e-6), rtol=1e-3, atol=1e-3)


if __name__ == "__main__":
    main()
