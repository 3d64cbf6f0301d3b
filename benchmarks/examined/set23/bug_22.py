"""Feature fan-out: one producer, several consumer streams, pool-backed scratch memory."""
import numpy as np
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

SOURCE = r"""
extern "C" __global__ void make_features(float* out, const float* raw, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = raw[i] * raw[i];
}
extern "C" __global__ void score(float* out, const float* feats, float w, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] += w * feats[i];
}
"""


class FanOut:
    def __init__(self, n, heads=3):
        self.dev = Device()
        self.dev.set_current()
        arch = f"sm_{self.dev.arch}"
        mod = Program(SOURCE, "c++", ProgramOptions(arch=arch)).compile("cubin")
        self.make_features = mod.get_kernel("make_features")
        self.score = mod.get_kernel("score")
        self.n = np.int32(n)
        self.nbytes = 4 * n
        self.config = LaunchConfig(grid=(n + 255) // 256, block=256)
        self.mr = self.dev.memory_resource
        self.producer = self.dev.create_stream()
        self.workers = [self.dev.create_stream() for _ in range(heads)]
        self.weights = [np.float32(1.0 / (h + 1)) for h in range(heads)]
        self.scores = []
        for worker in self.workers:
            out = self.mr.allocate(self.nbytes, stream=worker)
            out.fill(0, stream=worker)
            self.scores.append(out)

    def step(self, raw):
        feats = self.mr.allocate(self.nbytes, stream=self.producer)
        launch(self.producer, self.config, self.make_features, feats, raw, self.n)
        ready = self.producer.record()
        for worker, out, weight in zip(self.workers, self.scores, self.weights):
            worker.wait(ready)
            launch(worker, self.config, self.score, out, feats, weight, self.n)
        feats.close(self.workers[-1])

    def finish(self):
        for worker in self.workers:
            worker.sync()
        return self.scores


def run(n=1 << 22, steps=64):
    fan = FanOut(n)
    raw = fan.mr.allocate(fan.nbytes, stream=fan.producer)
    raw.fill(1, stream=fan.producer)
    for _ in range(steps):
        fan.step(raw)
    scores = fan.finish()
    raw.close(fan.producer)
    fan.producer.sync()
    return scores
