"""Maximum intensity projection of volumes, split over streams."""
import cupy as cp
import cupyx
import numpy as np


class SlabProjector:
    def __init__(self, shape, lanes=4):
        self.lanes = [cp.cuda.Stream(non_blocking=True) for _ in range(lanes)]
        self.gate = cp.cuda.Stream(non_blocking=True)
        self.slabs = np.array_split(np.arange(shape[0]), lanes)
        self.host = cupyx.empty_pinned((lanes,) + tuple(shape[1:]), np.float32)

    def _project(self, volume, k):
        lane = self.lanes[k]
        with lane:
            slab = cp.asarray(volume[self.slabs[k][0]:self.slabs[k][-1] + 1])
            mip = slab.max(axis=0)
            mip.get(stream=lane, out=self.host[k], blocking=False)
            return mip, lane.record()

    def __call__(self, volume):
        held = []
        for k in range(len(self.lanes)):
            mip, done = self._project(volume, k)
            self.gate.wait_event(done)
            held.append(mip)
        self.gate.synchronize()
        return self.host.max(axis=0)


def main():
    scans = np.load("scans.npy", mmap_mode="r")
    project = SlabProjector(scans.shape[1:])
    for i, scan in enumerate(scans):
        np.save(f"mip_{i:03d}.npy", project(np.ascontiguousarray(scan, dtype=np.float32)))


if __name__ == "__main__":
    main()
