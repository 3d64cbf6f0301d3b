import numpy as np
import warp as wp


@wp.kernel
def integrate(x: wp.array(dtype=wp.vec3), v: wp.array(dtype=wp.vec3), dt: float):
    i = wp.tid()
    v[i] = v[i] + wp.vec3(0.0, -9.81, 0.0) * dt
    x[i] = x[i] + v[i] * dt


@wp.kernel
def snapshot(x: wp.array(dtype=wp.vec3), height: wp.array(dtype=float)):
    i = wp.tid()
    height[i] = x[i][1]


class Recorder:
    """Ships snapshots to pinned memory while the simulation goes on."""

    def __init__(self, n: int, device: str, depth: int = 2) -> None:
        self.stream = wp.Stream(device)
        self.device = [wp.zeros(n, dtype=float, device=device) for _ in range(depth)]
        self.host = [wp.zeros(n, dtype=float, device="cpu", pinned=True) for _ in range(depth)]
        self.taken = [wp.Event(device) for _ in range(depth)]
        self.landed = [wp.Event(device) for _ in range(depth)]
        self.queue: list[int] = []
        self.count = 0
        self.means: list[float] = []

    def _drain_one(self) -> None:
        slot = self.queue.pop(0)
        wp.synchronize_event(self.landed[slot])
        self.means.append(float(self.host[slot].numpy().mean()))

    def capture(self, x: wp.array, sim: wp.Stream) -> None:
        slot = self.count % len(self.device)
        self.count += 1
        if len(self.queue) == len(self.device):
            self._drain_one()
        wp.launch(snapshot, dim=x.shape[0], inputs=[x, self.device[slot]], stream=sim)
        sim.record_event(self.taken[slot])
        self.stream.wait_event(self.taken[slot])
        wp.copy(self.host[slot], self.device[slot], stream=self.stream)
        self.stream.record_event(self.landed[slot])
        self.queue.append(slot)

    def close(self) -> list[float]:
        while self.queue:
            self._drain_one()
        return self.means


def main() -> None:
    wp.init()
    device = "cuda:0"
    n = 100_000
    sim = wp.Stream(device)
    start = np.random.default_rng(0).uniform(10.0, 20.0, (n, 3)).astype(np.float32)
    x = wp.array(start, dtype=wp.vec3, device=device)
    v = wp.zeros(n, dtype=wp.vec3, device=device)
    recorder = Recorder(n, device)
    wp.synchronize_device(device)
    for step in range(240):
        wp.launch(integrate, dim=n, inputs=[x, v, 1.0 / 240.0], stream=sim)
        if step % 8 == 0:
            recorder.capture(x, sim)
    print(recorder.close()[-1])
    wp.synchronize_device(device)


if __name__ == "__main__":
    main()
