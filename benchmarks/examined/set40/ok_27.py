"""Particle column in Warp; bounds are read back one frame late."""
import numpy as np
import warp as wp

wp.init()


@wp.kernel
def drift(x: wp.array(dtype=wp.vec3), seed: int, dt: float):
    i = wp.tid()
    rng = wp.rand_init(seed, i)
    push = wp.vec3(wp.randf(rng) - 0.5, wp.randf(rng) - 0.45, wp.randf(rng) - 0.5)
    x[i] = x[i] + push * dt


@wp.kernel
def bounds(x: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
    i = wp.tid()
    p = x[i]
    wp.atomic_min(out, 0, p[1])
    wp.atomic_max(out, 1, p[1])


class Readback:
    def __init__(self, device):
        self.host = wp.zeros(2, dtype=float, device="cpu", pinned=True)
        self.event = wp.Event(device)
        self.frame = -1


class Column:
    def __init__(self, n, device):
        rng = np.random.default_rng(0)
        self.device = device
        self.stream = wp.get_stream(device)
        self.x = wp.array(rng.random((n, 3), dtype=np.float32), dtype=wp.vec3, device=device)
        self.extent = wp.zeros(2, dtype=float, device=device)
        self.slots = [Readback(device), Readback(device)]

    def frame(self, k, dt):
        wp.launch(drift, dim=self.x.shape[0], inputs=[self.x, k, dt], device=self.device)
        self.extent.zero_()
        wp.launch(bounds, dim=self.x.shape[0], inputs=[self.x, self.extent], device=self.device)
        slot = self.slots[k % 2]
        wp.copy(slot.host, self.extent)
        self.stream.record_event(slot.event)
        slot.frame = k

    def extent_of(self, k):
        slot = self.slots[k % 2]
        assert slot.frame == k
        wp.synchronize_event(slot.event)
        lo, hi = slot.host.numpy()
        return float(lo), float(hi)


class Log:
    def __init__(self):
        self.rows = []

    def add(self, frame, lo, hi):
        self.rows.append((frame, lo, hi))

    def summary(self):
        spans = [hi - lo for _, lo, hi in self.rows]
        return min(spans), max(spans)


def main(n=200_000, frames=100):
    device = wp.get_preferred_device()
    col = Column(n, device)
    log = Log()
    for k in range(frames):
        col.frame(k, 0.02)
        if k > 0:
            log.add(k - 1, *col.extent_of(k - 1))
    log.add(frames - 1, *col.extent_of(frames - 1))
    print("span range", log.summary())


if __name__ == "__main__":
    main()
