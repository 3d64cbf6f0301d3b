"""Particle batches whose buffers come from a device pool and cross streams (cuda.core)."""
from collections import deque

import numpy as np
from cuda.core.experimental import (Device, LaunchConfig, LegacyPinnedMemoryResource,
                                    Program, ProgramOptions, StreamOptions, launch)

CODE = r"""
extern "C" __global__ void seed(float *pos, float *vel, int n, unsigned salt) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned s = (i + 1u) * 2654435761u ^ (salt * 40503u);
    s ^= s >> 15; s *= 2246822519u; s ^= s >> 13;
    pos[i] = (s & 0xffff) / 65536.0f;
    vel[i] = ((s >> 16) & 0xffff) / 65536.0f - 0.5f;
}
extern "C" __global__ void drift(float *pos, const float *vel, int n, float dt) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) pos[i] += dt * vel[i];
}
extern "C" __global__ void bins(const float *pos, int n, int *hist) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int b = (int)floorf(pos[i] * 32.0f);
        atomicAdd(&hist[min(max(b, 0), 31)], 1);
    }
}
extern "C" __global__ void clear(int *hist) { hist[threadIdx.x] = 0; }
"""


class Ticket:
    def __init__(self, pinned):
        self.buffer = pinned.allocate(32 * 4)
        self.view = np.from_dlpack(self.buffer).view(np.int32)
        self.done = None
        self.batch = None


class ParticleLab:
    def __init__(self, n, tickets=4):
        self.dev = Device(0)
        self.dev.set_current()
        self.n = n
        opts = StreamOptions(nonblocking=True)
        self.birth = self.dev.create_stream(options=opts)
        self.motion = self.dev.create_stream(options=opts)
        program = Program(CODE, code_type="c++",
                          options=ProgramOptions(std="c++17", arch=f"sm_{self.dev.arch}"))
        module = program.compile("cubin", name_expressions=())
        self.k = {n: module.get_kernel(n) for n in ("seed", "drift", "bins", "clear")}
        self.wide = LaunchConfig(grid=(n + 255) // 256, block=256)
        self.narrow = LaunchConfig(grid=1, block=32)
        pinned = LegacyPinnedMemoryResource()
        self.free = deque(Ticket(pinned) for _ in range(tickets))
        self.busy = deque()
        self.counts = np.zeros(32, dtype=np.int64)

    def _spawn(self, batch):
        size = self.n * 4
        pos = self.dev.allocate(size, stream=self.birth)
        vel = self.dev.allocate(size, stream=self.birth)
        launch(self.birth, self.wide, self.k["seed"], pos, vel,
               np.int32(self.n), np.uint32(batch))
        return pos, vel, self.birth.record()

    def _settle(self):
        ticket = self.busy.popleft()
        ticket.done.sync()
        self.counts += ticket.view
        self.free.append(ticket)

    def run(self, batch, steps):
        if not self.free:
            self._settle()
        ticket = self.free.popleft()
        pos, vel, born = self._spawn(batch)
        self.motion.wait(born)
        n = np.int32(self.n)
        for _ in range(steps):
            launch(self.motion, self.wide, self.k["drift"], pos, vel, n, np.float32(0.01))
        vel.close(self.motion)
        hist = self.dev.allocate(32 * 4, stream=self.motion)
        launch(self.motion, self.narrow, self.k["clear"], hist)
        launch(self.motion, self.wide, self.k["bins"], pos, n, hist)
        pos.close(self.motion)
        hist.copy_to(ticket.buffer, stream=self.motion)
        hist.close(self.motion)
        ticket.done = self.motion.record()
        ticket.batch = batch
        self.busy.append(ticket)

    def finish(self):
        while self.busy:
            self._settle()
        for ticket in self.free:
            ticket.view = None
            ticket.buffer.close()
        return self.counts


def main():
    lab = ParticleLab(200_000)
    for batch in range(150):
        lab.run(batch, steps=10 + batch % 5)
    counts = lab.finish()
    assert counts.sum() == 150 * 200_000
    print(counts.tolist())


if __name__ == "__main__":
    main()
