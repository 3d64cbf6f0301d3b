"""Pose tracker: replays a captured Warp optimisation step for every camera frame."""
import numpy as np
import warp as wp

wp.init()


@wp.kernel
def residual(pose: wp.array(dtype=float), keypoints: wp.array(dtype=float), r: wp.array(dtype=float)):
    i = wp.tid()
    r[i] = pose[i] * pose[i] - keypoints[i]


@wp.kernel
def update(pose: wp.array(dtype=float), r: wp.array(dtype=float), step: float):
    i = wp.tid()
    pose[i] = pose[i] - step * 2.0 * pose[i] * r[i]


class PoseTracker:
    def __init__(self, n, device="cuda:0", rounds=10):
        self.device, self.n, self.rounds = device, n, rounds
        self.pose = wp.full(n, value=1.0, dtype=float, device=device)
        self.r = wp.zeros(n, dtype=float, device=device)
        self.keypoints = wp.zeros(n, dtype=float, device=device)
        self.graph = None

    def _rounds(self):
        for _ in range(self.rounds):
            wp.launch(residual, dim=self.n, inputs=[self.pose, self.keypoints], outputs=[self.r],
                      device=self.device)
            wp.launch(update, dim=self.n, inputs=[self.pose, self.r, 0.05], device=self.device)

    def track(self, keypoints):
        self.keypoints = wp.array(keypoints, dtype=float, device=self.device)
        if self.graph is None:
            wp.load_module(device=self.device)
            with wp.ScopedCapture(device=self.device) as capture:
                self._rounds()
            self.graph = capture.graph
        wp.capture_launch(self.graph)
        return self.pose.numpy()


def camera(frames, n):
    rng = np.random.default_rng(5)
    base = rng.uniform(0.5, 1.5, n)
    for t in range(frames):
        yield (base + 0.05 * np.sin(t / 10)).astype(np.float32)


if __name__ == "__main__":
    tracker = PoseTracker(1 << 15)
    for obs in camera(300, 1 << 15):
        pose = tracker.track(obs)
    print(np.abs(pose).mean())
