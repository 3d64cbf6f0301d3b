import numpy as np
import warp as wp


@wp.kernel
def gather_cells(points: wp.array(dtype=wp.vec2), scale: float, side: int,
                 counts: wp.array(dtype=wp.int32)):
    i = wp.tid()
    x = wp.clamp(int(points[i][0] * scale), 0, side - 1)
    y = wp.clamp(int(points[i][1] * scale), 0, side - 1)
    wp.atomic_add(counts, y * side + x, 1)


@wp.kernel
def drift(points: wp.array(dtype=wp.vec2), counts: wp.array(dtype=wp.int32),
          scale: float, side: int, step: float, moved: wp.array(dtype=wp.vec2)):
    i = wp.tid()
    p = points[i]
    x = wp.clamp(int(p[0] * scale), 0, side - 1)
    y = wp.clamp(int(p[1] * scale), 0, side - 1)
    right = counts[y * side + wp.min(x + 1, side - 1)]
    left = counts[y * side + wp.max(x - 1, 0)]
    up = counts[wp.min(y + 1, side - 1) * side + x]
    down = counts[wp.max(y - 1, 0) * side + x]
    push = wp.vec2(float(left - right), float(down - up)) * step
    moved[i] = wp.vec2(wp.clamp(p[0] + push[0], 0.0, 1.0), wp.clamp(p[1] + push[1], 0.0, 1.0))


class Crowd:
    """Moves points away from crowded cells; density images leave on a second stream."""

    def __init__(self, points, side=32, device="cuda:0"):
        self.device = wp.get_device(device)
        self.side = side
        self.size = len(points)
        self.compute = wp.Stream(self.device)
        self.export = wp.Stream(self.device)
        with wp.ScopedDevice(self.device):
            self.points = wp.array(points, dtype=wp.vec2)
            self.moved = wp.zeros(self.size, dtype=wp.vec2)
            self.counts = [wp.zeros(side * side, dtype=wp.int32) for _ in range(2)]
        self.images = [wp.zeros(side * side, dtype=wp.int32, device="cpu", pinned=True)
                       for _ in range(2)]
        self.counted = [wp.Event(self.device) for _ in range(2)]
        self.saved = [wp.Event(self.device) for _ in range(2)]
        wp.synchronize_device(self.device)
        self.history = []
        self.waiting = [False, False]
        self.steps = 0

    def _collect(self, slot):
        if self.waiting[slot]:
            wp.synchronize_event(self.saved[slot])
            self.history.append(self.images[slot].numpy().copy())
            self.waiting[slot] = False

    def step(self, amount=1e-5):
        slot = self.steps % 2
        self._collect(slot)
        with wp.ScopedStream(self.compute, sync_enter=False):
            self.counts[slot].zero_()
            wp.launch(gather_cells, dim=self.size, device=self.device,
                      inputs=[self.points, float(self.side), self.side, self.counts[slot]])
            self.compute.record_event(self.counted[slot])
            wp.launch(drift, dim=self.size, device=self.device,
                      inputs=[self.points, self.counts[slot], float(self.side), self.side,
                              amount, self.moved])
            self.points, self.moved = self.moved, self.points
        self.export.wait_event(self.counted[slot])
        wp.copy(self.images[slot], self.counts[slot], stream=self.export)
        self.export.record_event(self.saved[slot])
        self.waiting[slot] = True
        self.steps += 1

    def finish(self):
        for offset in range(2):
            self._collect((self.steps + offset) % 2)
        wp.synchronize_stream(self.compute)
        history, self.history = self.history, []
        return self.points.numpy(), history


def main():
    wp.init()
    rng = np.random.default_rng(0)
    crowd = Crowd(rng.normal(0.5, 0.1, (100_000, 2)).clip(0, 1).astype(np.float32))
    for _ in range(25):
        crowd.step()
    points, history = crowd.finish()
    print(len(history), {int(image.sum()) for image in history}, points.std(axis=0))
    crowd.step()
    print(len(crowd.finish()[1]), history[0].max(), history[-1].max())


if __name__ == "__main__":
    main()
