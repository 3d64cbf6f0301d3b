"""Heat equation with snapshots that leave the device on a copy stream."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

KERNELS = SourceModule("""
__global__ void step(const float *u, float *w, int n, float c) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0 && i < n - 1) w[i] = u[i] + c * (u[i - 1] - 2.f * u[i] + u[i + 1]);
    else if (i < n) w[i] = u[i];
}
""")


class SnapshotRing:
    """Device staging slots with a page-locked mirror for each."""

    def __init__(self, n, depth):
        self.slots = []
        for _ in range(depth):
            self.slots.append({
                "dev": drv.mem_alloc(n * 4),
                "host": drv.pagelocked_empty(n, np.float32),
                "staged": drv.Event(drv.event_flags.DISABLE_TIMING),
                "drained": drv.Event(drv.event_flags.DISABLE_TIMING),
                "step": None,
            })
        self.next = 0

    def acquire(self):
        slot = self.slots[self.next]
        self.next = (self.next + 1) % len(self.slots)
        return slot


class HeatSolver:
    def __init__(self, u0, c):
        self.n = u0.size
        self.c = np.float32(c)
        self.step_fn = KERNELS.get_function("step")
        self.compute = drv.Stream()
        self.copy = drv.Stream()
        self.u = drv.mem_alloc(u0.nbytes)
        self.w = drv.mem_alloc(u0.nbytes)
        drv.memcpy_htod(self.u, u0)
        self.ring = SnapshotRing(self.n, depth=2)
        self.history = {}

    def _advance(self):
        self.step_fn(self.u, self.w, np.int32(self.n), self.c, block=(256, 1, 1),
                     grid=((self.n + 255) // 256, 1), stream=self.compute)
        self.u, self.w = self.w, self.u

    def _collect(self, slot):
        if slot["step"] is not None:
            slot["drained"].synchronize()
            self.history[slot["step"]] = float(slot["host"].sum())
            slot["step"] = None

    def _snapshot(self, step):
        slot = self.ring.acquire()
        self._collect(slot)
        drv.memcpy_dtod_async(slot["dev"], self.u, self.n * 4, self.compute)
        slot["staged"].record(self.compute)
        self.copy.wait_for_event(slot["staged"])
        drv.memcpy_dtoh_async(slot["host"], slot["dev"], self.copy)
        slot["drained"].record(self.copy)
        slot["step"] = step

    def run(self, steps, every):
        for step in range(steps):
            self._advance()
            if step % every == 0:
                self._snapshot(step)
        for _ in self.ring.slots:
            self._collect(self.ring.acquire())
        out = np.empty(self.n, np.float32)
        drv.memcpy_dtoh(out, self.u)
        return out


def main():
    u0 = np.zeros(1 << 20, np.float32)
    u0[u0.size // 2] = 1.0
    solver = HeatSolver(u0, 0.25)
    final = solver.run(200, every=10)
    print(final.max(), solver.history)


if __name__ == "__main__":
    main()
