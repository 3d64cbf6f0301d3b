"""Merge point clouds of several sensors into an occupancy grid."""
import cupy as cp
import numpy as np


def rotation(yaw):
    c, s = np.cos(yaw), np.sin(yaw)
    return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]], np.float32)


class Sensor:
    def __init__(self, name, yaw, points):
        self.name = name
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.done = cp.cuda.Event(disable_timing=True)
        with self.stream:
            self.pose = cp.asarray(rotation(yaw))
            self.cloud = cp.zeros((points, 3), cp.float32)

    def update(self, scan, after):
        self.stream.wait_event(after)
        with self.stream:
            cp.matmul(cp.asarray(scan), self.pose, out=self.cloud)
            self.done.record()


class Merger:
    def __init__(self, sensors, cell=0.5, size=512):
        self.sensors = {s.name: s for s in sensors}
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.idle = cp.cuda.Event(disable_timing=True)
        self.cell, self.size = cell, size
        with self.stream:
            self.grid = cp.zeros((size, size), cp.float32)

    def cycle(self, scans):
        for name, scan in scans.items():
            self.sensors[name].update(scan, self.idle)
        with self.stream:
            for sensor in self.sensors.values():
                self.stream.wait_event(sensor.done)
            for sensor in self.sensors.values():
                ij = (sensor.cloud[:, :2] / self.cell).astype(cp.int32) + self.size // 2
                ij = cp.clip(ij, 0, self.size - 1)
                cp.add.at(self.grid, (ij[:, 0], ij[:, 1]), np.float32(1))
            self.idle.record()

    def map(self):
        with self.stream:
            return cp.asnumpy(self.grid)


def main(cycles=200, points=1 << 16):
    sensors = [Sensor(n, y, points) for n, y in (("front", 0.0), ("left", 1.57), ("right", -1.57))]
    merger = Merger(sensors)
    rng = np.random.default_rng(0)
    for _ in range(cycles):
        merger.cycle({s.name: rng.normal(0, 40, (points, 3)).astype(np.float32) for s in sensors})
    np.save("grid.npy", merger.map())


if __name__ == "__main__":
    main()
