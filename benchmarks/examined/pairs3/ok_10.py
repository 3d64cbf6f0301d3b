"""Cloth simulation in Warp with a pinned telemetry ring."""
from collections import deque

import numpy as np
import warp as wp

wp.init()


@wp.kernel
def integrate(x: wp.array(dtype=wp.vec3), v: wp.array(dtype=wp.vec3), dt: float):
    i = wp.tid()
    v[i] = v[i] + wp.vec3(0.0, -9.81, 0.0) * dt
    x[i] = x[i] + v[i] * dt


class Telemetry:
    """Keeps the last few particle states on the host."""

    def __init__(self, n, device, depth=4):
        self.device = wp.get_device(device)
        self.stream = wp.Stream(self.device)
        self.free = deque(wp.empty(n, dtype=wp.vec3, device="cpu", pinned=True) for _ in range(depth))
        self.pending = deque()

    def capture(self, x):
        if not self.free:
            self.pop()
        host = self.free.popleft()
        self.stream.wait_stream(self.device.stream)
        wp.copy(host, x, stream=self.stream)
        event = self.stream.record_event()
        self.device.stream.wait_event(event)
        self.pending.append((event, host))

    def pop(self):
        event, host = self.pending.popleft()
        wp.synchronize_event(event)
        height = float(host.numpy()[:, 1].mean())
        self.free.append(host)
        return height

    def drain(self):
        while self.pending:
            yield self.pop()


def main(n=1 << 20, frames=240, device="cuda:0"):
    with wp.ScopedDevice(device):
        x = wp.array(np.random.rand(n, 3), dtype=wp.vec3)
        v = wp.zeros(n, dtype=wp.vec3)
        log = Telemetry(n, device)
        for frame in range(frames):
            wp.launch(integrate, dim=n, inputs=[x, v, 1.0 / 240.0])
            if frame % 8 == 0:
                log.capture(x)
        print(list(log.drain()))


if __name__ == "__main__":
    main()
