"""Warp: substeps captured once, controls assigned before every launch."""
import numpy as np
import warp as wp

wp.init()


@wp.kernel
def drive(q: wp.array(dtype=float), qd: wp.array(dtype=float), u: wp.array(dtype=float), dt: float):
    i = wp.tid()
    a = u[i] - 4.0 * q[i] - 0.1 * qd[i]
    qd[i] = qd[i] + a * dt
    q[i] = q[i] + qd[i] * dt


class Plant:
    def __init__(self, n, substeps, device="cuda:0"):
        self.device = device
        self.q = wp.zeros(n, dtype=float, device=device)
        self.qd = wp.zeros(n, dtype=float, device=device)
        self.u = wp.zeros(n, dtype=float, device=device)
        self.u_host = wp.zeros(n, dtype=float, device="cpu", pinned=True)
        self.q_host = wp.zeros(n, dtype=float, device="cpu", pinned=True)
        self.stream = wp.Stream(device)
        self.dt = 1e-3
        wp.load_module(device=device)
        wp.synchronize_device(device)
        with wp.ScopedStream(self.stream):
            with wp.ScopedCapture(stream=self.stream) as capture:
                for _ in range(substeps):
                    wp.launch(drive, dim=n, inputs=[self.q, self.qd, self.u, self.dt])
        self.graph = capture.graph

    def step(self, control):
        self.u_host.numpy()[:] = control
        with wp.ScopedStream(self.stream):
            wp.copy(self.u, self.u_host)
            wp.capture_launch(self.graph, stream=self.stream)
            wp.copy(self.q_host, self.q)
        wp.synchronize_stream(self.stream)
        return self.q_host.numpy().copy()


def main():
    plant = Plant(1024, 10)
    target = np.linspace(-1, 1, 1024).astype(np.float32)
    q = np.zeros(1024, np.float32)
    for _ in range(200):
        q = plant.step(20.0 * (target - q))
    return float(np.abs(q - target).max())


if __name__ == "__main__":
    print(main())
