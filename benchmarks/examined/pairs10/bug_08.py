"""Cloth-like spring grid in Warp with a probe for live plots."""
import numpy as np
import warp as wp


@wp.kernel
def relax_grid(height: wp.array2d(dtype=float), speed: wp.array2d(dtype=float), dt: float):
    i, j = wp.tid()
    n = height.shape[0]
    lap = -4.0 * height[i, j]
    lap += height[wp.max(i - 1, 0), j] + height[wp.min(i + 1, n - 1), j]
    lap += height[i, wp.max(j - 1, 0)] + height[i, wp.min(j + 1, n - 1)]
    speed[i, j] = 0.999 * (speed[i, j] + lap * dt)


@wp.kernel
def move_grid(height: wp.array2d(dtype=float), speed: wp.array2d(dtype=float), dt: float):
    i, j = wp.tid()
    height[i, j] = height[i, j] + speed[i, j] * dt


class Probe:
    """Brings the height field to the host now and then."""

    def __init__(self, shape, device):
        self.device = device
        self.stream = wp.Stream(device)
        self.frozen = wp.empty(shape, dtype=float, device=device)
        self.host = wp.empty(shape, dtype=float, device="cpu", pinned=True)
        self.finished = wp.Event(device)
        self.history = []

    def sample(self, height):
        wp.copy(self.frozen, height)
        self.stream.wait_stream(wp.get_stream(self.device))
        wp.copy(self.host, self.frozen, stream=self.stream)
        self.stream.record_event(self.finished)
        field = self.host.numpy()
        self.history.append((float(field.min()), float(field.max())))
        wp.synchronize_event(self.finished)


def simulate(n=2048, steps=1200):
    wp.init()
    device = wp.get_device("cuda:0")
    start = np.zeros((n, n), dtype=np.float32)
    start[n // 2, n // 2] = 10.0
    with wp.ScopedDevice(device):
        height = wp.array(start, dtype=float)
        speed = wp.zeros((n, n), dtype=float)
        probe = Probe((n, n), device)
        for step in range(steps):
            wp.launch(relax_grid, dim=(n, n), inputs=[height, speed, 0.1])
            wp.launch(move_grid, dim=(n, n), inputs=[height, speed, 0.1])
            if step % 100 == 0:
                probe.sample(height)
    return probe.history


if __name__ == "__main__":
    for low, high in simulate():
        print(f"{low:.4f} {high:.4f}")
