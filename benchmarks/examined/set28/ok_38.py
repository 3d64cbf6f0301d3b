"""Compaction of active tracks with cuda.core: a count goes to the host between two kernels."""
import numpy as np
from cuda.core.experimental import (
    Device,
    LaunchConfig,
    LegacyPinnedMemoryResource,
    Program,
    ProgramOptions,
    launch,
)

CODE = r"""
extern "C" __global__ void step_tracks(float *energy, int *alive, int n, float loss) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    energy[i] -= loss * (1.0f + 0.001f * (i % 97));
    alive[i] = energy[i] > 0.0f;
}
extern "C" __global__ void count_alive(const int *alive, int n, int *total) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && alive[i]) atomicAdd(total, 1);
}
extern "C" __global__ void clear(int *total) { *total = 0; }
extern "C" __global__ void compact(const float *energy, const int *alive, int n,
                                   float *out, int *cursor) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && alive[i]) out[atomicAdd(cursor, 1)] = energy[i];
}
"""


class TrackStepper:
    def __init__(self, energies):
        self.device = Device(0)
        self.device.set_current()
        self.stream = self.device.create_stream()
        self.side = self.device.create_stream()
        options = ProgramOptions(std="c++17", arch=f"sm_{self.device.arch}")
        module = Program(CODE, code_type="c++", options=options).compile("cubin")
        self.kernels = {
            name: module.get_kernel(name)
            for name in ("step_tracks", "count_alive", "clear", "compact")
        }
        self.n = energies.size
        pinned = LegacyPinnedMemoryResource()
        self.staging = pinned.allocate(energies.nbytes)
        np.from_dlpack(self.staging).view(np.float32)[:] = energies
        self.count = pinned.allocate(4)
        self.host_count = np.from_dlpack(self.count).view(np.int32)
        self.energy = self.device.allocate(4 * self.n, stream=self.stream)
        self.spare = self.device.allocate(4 * self.n, stream=self.stream)
        self.alive = self.device.allocate(4 * self.n, stream=self.stream)
        self.total = self.device.allocate(4, stream=self.stream)
        self.cursor = self.device.allocate(4, stream=self.stream)
        self.energy.copy_from(self.staging, stream=self.stream)

    def _launch(self, stream, name, n, *args):
        config = LaunchConfig(grid=(n + 255) // 256, block=256 if n > 1 else 1)
        launch(stream, config, self.kernels[name], *args)

    def step(self, loss):
        s, n = self.stream, self.n
        self._launch(s, "step_tracks", n, self.energy, self.alive, np.int32(n), np.float32(loss))
        self.side.wait(s.record())
        self._launch(self.side, "clear", 1, self.total)
        self._launch(self.side, "count_alive", n, self.alive, np.int32(n), self.total)
        self.total.copy_to(self.count, stream=self.side)
        counted = self.side.record()
        self._launch(s, "clear", 1, self.cursor)
        self._launch(
            s, "compact", n, self.energy, self.alive, np.int32(n), self.spare, self.cursor
        )
        self.energy, self.spare = self.spare, self.energy
        counted.sync()
        self.n = int(self.host_count[0])
        return self.n

    def run(self, loss=0.05, max_steps=200):
        steps = 0
        while self.n and steps < max_steps:
            self.step(loss)
            steps += 1
        self.stream.sync()
        return steps


def main():
    energies = np.random.default_rng(8).random(1 << 20, dtype=np.float32)
    print(TrackStepper(energies).run())


if __name__ == "__main__":
    main()
